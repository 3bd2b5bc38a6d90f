"""Settings for strategies that do nothing without settings, and for all that is done on request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rescheduler.planning.api import Strategy
from rescheduler.planning.settings import StrategySettings
from rescheduler.strategies import discover

SampleSettings = Mapping[str, Mapping[str, object]]
SETTINGS: SampleSettings = {"Topology": {"groupLabel": "version"}}
MANY: SampleSettings = {
    **SETTINGS,
    "NodeAffinity": {"includePreferred": True},
    "NodeTaints": {"includePreferNoSchedule": True},
    "TopologySpread": {"constraints": ["DoNotSchedule", "ScheduleAnyway"]},
    "Consolidation": {"maxUtilization": 80},
}
"""All that is done on request."""
NARROW: SampleSettings = {
    **MANY,
    "ResourceOptimization": {"lowThresholds": {"cpu": 30, "memory": 30}, "excludedNamespaces": ["shop"]},
    "LoadBalancing": {"weights": {"cpu": 2, "memory": 0.5}, "podSelector": "role!=db"},
    "Consolidation": {"maxUtilizationOf": {"cpu": 80, "memory": 50}, "minUnderusedNodes": 2},
}
"""The same, and what is done is narrowed down."""


def samples(names: Iterable[str] = (), settings: SampleSettings = SETTINGS) -> list[Strategy[StrategySettings]]:
    """These strategies, or all of them, ready to plan with."""
    known = discover()
    return [known[name](known[name].settings_type.model_validate(settings.get(name, {}))) for name in names or known]

"""Configuration files for tests: strategies' settings to check them against, and builders of both forms' text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from pydantic import Field

from rescheduler.config.errors import ConfigErrors
from rescheduler.config.loader import load
from rescheduler.config.schema import Configuration
from rescheduler.planning.settings import StrategySettings


class Balancing(StrategySettings):
    """Settings with an inherited field."""

    imbalance_threshold: float = Field(default=50.0, gt=0, le=100, description="Spread that is accepted.")
    max_rounds: int = Field(default=5, ge=1, le=9, description="Rounds | tries.")


class Optimization(StrategySettings):
    cpu_threshold: float = Field(default=50.0, gt=0, le=100, description="Hot above.")
    memory_threshold: float = Field(default=50.0, gt=0, le=100, description="Hot above.")
    order: tuple[str, ...] = Field(default=("cpu",), description="Which first.")


class Maintenance(StrategySettings):
    pass


KNOWN: Mapping[str, type[StrategySettings]] = {
    "LoadBalancing": Balancing,
    "ResourceOptimization": Optimization,
    "NodeMaintenance": Maintenance,
}

NATIVE_HEADER = "apiVersion: rescheduler.io/v1alpha1\nkind: ReschedulerConfiguration\n"
SEED_HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def native(body: str = "") -> str:
    """A file of the native form."""
    return NATIVE_HEADER + body


def plugin_form(args: str = "{}", top: str = "") -> str:
    """A KubeSchedulerConfiguration whose second plugin is the Rescheduler."""
    return (
        f"{SEED_HEADER}{top}\nprofiles:\n- schedulerName: other\n- pluginConfig:\n"
        f"  - name: NodeResourcesFit\n    args: {{scoringStrategy: {{type: LeastAllocated}}}}\n"
        f"  - name: Rescheduler\n    args:\n{textwrap.indent(args, '      ')}\n"
    )


def parse(text: str, known: Mapping[str, type[StrategySettings]] = KNOWN) -> Configuration:
    """The configuration of a text that must be sound."""
    return load(text, "cluster.yaml", known)


def errors_of(text: str, known: Mapping[str, type[StrategySettings]] = KNOWN) -> list[str]:
    """The lines of errors of a text, without the file's name; none if it is sound."""
    try:
        load(text, "cluster.yaml", known)
    except ConfigErrors as errors:
        lines = str(errors).split("\n")
        assert all(line.startswith("cluster.yaml: ") for line in lines)
        return [line.removeprefix("cluster.yaml: ") for line in lines]
    return []

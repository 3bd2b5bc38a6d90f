"""Node pools: nodes with thresholds and strategies of their own, as a configuration file says them.

`schema` has a list of them; `checks` checks the strategies that they name; `configuration` makes `model.policy.Pool` of
each. What a pool does not say it takes from the fields of the same name at the top.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from rescheduler.config.errors import shown
from rescheduler.config.fields import Cycles, LabelSelector, ObjectName, Percent, Section
from rescheduler.model.policy import ThresholdMode, Thresholds

_FIELDS = {"cpu": "cpuThreshold", "memory": "memoryThreshold"}


def _check_resources(thresholds: dict[str, float]) -> dict[str, float]:
    for name in thresholds:
        if name in _FIELDS:
            raise ValueError(f"{shown(name)} has a field of its own: give {_FIELDS[name]} instead")
        if not name.strip():
            raise ValueError("a resource has no name: give one such as pods or nvidia.com/gpu")
    return thresholds


ResourceThresholds = Annotated[dict[str, Percent], AfterValidator(_check_resources)]
"""Per cent by the name of a resource other than CPU and memory."""


def _check_selects(selector: str) -> str:
    if not selector.strip():
        raise ValueError("selects every node: name the labels that the pool's nodes have, such as pool=gpu")
    return selector


class PoolFields(Section):
    """Nodes with thresholds and strategies of their own.

    A node belongs to the first pool whose `nodeSelector` selects it; nodes of none are under the fields at the top.
    What a pool does not say it takes from the field of the same name at the top. Strategies that go by load see only
    the nodes of their pool; every strategy takes pods only from nodes of pools in which it is enabled.
    """

    name: ObjectName = Field(description="What the pool is called, once.")
    node_selector: Annotated[LabelSelector, AfterValidator(_check_selects)] = Field(
        description="Labels of its nodes, such as `pool=gpu`."
    )
    cpu_threshold: Percent | None = Field(default=None, description="As `cpuThreshold`, for this pool.")
    memory_threshold: Percent | None = Field(default=None, description="As `memoryThreshold`, for this pool.")
    imbalance_threshold: Percent | None = Field(default=None, description="As `imbalanceThreshold`, for this pool.")
    thresholds: ResourceThresholds | None = Field(default=None, description="As `thresholds`, for this pool.")
    threshold_mode: ThresholdMode | None = Field(default=None, description="As `thresholdMode`, for this pool.")
    hot_after_cycles: Cycles | None = Field(default=None, description="As `hotAfterCycles`, for this pool.")
    enabled_strategies: tuple[str, ...] | None = Field(
        default=None, description="Strategies that run for this pool; `[]` runs none."
    )
    strategies: dict[str, dict[str, object]] | None = Field(
        default=None, description="Settings of strategies for this pool, over those at the top."
    )

    def within(self, top: Thresholds) -> Thresholds:
        """The pool's thresholds, where the top has these."""
        return Thresholds(
            cpu=top.cpu if self.cpu_threshold is None else self.cpu_threshold,
            memory=top.memory if self.memory_threshold is None else self.memory_threshold,
            others=top.others if self.thresholds is None else in_order(self.thresholds),
            mode=top.mode if self.threshold_mode is None else self.threshold_mode,
        )

    def said(self, names: Iterable[str]) -> dict[str, object]:
        """Those of these fields that the pool has a value of its own for."""
        dumped = self.model_dump(mode="json", by_alias=True)
        return {name: dumped[name] for name in names if dumped.get(name) is not None}


def in_order(thresholds: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Thresholds as the policy has them."""
    return tuple(sorted(thresholds.items()))

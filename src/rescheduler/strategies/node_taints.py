from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from rescheduler.model.selector import SelectorError, check_key, check_value
from rescheduler.model.shape import Shape, Taint, Toleration
from rescheduler.planning.api import PodMove, Proposals, Strategy, propose_each
from rescheduler.planning.columns import Mask
from rescheduler.planning.view import View
from rescheduler.strategies.support.settings import PodFilters, PodSelection
from rescheduler.strategies.support.violations import propose_until_stuck, sort_pods

_SOFT = "PreferNoSchedule"
_BY_THE_CLUSTER = tuple(
    f"node.kubernetes.io/{what}"
    for what in (
        *("unschedulable", "not-ready", "unreachable", "network-unavailable"),
        *("memory-pressure", "disk-pressure", "pid-pressure"),
    )
)


def _check_entry(entry: str) -> str:
    key, equal, value = entry.partition("=")
    try:
        check_key(key)
        check_value(key, value)
    except SelectorError as error:
        effect = " (an effect is not part of it)" if ":" in entry else ""
        raise ValueError(f"{entry!r} is not a taint such as `key` or `key=value`{effect}: {error}") from error
    if equal and not value:
        raise ValueError(f"{entry!r} has no value: write `{key}` for every value of it")
    return entry


TaintEntry = Annotated[str, AfterValidator(_check_entry)]


class NodeTaintsSettings(PodFilters):
    """Which taints count, and for which pods."""

    included_taints: tuple[TaintEntry, ...] = Field(
        (), description="Only these taints count, each a `key` or `key=value`; empty means all that are not excluded."
    )
    excluded_taints: tuple[TaintEntry, ...] = Field(
        _BY_THE_CLUSTER,
        description=(
            "These taints do not count. By default those that Kubernetes puts on nodes that are cordoned, "
            "not ready, unreachable or short of a resource: a cordon means no new pods, and does not empty a"
            " node. A list of your own replaces the default."
        ),
    )
    include_prefer_no_schedule: bool = Field(
        default=False,
        description="Taints with the effect PreferNoSchedule count too: pods leave such nodes for others.",
    )

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if self.included_taints and self.excluded_taints not in ((), _BY_THE_CLUSTER):
            raise ValueError("includedTaints and excludedTaints exclude each other: give one of the two")
        return self

    def counts(self, taint: Taint) -> bool:
        """Whether the strategy considers this taint."""
        if taint.effect == _SOFT and not self.include_prefer_no_schedule:
            return False
        names = {taint.key, f"{taint.key}={taint.value}"}
        if self.included_taints:
            return not names.isdisjoint(self.included_taints)
        return names.isdisjoint(self.excluded_taints)


class NodeTaints(Strategy[NodeTaintsSettings]):
    """Moves pods off nodes with NoSchedule or NoExecute taints that they do not tolerate.

    A NoSchedule taint keeps new pods away and leaves those that are there. This strategy moves them too, to nodes that
    they tolerate: under the thresholds if there is one, else any with room. Pods on nodes with NoExecute taints are
    deleted by Kubernetes, at once or when their toleration ends; until then they are moved. `includedTaints` or
    `excludedTaints` select the taints that count.

    With `includePreferNoSchedule` pods also leave nodes with such taints, for nodes without them that stay under their
    thresholds. Without such a node they stay, and so do pods of pod groups. No other strategy then moves a pod from a
    node without such a taint to one with it.
    """

    order = 130

    def propose(self, view: View) -> Proposals:
        """Propose pods with hard taints first; then, if enabled, those with soft ones."""
        hard, soft = self._find_misplaced(view, PodSelection(self.settings, view))
        yield from propose_until_stuck(view, {pod: self._why(view, pod, taint) for pod, taint in hard.items()})
        yield from propose_each(view, self._soft_moves(view, soft))

    def accepts(self, view: View, pod: int) -> Mask | None:
        """Return nodes without PreferNoSchedule taints that count; all nodes for a pod on a node with one."""
        if not self.settings.include_prefer_no_schedule:
            return None
        avoided, node = self._avoided(view, view.columns.shape(pod)), int(view.at[pod])
        if node < 0 or avoided[node] or not avoided.any():
            return None
        found: Mask = ~avoided
        return found

    def _find_misplaced(self, view: View, selection: PodSelection) -> tuple[dict[int, Taint], dict[int, Taint]]:
        """Return pods with the first taint that they do not tolerate: of a hard effect, and of the soft one only.

        Tolerations are checked once for each set of taints and pod shape, however many pods there are.
        """
        kinds: dict[tuple[Taint, ...], int] = {}
        counted = [tuple(taint for taint in node.taints if self.settings.counts(taint)) for node in view.nodes]
        kind = np.array([kinds.setdefault(taints, len(kinds)) if taints else -1 for taints in counted], np.int64)
        at = view.at
        pods = np.flatnonzero((at >= 0) & view.scope[at] & (kind[at] >= 0)) if kinds else np.empty(0, np.intp)
        pairs = view.columns.pod_shape[pods].astype(np.int64) * len(kinds) + kind[at[pods]]
        hard: dict[int, Taint] = {}
        soft: dict[int, Taint] = {}
        sets = list(kinds)
        order = np.argsort(pairs, kind="stable")
        for alike in np.split(pods[order], np.flatnonzero(np.diff(pairs[order])) + 1):
            if not len(alike):
                continue
            shape = view.columns.shape(int(alike[0]))
            refused = [taint for taint in sets[kind[at[alike[0]]]] if not shape.tolerates(taint)]
            worst = min(refused, key=lambda taint: taint.effect == _SOFT, default=None)
            if worst is not None:
                is_soft = worst.effect == _SOFT
                found, may_move = (soft, selection.may_improve) if is_soft else (hard, selection.may_propose)
                found.update({pod: worst for pod in alike.tolist() if may_move(pod)})
        return hard, soft

    def _soft_moves(self, view: View, soft: dict[int, Taint]) -> Iterator[PodMove]:
        """Yield moves off soft taints; costs of targets are computed when a pod's turn comes."""
        for pod in sort_pods(view, soft):
            cost = np.where(self._avoided(view, view.columns.shape(pod)), np.inf, view.cost(pod))
            yield PodMove(pod, self._why(view, pod, soft[pod]), cost)

    def _avoided(self, view: View, shape: Shape) -> Mask:
        """[N]: nodes with a PreferNoSchedule taint that counts and that the pod does not tolerate."""
        known = self.keep(view, dict[tuple[Toleration, ...], Mask])
        if shape.tolerations not in known:
            kinds = {node.taints for node in view.nodes}
            avoided = {
                taints
                for taints in kinds
                if any(t.effect == _SOFT and self.settings.counts(t) and not shape.tolerates(t) for t in taints)
            }
            known[shape.tolerations] = np.array([node.taints in avoided for node in view.nodes], np.bool_)
        return known[shape.tolerations]

    def _why(self, view: View, pod: int, taint: Taint) -> str:
        return f"{view.nodes[int(view.at[pod])].name} has the taint {taint}, which it does not tolerate"

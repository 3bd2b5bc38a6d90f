from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from pydantic import Field, field_validator, model_validator

from rescheduler.model.fields import Duration
from rescheduler.model.objects import Pod, PodCondition
from rescheduler.model.time import format_duration
from rescheduler.planning.api import PodMove, Proposal, Proposals, Strategy, propose_each
from rescheduler.planning.columns import Mask
from rescheduler.planning.settings import StrategySettings
from rescheduler.planning.view import View
from rescheduler.strategies.support.health import TroubledNodes, find_ended, is_moved, other_nodes, read_states
from rescheduler.strategies.support.settings import PodFilters, PodSelection


class ConditionFilter(StrategySettings):
    """A condition that a pod must have; omitted fields match anything."""

    type: str = Field("", description="Its type, such as `Ready`.")
    status: str = Field("", description="`False` or `Unknown`; `True` for `DisruptionTarget` and the like.")
    reason: str = Field("", description="Its reason, such as `ContainersNotReady`.")
    min_time: Duration = Field(0.0, description="Only if it has been so for at least this long.")

    @field_validator("status", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        return str(value) if isinstance(value, bool) else value  # YAML takes False for a truth value

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.type or self.status or self.reason or self.min_time):
            raise ValueError("says nothing: give it a type, status, reason or minTime")
        return self


class PodLifeTimeSettings(PodFilters):
    """How old pods may get, and which pods; a pod must meet all criteria that are set."""

    max_age: Duration = Field(86400.0, description="Pods that are older are moved.")
    states: tuple[str, ...] = Field(
        (),
        description=(
            "Only pods in one of these states: a phase (`Pending`, `Running`), the pod's reason "
            "(`NodeLost`), or why a container waits or has ended (`ImagePullBackOff`, `ContainerCreating`, "
            "`Error`). Empty means any pod that has not ended; pods that have are removed if their phase "
            "(`Succeeded`, `Failed`) or reason is named."
        ),
    )
    conditions: tuple[ConditionFilter, ...] = Field(
        (),
        description=(
            "Only pods with one of these conditions, each with any of `type`, `status`, `reason` and "
            "`minTime` (for how long it has been so): `{type: Ready, status: False, minTime: 10m}`. "
            "Conditions that are True on every healthy pod are ignored."
        ),
    )
    exit_codes: tuple[int, ...] = Field(
        (),
        description=(
            "Only pods with a container that is not running and ended with one of these codes; empty means any."
        ),
    )
    include_init_containers: bool = Field(
        default=False, description="Also check states and exit codes of init containers."
    )
    include_ephemeral_containers: bool = Field(
        default=False, description="Also check states and exit codes of ephemeral containers."
    )


class PodLifeTime(Strategy[PodLifeTimeSettings]):
    """Moves pods that are older than `maxAge` to another node, the oldest first; their replacements start young.

    With `states`, `conditions` and `exitCodes` it also gets rid of pods that are stuck: pods that have been creating
    their containers or pulling an image for an hour, or have not been Ready for ten minutes. Pods that have ended are
    removed (method `remove`) once they are too old, but only if `states` names their phase or reason, and only if they
    have a controller. For a pod in trouble, nodes on which pods of the same workload are in trouble come last. Pods of
    workloads with the annotation `scheduling-retries` are left to [recovery](failed-pods.md). If the input does not say
    when it was taken, no pod has an age.
    """

    order = 160
    can_undo = False  # a pod goes for its age, not because it is in the wrong place

    def propose(self, view: View) -> Proposals:
        """Propose pods that have ended, whose removal costs nothing; then the others."""
        now = view.now
        if now is None:
            return
        selection = PodSelection(self.settings, view)
        for index in find_ended(view, selection) if self.settings.states else ():
            pod = view.pods[index]
            if selection.has_controller(pod) and self._is_old(pod, now) and self._is_meant(pod, now):
                result = yield Proposal((PodMove(index, self._why(pod, now), removal=True),))
                if result.is_final:
                    return
        yield from propose_each(view, self._pod_moves(view, selection, now))

    def idle_reason(self, now: float | None) -> str:
        """Return why nothing is done without a time: no pod has an age."""
        return "the input does not say when it was taken, so no pod has an age (give --now)" if now is None else ""

    def accepts(self, view: View, pod: int) -> Mask | None:
        """Return all nodes but the one on which the pod got too old."""
        found, now = view.pods[pod], view.now
        if now is None or not self._is_old(found, now) or not self._is_meant(found, now):
            return None
        return other_nodes(view, pod)

    def _pod_moves(self, view: View, selection: PodSelection, now: float) -> Iterator[PodMove]:
        """Yield moves one by one, the oldest first: a plan's limit is usually far below the number of old pods."""
        found = [pod for pod in view.pods_in_scope() if self._is_old(view.pods[pod], now)]
        found.sort(key=lambda pod: (view.pods[pod].created or 0.0, view.pods[pod].rank, pod))
        elsewhere: TroubledNodes | None = None
        for index in found:
            pod = view.pods[index]
            if is_moved(view, index) or not self._is_meant(pod, now) or not selection.accepts(pod):
                continue
            if pod.ailment is not None and elsewhere is None:
                elsewhere = TroubledNodes(view)
            cost = elsewhere.cost(index) if elsewhere is not None and pod.ailment is not None else None
            yield PodMove(index, self._why(pod, now), cost)

    def _is_old(self, pod: Pod, now: float) -> bool:
        return pod.created is not None and now - pod.created > self.settings.max_age and not pod.deleting

    def _is_meant(self, pod: Pod, now: float) -> bool:
        settings = self.settings
        if not (settings.states or settings.exit_codes or settings.conditions):
            return True
        init, ephemeral = settings.include_init_containers, settings.include_ephemeral_containers
        states, exit_codes = read_states(pod, init=init, ephemeral=ephemeral)
        if settings.states and states.isdisjoint(settings.states):
            return False
        if settings.exit_codes and exit_codes.isdisjoint(settings.exit_codes):
            return False
        found = pod.trouble.conditions
        return not settings.conditions or any(
            _fits(each, wanted, now) for each in found for wanted in settings.conditions
        )

    def _why(self, pod: Pod, now: float) -> str:
        age = format_duration(float(int(now - (pod.created or now))))
        ails = f", {pod.ailment.reason}" if pod.ailment is not None else ""
        return f"it is {age} old (maxAge {format_duration(self.settings.max_age)}{ails})"


def _fits(condition: PodCondition, wanted: ConditionFilter, now: float) -> bool:
    said = ((wanted.type, condition.type), (wanted.status, condition.status), (wanted.reason, condition.reason))
    if any(asked and asked != found for asked, found in said):
        return False
    return not wanted.min_time or (condition.since is not None and now - condition.since >= wanted.min_time)

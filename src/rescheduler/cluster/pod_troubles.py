"""What a pod's status says about its troubles: restarts, containers that do not run, conditions that are not well.

`cluster.pods` asks it for each pod, so it must cost next to nothing where there is nothing to tell: pods that have been
through the same share one Trouble, and nearly all share the empty one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from sys import intern

from rescheduler.cluster import wire
from rescheduler.model.instant import InstantError, parse_instant
from rescheduler.model.objects import NO_TROUBLE, Ailment, ContainerState, Pod, PodCondition, Trouble

_STARTING = frozenset({"ContainerCreating", "PodInitializing"})
_CRASHED = "Error"
_TELLING = frozenset({"DisruptionTarget", "PodResizePending", "PodResizeInProgress"})
"""Conditions that tell of something unusual when they are True; of all others it is usual to be."""


class TroubleReader:
    """Reads what pods have been through, and remembers what they share."""

    def __init__(self) -> None:
        self._known: dict[Trouble, Trouble] = {}

    def trouble(self, status: wire.PodStatus) -> Trouble:
        """What a pod has been through."""
        restarts, states = _of(status.container_statuses, "")
        init_restarts, init_states = _of(status.init_container_statuses, "init")
        states += init_states + _of(status.ephemeral_container_statuses, "ephemeral")[1]
        told: tuple[PodCondition, ...] = ()
        for each in status.conditions or ():
            if each.status != "True" or each.type in _TELLING:
                words = intern(each.type or ""), intern(each.status or ""), intern(each.reason or "")
                told += (PodCondition(*words, _since(each.last_transition_time)),)
        if not (restarts or init_restarts or states or told or status.reason):
            return NO_TROUBLE
        found = Trouble(restarts, init_restarts, status.reason or "", states, told)
        return found if told else self._known.setdefault(found, found)  # times are each pod's own

    def forget_all_but(self, rows: Collection[Pod]) -> None:
        """Remember only what these rows share."""
        used = {id(row.trouble) for row in rows}
        self._known = {key: found for key, found in self._known.items() if id(found) in used}


def usual(condition: wire.Condition) -> bool:
    """Whether a condition is as it is on every pod that is well."""
    return condition.status == "True" and condition.type not in _TELLING


def is_ready(conditions: Sequence[wire.Condition] | None, *, default: bool) -> bool:
    """Whether a pod says that it is Ready."""
    for condition in conditions or ():
        if condition.type == "Ready":
            return condition.status == "True"
    return default


def ailment_of(status: wire.PodStatus, phase: str) -> Ailment | None:
    """What is wrong with it; the container that was restarted most often tells most."""
    if phase == "Failed":
        return Ailment(status.reason or _CRASHED)
    if phase == "Succeeded":
        return None
    found: Ailment | None = None
    for statuses in (status.init_container_statuses, status.container_statuses):
        for each in statuses or ():
            reason = _ails(each.state) if each.state is not None else ""
            if reason and (found is None or (each.restart_count or 0) > found.restarts):
                found = Ailment(reason, each.restart_count or 0)
    return found


def _ails(state: wire.ContainerState) -> str:
    if state.waiting is not None:
        reason = state.waiting.reason or ""
        return "" if reason in _STARTING else reason
    return _CRASHED if state.terminated is not None and state.terminated.exit_code else ""


def _of(statuses: Sequence[wire.ContainerStatus] | None, part: str) -> tuple[int, tuple[ContainerState, ...]]:
    """How often these containers were restarted, and the states of those that do not run."""
    if not statuses:
        return 0, ()
    restarts = 0
    states: tuple[ContainerState, ...] = ()
    for each in statuses:
        restarts += each.restart_count or 0
        state = each.state
        if state is None:
            continue
        if state.waiting is not None:
            states += (ContainerState(state.waiting.reason or "", None, part),)
            if each.last_state is not None and each.last_state.terminated is not None:
                states += (_ended(each.last_state.terminated, part),)
        elif state.terminated is not None:
            states += (_ended(state.terminated, part),)
    return restarts, states


def _ended(state: wire.Terminated, part: str) -> ContainerState:
    return ContainerState(state.reason or "", state.exit_code or 0, part)


@lru_cache(maxsize=4096)  # what changes in a pod changes in the same second
def _since(text: str | None) -> float | None:
    try:
        return parse_instant(text) if text else None
    except InstantError:
        return None  # custom kubelets write what they like; a condition without a time is one of no known age

"""What a kubelet does next about a pod, and how long to wait before it: pure, from what the pod is like now.

`kubelet` asks after each change of a pod and whenever a time has come. A pod that needs nothing is the usual case, so
what is looked at is read straight from the stored bytes into lean structs. Nothing here remembers: a kubelet that
comes back to life finds from the pod alone what there is to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

import msgspec

from kubemini.kubelet_containers import PULL_BACK_OFF, PULL_FAILED
from kubemini.simulation import Behaviour, Mode

CORRECTED_IN = 2.0
"""Others may call a pod not Ready; a kubelet compares notes every ten seconds, ours more often for impatient people."""

_RUNNING_SHARE = 0.2
"""Of the time from crash to crash, how much a container that crashes is running."""
_PULL_RETRY = 0.2
_CRASHING = (Mode.CRASH, Mode.CRASH_BESIDE_SIDECAR)


class Action(Enum):
    """The next status that a kubelet writes."""

    CREATE = auto()
    RUN = auto()
    CRASH = auto()
    PULL = auto()
    BACK_OFF = auto()
    REJECT = auto()
    FAIL = auto()
    READY = auto()
    COMPLETE = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Step:
    """What to do, and how many seconds after it was first the next thing to do."""

    action: Action
    delay: float = 0.0


class _Running(msgspec.Struct, gc=False):
    pass


class _Waiting(msgspec.Struct, gc=False):
    reason: str = ""


class _State(msgspec.Struct, gc=False):
    running: _Running | None = None
    waiting: _Waiting | None = None

    @property
    def reason(self) -> str:
        return self.waiting.reason if self.waiting else ""


class _ContainerStatus(msgspec.Struct, rename="camel"):
    name: str = ""
    state: _State = msgspec.field(default_factory=_State)
    ready: bool = False


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct, rename="camel"):
    phase: str = "Pending"
    start_time: str | None = None
    container_statuses: list[_ContainerStatus] = []
    conditions: list[_Condition] = []


class _Container(msgspec.Struct, rename="camel", gc=False):
    name: str


class _Gate(msgspec.Struct, rename="camel", gc=False):
    condition_type: str


class _Spec(msgspec.Struct, rename="camel"):
    containers: list[_Container]
    readiness_gates: list[_Gate] = []
    host_network: bool = False


class _Metadata(msgspec.Struct, rename="camel"):
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int = 0


class PodView(msgspec.Struct, rename="camel"):
    """A pod, as far as its kubelet has to look at it to know what to do."""

    metadata: _Metadata
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def finished(self) -> bool:
        """Whether it has ended for good."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def pending(self) -> bool:
        """Whether it has not begun to run."""
        return self.status.phase in ("", "Pending")


read = msgspec.json.Decoder(PodView).decode


def next_step(pod: PodView, how: Behaviour, *, of_job: bool) -> Step | None:
    """The next thing to do about a pod on a node whose kubelet lives; None if it is as it should be."""
    if pod.metadata.deletion_timestamp is not None:
        return _ending(pod, how)
    if pod.finished:
        return None
    statuses = pod.status.container_statuses
    if how.fails is Mode.REJECTED:
        return Step(Action.REJECT, how.fails_in if pod.pending else 0.0)
    if pod.pending and not statuses and how.starts_in is not None:
        return Step(Action.CREATE)
    if how.fails is Mode.ENDED:
        return Step(Action.FAIL, how.fails_in if pod.pending else 0.0)
    if how.fails is Mode.NO_IMAGE:
        return _pulling(pod, how)
    return _starting(pod, how) or _crashing(pod, how) or _readying(pod) or _completing(pod, how, of_job=of_job)


def _ending(pod: PodView, how: Behaviour) -> Step | None:
    """Without any grace left the object goes by itself, unless a finalizer holds it: then the pod has yet to end."""
    if not pod.metadata.deletion_grace_period_seconds:
        return None if pod.finished else Step(Action.END)
    return Step(Action.END, how.ends_in)


def _pulling(pod: PodView, how: Behaviour) -> Step | None:
    reasons = {status.state.reason for status in pod.status.container_statuses}
    if PULL_FAILED in reasons:
        return Step(Action.BACK_OFF, _PULL_RETRY)
    if PULL_BACK_OFF in reasons:
        return None
    return Step(Action.PULL, (how.starts_in or 0.0) if pod.pending else 0.0)


def _starting(pod: PodView, how: Behaviour) -> Step | None:
    """Something does not run that should, or is ready that should not be, or the other way round."""
    statuses = pod.status.container_statuses
    if pod.pending:
        return Step(Action.RUN, how.starts_in or 0.0)
    if any(status.state.waiting is not None for status in statuses):
        return Step(Action.RUN, how.restarts_every * (1 - _RUNNING_SHARE))
    wrong = (status.state.running is not None and status.ready == _is_unready(pod, status, how) for status in statuses)
    return Step(Action.RUN) if any(wrong) and how.fails not in _CRASHING else None


def _crashing(pod: PodView, how: Behaviour) -> Step | None:
    if how.fails not in _CRASHING or not any(
        status.state.running is not None and _is_unready(pod, status, how) for status in pod.status.container_statuses
    ):
        return None
    return Step(Action.CRASH, how.restarts_every * _RUNNING_SHARE)


def _readying(pod: PodView) -> Step | None:
    true = {condition.type for condition in pod.status.conditions if condition.status == "True"}
    if "ContainersReady" not in true:
        return None
    gates = [gate.condition_type for gate in pod.spec.readiness_gates]
    if all(gate in true for gate in gates) == ("Ready" in true):
        return None
    return Step(Action.READY, 0.0 if gates else CORRECTED_IN)


def _completing(pod: PodView, how: Behaviour, *, of_job: bool) -> Step | None:
    if not of_job or not all(status.state.running is not None for status in pod.status.container_statuses):
        return None
    return Step(Action.COMPLETE, how.completes_in)


def _is_unready(pod: PodView, status: _ContainerStatus, how: Behaviour) -> bool:
    """Whether a container can't get ready when the pod fails like this."""
    if how.fails in (Mode.CRASH, Mode.NEVER_READY):
        return True
    return how.fails is Mode.CRASH_BESIDE_SIDECAR and status.name == pod.spec.containers[0].name

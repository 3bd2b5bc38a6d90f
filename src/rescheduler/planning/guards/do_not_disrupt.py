from __future__ import annotations

from rescheduler.model import labels
from rescheduler.model.objects import Pod
from rescheduler.model.time import DurationError, format_instant, parse_duration
from rescheduler.planning.guards.base import Guard, GuardContext, Lasting


def _delay(pod: Pod) -> float | None:
    """For how long after its start Karpenter leaves a pod alone; None if the annotation is no duration."""
    try:
        return parse_duration(pod.annotations[labels.DO_NOT_DISRUPT])
    except (KeyError, DurationError):
        return None


def _lasts(pod: Pod) -> Lasting:
    return Lasting.UNTIL_CHANGED if _delay(pod) is None else Lasting.WITH_TIME


@Guard(
    order=160,
    caption="Marked as not to be disrupted",
    changed_by="the pod's annotation `karpenter.sh/do-not-disrupt`",
    lasting=_lasts,
)
def do_not_disrupt(pod: Pod, context: GuardContext) -> str:
    """Pods that Karpenter must leave alone, for good or for some time after their start."""
    text = pod.annotations.get(labels.DO_NOT_DISRUPT, "false") if pod.annotations else "false"
    if text == "false" or context.policy.by_hand:
        return ""
    mark = f"annotation {labels.DO_NOT_DISRUPT} is"
    if text == "true":
        return f"{mark} true"
    lasting = _delay(pod)
    if lasting is None:
        # Karpenter itself ignores it, but its author wanted the pod to be left alone.
        return f"{mark} {text[:40]!r}, which is neither true nor false nor a duration such as 4h: it counts as true"
    now = context.snapshot.taken_at
    if now is None or pod.started is None:
        return f"{mark} {text}, and nothing says {'what time it is' if now is None else 'when the pod started'}"
    if now >= pod.started + lasting:
        return ""
    return f"{mark} {text}, and the pod started at {format_instant(pod.started)}"

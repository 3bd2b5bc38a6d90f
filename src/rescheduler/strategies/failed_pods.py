from __future__ import annotations

from pydantic import Field

from rescheduler.model.fields import Duration
from rescheduler.model.objects import Pod
from rescheduler.model.time import format_duration
from rescheduler.planning.api import PodMove, Proposal, Proposals, Strategy
from rescheduler.planning.view import View
from rescheduler.strategies.support.health import find_ended, read_states
from rescheduler.strategies.support.settings import PodFilters, PodSelection


class FailedPodsSettings(PodFilters):
    """Which failed pods are removed."""

    reasons: tuple[str, ...] = Field(
        (),
        description=(
            "Only pods that failed for one of these reasons, of the pod or a container: `Evicted`, "
            "`NodeAffinity`, `OOMKilled`, `Error`; `OutOf*` matches all that begin with it. Empty means any "
            "reason."
        ),
    )
    exit_codes: tuple[int, ...] = Field(
        (), description="Only pods with a container that ended with one of these codes; empty means any."
    )
    include_init_containers: bool = Field(
        default=False, description="Also check reasons and exit codes of init containers."
    )
    min_age: Duration = Field(0.0, description="Only pods that are at least this old.")
    without_controller: bool = Field(
        default=False, description="Also remove pods without a controller, which nothing creates again."
    )


class FailedPods(Strategy[FailedPodsSettings]):
    """Removes pods that have failed (`phase: Failed`), so that only their replacements are left.

    Evicted pods, pods that a kubelet rejected, and pods that crashed for good stay until they are deleted. They hold no
    resources, but they are in the way: in lists, in quotas, and for controllers that create a new pod only when the old
    one is gone. The method is `remove`: the pod is deleted and gets no target. Finalizers, such as those of a Job that
    counts its pods, are waited for. Pods without a controller stay unless `withoutController` is set. The log goes with
    its pod: `minAge` keeps it for a while. Pods of workloads with the annotation `scheduling-retries` are left to
    [recovery](failed-pods.md). Descheduler calls it RemoveFailedPods.
    """

    order = 110

    def propose(self, view: View) -> Proposals:
        """Propose the oldest pods first."""
        selection, settings = PodSelection(self.settings, view), self.settings
        for index in find_ended(view, selection):
            pod = view.pods[index]
            if pod.phase != "Failed" or not (settings.without_controller or selection.has_controller(pod)):
                continue
            if self._is_meant(pod) and self._is_old(pod, view.now):
                result = yield Proposal((PodMove(index, self._why(pod), removal=True),))
                if result.is_final:
                    return

    def _is_meant(self, pod: Pod) -> bool:
        settings = self.settings
        states, exit_codes = read_states(pod, init=settings.include_init_containers)
        if settings.exit_codes and exit_codes.isdisjoint(settings.exit_codes):
            return False
        reasons = states - {pod.phase}
        return not settings.reasons or any(_fits(reason, wanted) for reason in reasons for wanted in settings.reasons)

    def _is_old(self, pod: Pod, now: float | None) -> bool:
        least = self.settings.min_age
        if not least:
            return True
        return now is not None and pod.created is not None and now - pod.created >= least

    def _why(self, pod: Pod) -> str:
        reason = pod.trouble.reason or next((each.reason for each in pod.trouble.states if each.reason), "")
        aged = f" and is older than minAge ({format_duration(self.settings.min_age)})" if self.settings.min_age else ""
        return f"it has failed{f' ({reason})' if reason else ''}{aged}"


def _fits(reason: str, wanted: str) -> bool:
    return reason.startswith(wanted[:-1]) if wanted.endswith("*") else reason == wanted

"""FailedPods: clear away pods that have failed and only lie about."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from rescheduler.model.fields import Duration
from rescheduler.model.objects import Pod
from rescheduler.model.time import format_duration
from rescheduler.planning.api import PodMove, Proposal, Proposals, Strategy
from rescheduler.planning.settings import StrategySettings
from rescheduler.planning.view import View
from rescheduler.strategies.support.health import exit_codes_of, find_ended, parts_of, states_of
from rescheduler.strategies.support.settings import PodFilters, PodSelection


class FailedPodsSettings(PodFilters):
    """Which failed pods are removed."""

    reasons: tuple[str, ...] = Field(
        (),
        description="Only pods that failed for one of these reasons, their own or a container's: `Evicted`, "
        "`NodeAffinity`, `OOMKilled`, `Error`; `OutOf*` means all that begin so. Empty means any.",
    )
    exit_codes: tuple[int, ...] = Field(
        (), description="Only pods of which a container ended with one of these; empty means any."
    )
    include_init_containers: bool = Field(
        default=False, description="Whether reasons and exit codes of init containers count, too."
    )
    min_age: Duration = Field(0.0, description="Only pods that were created at least so long ago.")
    without_controller: bool = Field(
        default=False, description="Whether pods go, too, that nobody manages and nobody will make again."
    )


class FailedPods(Strategy[FailedPodsSettings]):
    """Removes pods that have failed (`phase: Failed`), so that what is made in their place is all there is.

    Evicted pods, pods that a kubelet turned away and those that crashed for good stay until somebody deletes them. They
    hold nothing, but they are in the way: in lists, in quotas, and for controllers that make a new pod only when the
    old one is gone. The method is `remove`: the pod is deleted, goes nowhere, and disturbs nobody; finalizers, such as
    those by which a Job counts its pods, are waited for. A pod that nobody manages stays unless `withoutController`.
    Its log goes with a pod: `minAge` keeps it for a while. Pods whose workload has the annotation `scheduling-retries`
    are left to [recovery](failed-pods.md). Descheduler calls it RemoveFailedPods.
    """

    name: ClassVar[str] = "FailedPods"
    order: ClassVar[int] = 110
    settings_type: ClassVar[type[StrategySettings]] = FailedPodsSettings

    def propose(self, view: View) -> Proposals:
        """The oldest first."""
        choice, settings = PodSelection(self.settings, view), self.settings
        for index in find_ended(view, choice):
            pod = view.pods[index]
            if pod.phase != "Failed" or not (settings.without_controller or choice.has_controller(pod)):
                continue
            if self._is_meant(pod) and self._is_old(pod, view.now):
                decision = yield Proposal((PodMove(index, self._why(pod), removal=True),))
                if decision.exhausted and not decision.accepted:
                    return

    def _is_meant(self, pod: Pod) -> bool:
        settings = self.settings
        parts = parts_of(init=settings.include_init_containers)
        if settings.exit_codes and exit_codes_of(pod, parts=parts).isdisjoint(settings.exit_codes):
            return False
        found = states_of(pod, parts=parts) - {pod.phase}
        return not settings.reasons or any(_fits(reason, wanted) for reason in found for wanted in settings.reasons)

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

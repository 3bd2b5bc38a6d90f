"""What a configuration says about failed pods: the section `recovery`."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from rescheduler.config.errors import shown
from rescheduler.config.fields import Duration, Period, Section
from rescheduler.recovery.settings import FAILED_REASONS, Settings

_REASON = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\*?|\*", re.ASCII)
_DEFAULT = Settings()


def _check_reason(text: str) -> str:
    if not _REASON.fullmatch(text):
        raise ValueError(f"{shown(text)} is not a reason such as Evicted or OutOf*")
    return text


Reason = Annotated[str, AfterValidator(_check_reason)]


class RecoveryFields(Section):
    """Pods that fail on their node, of workloads with the annotation `scheduling-retries`: deleted, made elsewhere."""

    enabled: bool = Field(default=_DEFAULT.enabled, description="Reschedule failed pods of workloads that ask for it.")
    crash_restarts: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=_DEFAULT.crash_restarts, description="Restarts of a container after which a crash counts as a failure."
    )
    failed_reasons: tuple[Reason, ...] = Field(
        default=FAILED_REASONS,
        description="Reasons of pods in phase Failed that count; `Error` is a container's exit code, and `OutOf*` all "
        "that begin so.",
    )
    start_timeout: Period = Field(
        default=_DEFAULT.start_timeout, description="A pod that has not started on its node after this time has failed."
    )
    image_pull_timeout: Period = Field(
        default=_DEFAULT.image_pull_timeout,
        description="A pod whose image cannot be pulled on its node for this time has failed.",
    )
    node_not_ready: Period = Field(
        default=_DEFAULT.node_not_ready, description="A pod whose node has not been ready for this time has failed."
    )
    delay: Duration = Field(
        default=_DEFAULT.delay, description="How long a failure must have lasted before anything is done about it."
    )
    same_node_delay: Duration = Field(
        default=_DEFAULT.same_node_delay,
        description="How long a pod waits that came back to a node where its like failed before: nobody kept it off, "
        "so another try would only use up its retries.",
    )
    clear_after: Period = Field(
        default=_DEFAULT.clear_after,
        description="A workload whose pods have all been Ready for this time has its record cleared.",
    )
    forget_after: Period = Field(
        default=_DEFAULT.forget_after,
        description="An older failure is forgotten: its node may be tried again.",
    )
    fault_nodes: Annotated[int, Field(ge=2, le=1000)] = Field(
        default=_DEFAULT.fault_nodes,
        description="Pods that failed on so many nodes and run on none fail by their workload's own fault (a bad "
        "image, a bad configuration): they are not moved on.",
    )

    def settings(self) -> Settings:
        """As `recovery` takes them."""
        return Settings(**dict(self))

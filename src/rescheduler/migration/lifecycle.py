"""The state machine of a migration: from what is observed to the next status and commands; pure.

Each method is a list of steps. A step is entered (its status is stored), then evaluated until it is done. A move that
cannot continue is rolled back. Moves of one proposal start together, so one that is not approved keeps the others
waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from rescheduler.migration.commands import Command
from rescheduler.migration.observation import EVERYTHING, ObservedPart, StepContext
from rescheduler.migration.rollback import Finish, Mark, clean_annotations, roll_back
from rescheduler.migration.settings import MigrationSettings
from rescheduler.migration.steps.common import (
    STORE_TIMEOUT,
    AwaitMembers,
    CheckBudgets,
    Do,
    Done,
    GiveUp,
    Step,
    Wait,
    yield_to_rollout,
)
from rescheduler.migration.steps.copy import AwaitReady, CopyPod, EvictOriginal, Land, Nominate, Ungate
from rescheduler.migration.steps.evict import (
    AwaitRebuilt,
    AwaitRebuiltReady,
    Evict,
    MarkRebuilt,
    NominateRebuilt,
    PauseDeployment,
    Prefer,
    Protect,
    Restore,
    TakeTurn,
    UngateRebuilt,
    Unprotect,
    disown_extra_pods,
)
from rescheduler.migration.steps.handoff import AwaitGone, Cheapen, CheckCopy, CopyTemplate, HandOver
from rescheduler.migration.steps.placeholder import HoldRoom, ReleaseRoom
from rescheduler.migration.steps.remove import AwaitRemoved, Remove
from rescheduler.model.migration import MigrationStatus, ObjectReference, Phase, PodMigration
from rescheduler.model.plan import Method
from rescheduler.model.time import format_duration

AWAITING_APPROVAL = "waits for approval"
"""The start of the message of a migration that waits for approval."""


def missing_approval(migration: PodMigration, members: Sequence[PodMigration]) -> str:
    """Describe the approval that a pending migration lacks; empty if it may begin."""
    if migration.status.phase is not Phase.PENDING or not migration.spec.approval_required:
        return ""
    if migration.awaits_approval:
        return f"{AWAITING_APPROVAL}: rescheduler approve {_address(migration)}"
    other = next((each for each in members if each.awaits_approval), None)
    if other is None:
        return ""
    return f"{AWAITING_APPROVAL} of {other.full_name}, which belongs to it: rescheduler approve {_address(other)}"


def abandon_reason(migration: PodMigration, members: Sequence[PodMigration], now: float, timeout: float) -> str:
    """Explain why a pending migration that needs approval is given up; empty while it is not."""
    order, created = migration.spec, migration.metadata.creation_timestamp
    if not order.approval_required or migration.status.phase is not Phase.PENDING:
        return ""
    if migration.rejected_by:
        return f"rejected by {migration.rejected_by}"
    if lost := next((each for each in members if each.status.phase is Phase.FAILED), None):
        return f"{lost.full_name}, which belongs to it, was given up: {lost.status.message}"
    waited = now - max(created if created is not None else now, migration.status.retry_time or 0.0)
    if len(members) < order.members - 1 and waited > STORE_TIMEOUT:
        return "a move that belongs to it was never stored, or has been deleted"
    if missing_approval(migration, members) and waited > timeout:
        return f"not approved within {format_duration(timeout)} (approvalTimeout)"
    return ""


def _address(migration: PodMigration) -> str:
    """The argument of `rescheduler approve` for it."""
    return migration.spec.plan or migration.full_name


ROLL_BACK = "RollBack"
_UNAPPROVED = 30.0  # seconds between looks at one that waits for approval; an approval wakes it up at once
_GUIDING: tuple[Step, ...] = (NominateRebuilt(), ReleaseRoom(), UngateRebuilt())
_CLOSING = frozenset({Restore.name, MarkRebuilt.name, Unprotect.name, Finish.name, *(step.name for step in _GUIDING)})
"""Steps after the move: they do what a rollback would do, so no timeout applies to them."""
_EVICTING = frozenset({Evict.name, EvictOriginal.name})
_YIELDING = frozenset(
    step.name for step in (Mark, CopyTemplate, CheckCopy, Nominate, AwaitMembers, Ungate, Land, AwaitReady, Cheapen)
)
"""Steps in which a handoff yields to a rollout; HandOver does until its ReplicaSet may adopt the copy."""


@dataclass(frozen=True, slots=True)
class Transition:
    """What comes next: the progress to store, then the commands to carry out, then when to look again."""

    status: MigrationStatus
    commands: tuple[Command, ...] = ()
    wait: float | None = None


class Lifecycle:
    """Decides what comes next for every migration; it has no state of its own."""

    def __init__(self, settings: MigrationSettings | None = None) -> None:
        self._settings = settings or MigrationSettings()
        settings = self._settings
        grace = int(settings.eviction_grace_period)
        rest: tuple[Step, ...] = (Ungate(), Land(), AwaitReady(settings.min_overlap))
        after_room: dict[Method, tuple[Step, ...]] = {
            Method.HANDOFF: (*rest, Cheapen(), HandOver(), AwaitGone(), Finish()),
            Method.COPY: (*rest, EvictOriginal(grace), Finish()),
            Method.EVICT: (
                Protect(settings.temporary_budget.spec()), TakeTurn(), PauseDeployment(), Prefer(), Evict(grace),
                AwaitRebuilt(settings.restore_after), Restore(), *_GUIDING, MarkRebuilt(), AwaitRebuiltReady(),
                Unprotect(), Finish(),
            ),
        }  # fmt: skip
        reserved = frozenset({AwaitMembers.name, *(step.name for steps in after_room.values() for step in steps)})
        members = AwaitMembers(reserved)
        self._steps: dict[Method, tuple[Step, ...]] = {
            Method.HANDOFF: (Mark(), CopyTemplate(), CheckCopy(), Nominate(), members, *after_room[Method.HANDOFF]),
            Method.COPY: (CheckBudgets(spare=1), Mark(), CopyPod(), Nominate(), members, *after_room[Method.COPY]),
            Method.EVICT: (CheckBudgets(spare=0), Mark(), HoldRoom(), members, *after_room[Method.EVICT]),
            Method.REMOVE: (Remove(), AwaitRemoved()),
        }

    def steps(self, method: Method) -> list[str]:
        """The names of a method's steps, in order."""
        return [step.name for step in self._steps[method]]

    def check_hold(self, context: StepContext) -> Wait | None:
        """The wait of a pending migration that is paused or backs off, whatever the cluster looks like."""
        migration = context.migration
        if migration.spec.paused:
            return Wait("paused", self._settings.max_retry_delay)
        due = migration.status.retry_time
        if due is not None and due > context.now:
            return Wait(migration.status.message, due - context.now)
        return None

    def check_approval(self, context: StepContext) -> Wait | None:
        """The wait of a pending migration that could begin but is not approved."""
        missing = missing_approval(context.migration, context.seen.members)
        return Wait(missing, _UNAPPROVED) if missing else None

    def clean_up(self, context: StepContext) -> tuple[Command, ...]:
        """Clean up after a migration that is over.

        The Deployment's controller may copy annotations late, and a webhook may label pods before its cache catches up.
        """
        is_over = context.migration.status.over
        return (*clean_annotations(context), *disown_extra_pods(context)) if is_over else ()

    def begin(self, context: StepContext, progress: MigrationStatus) -> MigrationStatus:
        """Start the migration with the method and target that were chosen for it."""
        attempts = progress.attempts + 1
        return structs.replace(
            progress, phase=Phase.IN_PROGRESS, step="", attempts=attempts,
            start_time=context.now, step_time=context.now,
            replacement=None, bystanders=(), retry_time=None, message="", remark="",
        )  # fmt: skip

    def needs(self, migration: PodMigration) -> frozenset[ObservedPart]:
        """What the next observation must include: all that the current step and the one after it use."""
        progress = migration.status
        if progress.phase is not Phase.IN_PROGRESS or progress.method in (None, Method.EVICT):
            return EVERYTHING
        steps = self._steps[progress.method]
        at = next((index for index, step in enumerate(steps) if step.name == progress.step), None)
        if at is None:  # not begun, or rolled back
            return EVERYTHING
        return frozenset(part for step in steps[at : at + 2] for part in step.needs)

    def advance(self, context: StepContext) -> Transition:
        """The next decision about a migration in progress."""
        progress = context.migration.status
        if progress.phase is not Phase.IN_PROGRESS or progress.method is None:
            return Transition(progress)
        if progress.step == ROLL_BACK:
            return self._continue_rollback(context)
        timeout = context.migration.spec.timeout or self._settings.timeout
        overdue = progress.start_time is not None and context.now - progress.start_time > timeout
        return self._walk(context, self._steps[progress.method], overdue=overdue)

    def cancel(self, context: StepContext, reason: str) -> Transition:
        """Give a migration up now: roll back what was begun, without another try.

        A migration that only has to clean up continues, because rolling back would do the same.
        """
        progress = context.migration.status
        if progress.over or progress.step in _CLOSING:
            return Transition(progress)
        if progress.phase is Phase.PENDING:
            failed = structs.replace(
                progress, phase=Phase.FAILED, message=reason, completion_time=context.now, retry_time=None
            )
            return Transition(failed)
        if progress.step == ROLL_BACK:
            return Transition(structs.replace(progress, message=reason, retry_time=None))
        return self._give_up(_date_eviction(context), GiveUp(reason, retry=False))

    def _walk(self, context: StepContext, steps: tuple[Step, ...], *, overdue: bool) -> Transition:
        """Go through all steps that are done, up to the first that is not."""
        names = [step.name for step in steps]
        progress = context.migration.status
        at = names.index(progress.step) if progress.step in names else -1
        if at < 0:
            at, context = 0, _enter(context, steps[0])
        while True:
            context = _date_eviction(context)
            step, progress = steps[at], context.migration.status
            yields = progress.method is Method.HANDOFF and step.name in _YIELDING
            match (yields and yield_to_rollout(context)) or step.look(context):
                case Done(said):
                    context = _add_remark(context, said) if said else context
                    if at + 1 == len(steps):
                        return Transition(self._complete(context))
                    at += 1
                    if not steps[at].needs <= context.seen.parts:
                        return Transition(progress, wait=0.0)  # looked at again, with what the next step goes by
                    context = _enter(context, steps[at])
                case Do(commands):
                    refused, late = context.seen.refused, overdue and step.name not in _CLOSING
                    message = f"{commands[0].why}: {refused.message}" if refused else commands[0].why
                    if late:
                        return self._give_up(context, GiveUp(f"timed out in step {step.name}: {message}"))
                    return Transition(structs.replace(progress, message=message), commands)
                case Wait(reason, seconds, patient):
                    if overdue and not patient and step.name not in _CLOSING:
                        return self._give_up(context, GiveUp(f"timed out in step {step.name}: {reason}"))
                    return Transition(structs.replace(progress, message=reason), wait=seconds)
                case GiveUp() as why:
                    return self._give_up(context, why)

    def _complete(self, context: StepContext) -> MigrationStatus:
        progress = context.migration.status
        name = progress.replacement.name if progress.replacement is not None else ""
        found = next((pod for pod in context.seen.marked if pod["metadata"]["name"] == name), None)
        if found is not None:  # people look the pod up by its UID
            progress = structs.replace(
                progress, replacement=ObjectReference("Pod", found["metadata"]["name"], found["metadata"]["uid"])
            )
        landed = found["spec"].get("nodeName", "") if found is not None else ""
        elsewhere = landed and progress.target and landed != progress.target
        said = [progress.remark, f"landed on {landed}, not on {progress.target}" if elsewhere else ""]
        message = "; ".join(filter(None, said))
        return structs.replace(progress, phase=Phase.COMPLETED, step="", completion_time=context.now, message=message)

    def _give_up(self, context: StepContext, why: GiveUp) -> Transition:
        """Record the rollback, and whether it is tried again."""
        progress = context.migration.status
        tried, gone = progress.tried_methods, context.live_original is None
        if why.other_method and progress.method is not None:
            tried = (*tried, progress.method)
        has_attempts = why.retry and progress.attempts < self._settings.attempts
        again = not gone and (has_attempts or why.other_method or why.yields)
        pause = min(self._settings.retry_delay * 2 ** (progress.attempts - 1), self._settings.max_retry_delay)
        rolled = structs.replace(
            progress, step=ROLL_BACK, step_time=context.now, message=why.reason, tried_methods=tried,
            retry_time=(context.now if why.other_method else context.now + pause) if again else None,
        )  # fmt: skip
        return Transition(rolled)

    def _continue_rollback(self, context: StepContext) -> Transition:
        progress = context.migration.status
        match roll_back(context):
            case Do(commands):
                return Transition(progress, commands)
            case Wait(_, seconds):
                return Transition(progress, wait=seconds)
        if progress.retry_time is not None:
            return Transition(structs.replace(progress, phase=Phase.PENDING, step="", step_time=None))
        return Transition(structs.replace(progress, phase=Phase.FAILED, step="", completion_time=context.now))


def _enter(context: StepContext, step: Step) -> StepContext:
    progress = structs.replace(step.enter(context), step=step.name, step_time=context.now, message="")
    return _replace_status(context, progress)


def _date_eviction(context: StepContext) -> StepContext:
    """The context with the time of the eviction, once it has had its effect: from then on the workload rests."""
    progress = context.migration.status
    if progress.step not in _EVICTING or progress.eviction_time is not None or context.live_original is not None:
        return context
    return _replace_status(context, structs.replace(progress, eviction_time=context.now))


def _add_remark(context: StepContext, said: str) -> StepContext:
    """The context with an addition to the final message."""
    progress = context.migration.status
    return _replace_status(context, structs.replace(progress, remark="; ".join(filter(None, (progress.remark, said)))))


def _replace_status(context: StepContext, progress: MigrationStatus) -> StepContext:
    """The context with other progress; a refusal of the last step does not apply to this one."""
    seen = context.seen
    if progress.step != context.migration.status.step and seen.refused is not None:
        seen = replace(seen, refused=None)
    return replace(context, migration=structs.replace(context.migration, status=progress), seen=seen)

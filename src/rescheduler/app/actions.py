"""Carries out the page's actions: pause and resume, approve, move a pod, maintenance of a node.

`web.actions` calls it after the API server has allowed the action. It uses the controller's own client, on the replica
that serves the page, and records the user's name: in the ConfigMap, the annotation, the migration's reason, or an Event
of the node. Each action returns what happens next, or raises HttpError with a cure.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from rescheduler.app import maintenance, orders
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.kube.events import EventRecorder
from rescheduler.kube.migrations import ApprovalOutcome, ApprovalResult, StaleError, approve
from rescheduler.kube.objects import NotFoundError
from rescheduler.kube.pause_state import PauseStore
from rescheduler.migration.events import ObjectEvent, Subject
from rescheduler.model.json import ObjectKey
from rescheduler.model.plan import Method
from rescheduler.strategies import name_mandatory
from rescheduler.web.actions import (
    ActionHandler,
    ApproveRequest,
    MaintenanceRequest,
    MoveRequest,
    PauseRequest,
    ResumeRequest,
)
from rescheduler.web.responses import HttpError

_log = structlog.stdlib.get_logger(__name__)
_PATIENCE = 15.0  # seconds that a user may wait for a button
_CLIENT_ERRORS = frozenset({400, 404, 409, 413, 422, 429})
_LANES = 8
_SHOWN = 3  # refusals that are listed one by one


@dataclass(frozen=True, slots=True)
class PageActions:
    """Carries out actions. `client` may write on every replica; `empties` says whether a
    strategy that empties nodes is enabled."""

    client: ApiClient
    recorder: EventRecorder
    pausing: PauseStore
    refresh_pause: Callable[[], Awaitable[object]]
    """Called when a pause has begun or ended, so that this replica applies it at once."""
    empties: Callable[[], bool]

    @property
    def handlers(self) -> dict[str, ActionHandler]:
        """The handlers, by action."""
        return {
            "pause": self.pause,
            "resume": self.resume,
            "approve": self.approve,
            "migrate": self.migrate,
            "maintenance": self.maintain,
        }

    async def pause(self, by: str, request: PauseRequest) -> str:
        """Pause rescheduling."""
        async with _translate_errors("pause"):
            now = await self.pausing.pause(by, request.reason)
            await self.refresh_pause()
        if (now.by, now.reason) != (by, request.reason):
            why = f" ({now.reason})" if now.reason else ""
            return f"Rescheduling is paused already, by {now.by}{why}: nothing has changed."
        return "Rescheduling is paused: what is under way is finished, and nothing new begins until it is resumed."

    async def resume(self, by: str, _request: ResumeRequest) -> str:
        """Resume rescheduling."""
        async with _translate_errors("resume"):
            before = await self.pausing.resume(by)
            await self.refresh_pause()
        if before is None:
            return "Rescheduling was not paused: nothing has changed."
        return f"Rescheduling goes on after {before.by} had paused it: the next plan is made within seconds."

    async def approve(self, by: str, request: ApproveRequest) -> str:
        """Approve migrations."""
        async with _translate_errors("approve"):
            answers = await self._approve_all(by, [(each.namespace, each.name) for each in request.migrations])
        refused = [each for each in answers if each.outcome is ApprovalOutcome.REFUSED]
        approved = sum(each.outcome is ApprovalOutcome.APPROVED for each in answers)
        before = len(answers) - approved - len(refused)
        if refused and not approved:
            raise HttpError(409, f"nothing was approved: {_format_reasons(refused)}")
        sentences = [f"{_count_moves(approved)} approved: each begins as soon as the limits and the cluster let it."]
        if before:
            sentences.append(f"{_count_moves(before)} approved before.")
        if refused:
            sentences.append(f"{len(refused)} could not be: {_format_reasons(refused)}.")
        return " ".join(sentences if approved else sentences[1:])

    async def _approve_all(self, by: str, migrations: Sequence[ObjectKey]) -> list[ApprovalResult]:
        """Approve in a few parallel lanes, because there may be many. All lanes end before an error is raised."""
        lanes = [migrations[number::_LANES] for number in range(_LANES)]
        found = await asyncio.gather(*(approve(self.client, lane, by) for lane in lanes), return_exceptions=True)
        answers: list[ApprovalResult] = []
        for lane in found:
            if isinstance(lane, BaseException):
                raise lane
            answers += lane
        return sorted(answers, key=lambda each: (each.namespace, each.name))

    async def migrate(self, by: str, request: MoveRequest) -> str:
        """Move one pod."""
        method = None if request.method in ("", "auto") else Method(request.method)
        reason = f"asked for by {by} on the page"
        wish = orders.ManualMove(request.namespace, request.pod, request.target, method, reason)
        async with _translate_errors("migrate"):
            made = await orders.order(self.client, await orders.draft_migration(self.client, wish))
        where = f"to {request.target}" if request.target else "to the node that fits best"
        return (
            f"Migration {made.name} is ordered: pod {made.namespace}/{request.pod} moves {where} as soon as its turn "
            "comes, if nothing speaks against it then."
        )

    async def maintain(self, by: str, request: MaintenanceRequest) -> str:
        """Label a node for maintenance, or remove the label."""
        node, on = request.node, request.on
        async with _translate_errors("maintenance"):
            [marked] = await maintenance.mark(self.client, [node], maintenance=on)
            if not marked.changed:
                return f"Node {node} is {'' if on else 'not '}under maintenance already: nothing has changed."
            occasion = f"{asyncio.get_running_loop().time()} {by}"
            note = f"{'Maintenance' if on else 'End of maintenance'} asked for by {by} on the page"
            about = Subject("Node", "", node, marked.uid)
            reason = "MaintenanceRequested" if on else "MaintenanceEnded"
            await self.recorder.record([ObjectEvent(about, about, reason, "Maintenance", note, occasion)])
        if not on:
            return f"Node {node} is no longer under maintenance: it is uncordoned, if kube-rescheduler had cordoned it."
        if not self.empties():
            cure = f"add {name_mandatory()} to enabledStrategies"
            return f"Node {node} is marked for maintenance, but nothing empties it: {cure}."
        return f"Node {node} is under maintenance: it is cordoned now, and its pods are moved away with the next plans."


@asynccontextmanager
async def _translate_errors(what: str) -> AsyncGenerator[None]:
    """Turn errors of the API server into responses."""
    try:
        async with asyncio.timeout(_PATIENCE):
            yield
    except TimeoutError:
        why = "the API server does not answer in time, so it is not known whether it was done: look, then try again"
        raise HttpError(503, why) from None
    except NotFoundError as error:
        raise HttpError(404, str(error)) from None
    except (orders.MoveRefusedError, StaleError) as error:
        raise HttpError(409, str(error)) from None
    except ClusterError as error:
        _log.warning("page action failed", action=what, error=str(error))
        raise _make_http_error(error) from None


def _make_http_error(error: ClusterError) -> HttpError:
    if not isinstance(error, ApiError):
        return HttpError(503, str(error))
    if error.status == 403:
        return HttpError(
            503, f"you may do it, but the controller itself may not: {error.message}; see deploy/rbac.yaml"
        )
    if error.status in _CLIENT_ERRORS and error.status is not None:
        return HttpError(error.status, error.message)
    return HttpError(503, f"the API server could not do it: {error.message}; look, then try again")


def _count_moves(count: int) -> str:
    return f"{count} move{' was' if count == 1 else 's were'}"


def _format_reasons(refused: Sequence[ApprovalResult]) -> str:
    listed = "; ".join(f"{each.namespace}/{each.name}: {each.reason}" for each in refused[:_SHOWN])
    left = len(refused) - _SHOWN
    return f"{listed}; and {left} more" if left > 0 else listed

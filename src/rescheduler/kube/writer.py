"""Carries commands out: each becomes one request. What the API server refuses comes back as an answer, not as an error.

`runtime` calls it with what the lifecycle decided. A refusal that means "it is as you want it already" (a copy that is
there, a pod that is gone) counts as success; only when no answer came at all, or the server itself is in trouble, is an
ApiError raised, and the whole step is tried again later.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import ApiError
from rescheduler.kube.objects import path_of
from rescheduler.migration.commands import Command, Verb
from rescheduler.migration.observation import FailedCommand
from rescheduler.model.json import Json

FIELD_MANAGER = "rescheduler"
_METHODS = {Verb.CREATE: "POST", Verb.PATCH: "PATCH", Verb.DELETE: "DELETE", Verb.EVICT: "POST"}
_FINE = {Verb.CREATE: {409: "AlreadyExists"}, Verb.DELETE: {404: "NotFound"}, Verb.EVICT: {404: "NotFound"}}
_REFUSALS = frozenset({400, 403, 404, 405, 409, 410, 415, 422, 429})
# What an eviction is answered that Kubernetes can never allow; it has no reason of its own, only these words.
_TWO_BUDGETS = "more than one PodDisruptionBudget"


class CommandSender:
    """Writes to one API server; `dry` asks the server to check everything and change nothing.

    `refused` hears of every refusal.
    """

    def __init__(self, client: ApiClient, *, dry: bool = False) -> None:
        self._client = client
        self._dry = dry
        self._params = {"fieldManager": FIELD_MANAGER} | ({"dryRun": "All"} if dry else {})
        self.refused: Callable[[Command, FailedCommand], None] = lambda command, refused: None

    async def carry_out(self, command: Command) -> FailedCommand | None:
        """Do it; the answer is how it was refused, if it was."""
        name = "" if command.verb is Verb.CREATE else command.name
        path = path_of(command.kind, command.namespace, name, command.subresource)
        request = ApiRequest(
            _METHODS[command.verb],
            path,
            {} if command.verb is Verb.DELETE else self._params,
            msgspec.json.encode(self._body(command)),
            _content_type(command),
            answers=_REFUSALS,
        )
        try:
            await self._client.send(request)
        except ApiError as error:
            never = command.verb is Verb.EVICT and error.status == 500 and _TWO_BUDGETS in error.message
            if error.status not in _REFUSALS and not never:
                raise
            if _FINE.get(command.verb, {}).get(error.status or 0) == error.reason:
                return None
            refused = FailedCommand(error.status, error.reason, error.message, str(command))
            self.refused(command, refused)
            return refused
        return None

    def _body(self, command: Command) -> Json | list[Json]:
        """As it is sent: where options for a deletion are in the body, the server takes none from the address."""
        if not self._dry or isinstance(command.body, list):
            return command.body
        if command.verb is Verb.DELETE:
            return command.body | {"dryRun": ["All"]}
        if command.verb is Verb.EVICT:
            return command.body | {"deleteOptions": command.body["deleteOptions"] | {"dryRun": ["All"]}}
        return command.body


def _content_type(command: Command) -> str:
    if command.verb is not Verb.PATCH:
        return "application/json"
    merge = isinstance(command.body, dict)
    return "application/merge-patch+json" if merge else "application/json-patch+json"

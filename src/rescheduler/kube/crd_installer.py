"""Installs the kind PodMigration: applies its definition, and waits until the API server serves it.

The controller does this before anything else. Where it may not (a role without rights on definitions), a kind that is
served already will do. A definition that a newer version of ours has written is left as it is, so that two versions
side by side, as in a rolling update, do not undo each other's work.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re

import msgspec

from rescheduler import __version__
from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import BROKEN_OFF, PASSING, TIMED_OUT, ApiError, Backoff, ClusterError
from rescheduler.kube.objects import FIELD_MANAGER, path_of
from rescheduler.migration.crd import API_VERSION, CURE, POD_MIGRATION, VERSION_ANNOTATION
from rescheduler.model.json import Json

_NAME: str = POD_MIGRATION["metadata"]["name"]
_LONGEST = 60.0  # seconds until a definition that was accepted must be served
_RANKS = {".dev": 0, "a": 1, "b": 2, "rc": 3, "": 4, ".post": 5}
_VERSION = re.compile(r"(\d+(?:\.\d+)*)(?:(\.dev|a|b|rc|\.post)(\d+))?.*")
_log = logging.getLogger(__name__)


async def install_crd(client: ApiClient) -> None:
    """Have PodMigration served in our version; a ClusterError says what stands against it."""
    installation, backoff = _Installation(client), Backoff(first=0.1, longest=2.0)
    lacking = ""
    try:
        async with asyncio.timeout(_LONGEST):
            for looks in itertools.count(1):
                lacking = await installation.look()
                if not lacking:
                    return
                await backoff.pause(looks)
    except TimeoutError:
        cure = f"see `kubectl describe crd {_NAME}`"
        raise ClusterError(
            f"PodMigration is not served after {_LONGEST:g} s: {lacking or 'no answer'}; {cure}"
        ) from None


class _Installation:
    """One installation: what of it has been done."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._written = False

    async def look(self) -> str:
        """Do what is to be done now; the answer is what is still lacking."""
        try:
            return await self._advance()
        except ApiError as error:
            if error.status == 403:
                return await self._do_without(error)
            if error.status in PASSING or error.reason in (BROKEN_OFF, TIMED_OUT):
                return str(error)
            raise

    async def _advance(self) -> str:
        found = await self._read()
        if found is not None and "deletionTimestamp" in found["metadata"]:
            self._written = False  # what is applied now goes with it
            return "its definition is being deleted"
        if not self._written:
            found = await self._written_over(found)
            self._written = True
        if found is None:
            self._written = False
            return "somebody has deleted its definition"
        return _objection(found) or await self._unserved()

    async def _read(self) -> Json | None:
        answer = await self._client.find(path_of("CustomResourceDefinition", "", _NAME))
        found: Json | None = msgspec.json.decode(answer) if answer is not None else None
        return found

    async def _written_over(self, found: Json | None) -> Json:
        """The definition after ours was applied, unless what is there is newer."""
        theirs = _version_of(found)
        if found is not None and is_newer(theirs, __version__):
            _log.info(
                "the definition of PodMigration is of version %s, newer than %s: left as it is", theirs, __version__
            )
            return found
        # Whoever has applied it by hand loses the fields to us: we know what we can read.
        params = {"fieldManager": FIELD_MANAGER, "force": "true"}
        body = msgspec.json.encode(POD_MIGRATION)
        path = path_of("CustomResourceDefinition", "", _NAME)
        answer = await self._client.send(ApiRequest("PATCH", path, params, body, "application/apply-patch+yaml"))
        written: Json = msgspec.json.decode(answer)
        if theirs != __version__:
            _log.info("installed the definition of PodMigration, version %s over %s", __version__, theirs or "none")
        return written

    async def _unserved(self) -> str:
        """Why its objects cannot be had yet: a definition is established a moment before its storage is ready."""
        try:
            answers = frozenset({403, 404, 429, 503})
            await self._client.send(ApiRequest("GET", path_of("PodMigration"), {"limit": "1"}, answers=answers))
        except ApiError as error:
            if error.status == 403:
                return ""  # whoever reads them is told so, in words that fit what was wanted
            if error.status not in answers:
                raise
            return error.message
        return ""

    async def _do_without(self, error: ApiError) -> str:
        """We lack a right. Go on if the kind is served, else say who can help; discovery is open to everybody."""
        try:
            await self._client.send(ApiRequest("GET", f"/apis/{API_VERSION}", answers=frozenset({404})))
        except ApiError as unknown:
            if unknown.status != 404:
                raise
            told = f"PodMigration is not installed, and we may not install it: {error.message}"
            raise ClusterError(f"{told}; let somebody who may run `{CURE}`") from error
        lacking = await self._unserved()
        if not lacking:
            _log.info("PodMigration is there; we may not update it (%s), `%s` does", error.message, CURE)
        return lacking


def is_newer(version: str, than: str) -> bool:
    """Whether a version comes after another; what is no version comes after none."""
    return _rank(version) > _rank(than)


def _rank(version: str) -> tuple[tuple[int, ...], int, int]:
    found = _VERSION.fullmatch(version)
    if found is None:
        return (), 0, 0
    release = tuple(map(int, found[1].split(".")))
    return release, _RANKS[found[2] or ""], int(found[3] or 0)


def _version_of(definition: Json | None) -> str:
    annotations = definition["metadata"].get("annotations") if definition is not None else None
    return str((annotations or {}).get(VERSION_ANNOTATION, ""))


def _objection(definition: Json) -> str:
    """Why a definition is not in force; empty if it is."""
    conditions = {each["type"]: each for each in definition.get("status", {}).get("conditions") or ()}
    for name in ("NamesAccepted", "Established"):
        found = conditions.get(name)
        if found is None:
            return f"its definition is not {name} yet"
        if found["status"] != "True":
            return f"its definition is not {name}: {found.get('message', '')}"
    return ""

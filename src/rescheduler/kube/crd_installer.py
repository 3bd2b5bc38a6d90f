"""Installs the CRD of PodMigration: applies it, and waits until the API server serves it.

The controller does this first. Without rights on CRDs, a version that is already served will do. A CRD written by a
newer version is left as it is, so that two versions side by side, as in a rolling update, do not undo each other.
"""

from __future__ import annotations

import asyncio
import itertools
import re

import msgspec
import structlog

from rescheduler import __version__
from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import BROKEN_OFF, PASSING, TIMED_OUT, ApiError, Backoff, ClusterError
from rescheduler.kube.objects import FIELD_MANAGER, ObjectClient, path_of
from rescheduler.migration.crd import API_VERSION, CURE, POD_MIGRATION, VERSION_ANNOTATION
from rescheduler.model.json import Json

_NAME: str = POD_MIGRATION["metadata"]["name"]
_LONGEST = 60.0  # seconds within which an accepted CRD must be served
_RANKS = {".dev": 0, "a": 1, "b": 2, "rc": 3, "": 4, ".post": 5}
_VERSION = re.compile(r"(\d+(?:\.\d+)*)(?:(\.dev|a|b|rc|\.post)(\d+))?.*")
_log = structlog.stdlib.get_logger(__name__)


async def install_crd(client: ApiClient) -> None:
    """Install the CRD and wait until it is served; ClusterError says what is missing."""
    installation, backoff = _Installation(client), Backoff(first=0.1, longest=2.0)
    missing = ""
    try:
        async with asyncio.timeout(_LONGEST):
            for looks in itertools.count(1):
                missing = await installation.advance()
                if not missing:
                    return
                await backoff.pause(looks)
    except TimeoutError:
        cure = f"see `kubectl describe crd {_NAME}`"
        raise ClusterError(
            f"PodMigration is not served after {_LONGEST:g} s: {missing or 'no answer'}; {cure}"
        ) from None


class _Installation:
    """The state of one installation."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._written = False

    async def advance(self) -> str:
        """Do the next step; return what is still missing."""
        try:
            return await self._apply()
        except ApiError as error:
            if error.status == 403:
                return await self._use_installed(error)
            if error.status in PASSING or error.reason in (BROKEN_OFF, TIMED_OUT):
                return str(error)
            raise

    async def _apply(self) -> str:
        found = await ObjectClient(self._client).find("CustomResourceDefinition", "", _NAME)
        if found is not None and "deletionTimestamp" in found["metadata"]:
            self._written = False  # an update now would be deleted with it
            return "its definition is being deleted"
        if not self._written:
            found = await self._write_over(found)
            self._written = True
        if found is None:
            self._written = False
            return "its definition was deleted"
        return _describe_problem(found) or await self._check_served()

    async def _write_over(self, found: Json | None) -> Json:
        """Apply the CRD unless the installed one is newer; return the installed one."""
        theirs = _version_of(found)
        if found is not None and is_newer(theirs, __version__):
            _log.info("newer PodMigration CRD left unchanged", installed=theirs, own=__version__)
            return found
        # Forced over fields that were applied by hand: this version must be able to read its objects.
        params = {"fieldManager": FIELD_MANAGER, "force": "true"}
        body = msgspec.json.encode(POD_MIGRATION)
        path = path_of("CustomResourceDefinition", "", _NAME)
        answer = await self._client.send(ApiRequest("PATCH", path, params, body, "application/apply-patch+yaml"))
        written: Json = msgspec.json.decode(answer)
        if theirs != __version__:
            _log.info("PodMigration CRD installed", version=__version__, replaced=theirs or "none")
        return written

    async def _check_served(self) -> str:
        """Return why objects cannot be read yet: a CRD is established shortly before its storage is ready."""
        try:
            answers = frozenset({403, 404, 429, 503})
            await self._client.send(ApiRequest("GET", path_of("PodMigration"), {"limit": "1"}, answers=answers))
        except ApiError as error:
            if error.status == 403:
                return ""  # reported by later reads, with a message that fits them
            if error.status not in answers:
                raise
            return error.message
        return ""

    async def _use_installed(self, error: ApiError) -> str:
        """A right is missing. Continue if the kind is served, else say what helps; anyone may read discovery."""
        if await self._client.find(f"/apis/{API_VERSION}") is None:
            problem = f"PodMigration is not installed, and the controller may not install it: {error.message}"
            raise ClusterError(f"{problem}; let a cluster administrator run `{CURE}`") from error
        missing = await self._check_served()
        if not missing:
            _log.info("PodMigration CRD not updated, using the installed one", error=error.message, cure=CURE)
        return missing


def is_newer(version: str, than: str) -> bool:
    """Whether a version is later than another; an invalid version is the earliest."""
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


def _describe_problem(definition: Json) -> str:
    """Return why a CRD is not active; empty if it is."""
    conditions = {each["type"]: each for each in definition.get("status", {}).get("conditions") or ()}
    for name in ("NamesAccepted", "Established"):
        found = conditions.get(name)
        if found is None:
            return f"its definition is not {name} yet"
        if found["status"] != "True":
            return f"its definition is not {name}: {found.get('message', '')}"
    return ""

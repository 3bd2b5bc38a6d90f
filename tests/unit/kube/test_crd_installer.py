"""Installing PodMigration over a server that is slow, in trouble or in the way, in virtual time."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.crd_installer import install_crd, is_newer
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.migration.crd import POD_MIGRATION
from rescheduler.model.json import Json
from tests.support.virtual_time import VirtualLoop

ESTABLISHED = [{"type": each, "status": "True"} for each in ("NamesAccepted", "Established")]
MISSING = ApiError(404, "NotFound", "the server could not find the requested resource", "/x")


class Server(ApiClient):
    """Keeps one definition; what is scripted for a method is answered first, in order."""

    def __init__(self, **script: list[ApiError | None]) -> None:
        self.script = script
        self.asked: list[str] = []
        self.definition: Json | None = None
        self.conditions: list[Json] = ESTABLISHED
        self.initialising = 0
        """How many lists are answered that the storage is not ready."""
        self.deletions = 0
        """How many lists come after the definition has gone."""

    async def send(self, request: ApiRequest) -> bytes:
        lists = request.path.endswith("/podmigrations")
        self.asked.append("LIST" if lists else request.method)
        scripted = self.script.get(self.asked[-1], [])
        error = scripted.pop(0) if scripted else None
        if error is not None:
            raise error
        if lists:
            return self._list()
        if request.method == "PATCH":
            status = {"conditions": self.conditions}
            self.definition = msgspec.json.decode(request.body or b"") | {"status": status}
        if self.definition is None:
            raise MISSING
        return msgspec.json.encode(self.definition)

    def _list(self) -> bytes:
        if self.deletions:
            self.deletions -= 1
            self.definition = None
            raise MISSING
        if self.initialising:
            self.initialising -= 1
            raise ApiError(429, "TooManyRequests", "storage is (re)initializing", "/x")
        return b'{"items": []}'


def installed(server: Server) -> float:
    """Install on it; the answer is how long that took."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(install_crd(server))
        return runner.get_loop().time()


def test_it_is_applied_once_and_looked_at_until_its_storage_is_ready() -> None:
    server = Server()
    server.initialising = 3
    took = installed(server)
    assert server.asked.count("PATCH") == 1
    assert server.asked.count("LIST") == 4
    assert 0 < took < 5


@pytest.mark.parametrize(
    "passing",
    [
        ApiError(500, "InternalError", "etcd leader changed", "/x"),
        ApiError(None, "BrokenOff", "the connection broke off", "/x"),
    ],
    ids=lambda error: error.reason,
)
def test_a_passing_failure_of_the_server_is_tried_again(passing: ApiError) -> None:
    server = Server(PATCH=[passing, passing])
    installed(server)
    assert server.asked.count("PATCH") == 3
    assert server.definition is not None


def test_a_lasting_failure_is_the_callers() -> None:
    with pytest.raises(ApiError, match="not trusted"):
        installed(Server(GET=[ApiError(None, "NotTrusted", "not trusted", "/x")]))


def test_a_name_that_somebody_else_has_is_told_after_a_while() -> None:
    server = Server()
    server.conditions = [{"type": "NamesAccepted", "status": "False", "message": '"pmig" is already in use'}]
    with pytest.raises(ClusterError, match=r'not NamesAccepted: "pmig" is already in use; see `kubectl describe crd'):
        installed(server)


def test_a_definition_that_somebody_deletes_meanwhile_is_applied_again() -> None:
    server = Server()
    server.deletions = 1
    installed(server)
    assert server.asked.count("PATCH") == 2


def test_who_may_not_install_needs_no_look_at_the_definition_if_it_is_served() -> None:
    server = Server(GET=[ApiError(403, "Forbidden", "may not", "/x")])
    server.definition = POD_MIGRATION
    installed(server)
    assert server.asked == ["GET", "GET", "LIST"]


@pytest.mark.parametrize(
    ("version", "than", "newer"),
    [
        ("0.2.0", "0.1.9", True),
        ("0.10.0", "0.9.0", True),
        ("0.1.0", "0.1.0.dev0", True),
        ("0.1.0rc2", "0.1.0rc1", True),
        ("0.1.0rc1", "0.1.0b7", True),
        ("0.1.0", "0.1.0", False),
        ("0.1.0.dev0", "0.1.0", False),
        ("", "0.1.0", False),
        ("latest", "0.1.0", False),
    ],
)
def test_versions_are_ordered_as_releases_are(version: str, than: str, newer: bool) -> None:
    assert is_newer(version, than) is newer

"""What is done for people on the page, when the API server does not play along: told with a cure, and as what it is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rescheduler.app.actions import PageActions
from rescheduler.kube.client import ApiClient
from rescheduler.kube.events import EventRecorder
from rescheduler.kube.pause_state import PauseStore
from rescheduler.web.actions import (
    ApproveRequest,
    MaintenanceRequest,
    MigrationRef,
    MoveRequest,
    PauseRequest,
    ResumeRequest,
)
from rescheduler.web.responses import HttpError
from tests.support.api_server import Answer, ApiServer, api_server, status_answer
from tests.support.kubeconfigs import connection

MAP = "/api/v1/namespaces/ours/configmaps/state"
MAPS = "/api/v1/namespaces/ours/configmaps"
NODE = "/api/v1/nodes/n1"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
POD = "/api/v1/namespaces/shop/pods/web"
MIGRATIONS = "/apis/rescheduler.io/v1alpha1/namespaces/shop/podmigrations"
FORBIDDEN = status_answer(403, "Forbidden", "User rescheduler cannot patch")
RUNNING = {
    "metadata": {"name": "web", "namespace": "shop", "uid": "1"},
    "spec": {"nodeName": "n1"},
    "status": {"phase": "Running"},
}


@asynccontextmanager
async def page_actions(tmp_path: Path, *, empties: bool = True) -> AsyncIterator[tuple[PageActions, ApiServer]]:
    async with api_server() as server:
        found = connection(tmp_path, {"server": server.url})
        async with ApiClient(found) as own:

            async def hear() -> None:
                return

            recorder = EventRecorder(own, "test", own.clock.now)
            yield (
                PageActions(own, recorder, PauseStore(own, "ours", "state"), hear, lambda: empties),
                server,
            )


async def refused(action: Awaitable[str]) -> tuple[int, str]:
    with pytest.raises(HttpError) as caught:
        await action
    return caught.value.status, caught.value.message


def body(value: object) -> Answer:
    return Answer(200, json.dumps(value).encode())


async def test_a_controller_without_the_right_says_that_it_is_not_the_persons_fault(tmp_path: Path) -> None:
    async with page_actions(tmp_path) as (doing, server):
        server.script(MAP, FORBIDDEN)
        server.script(NODE, body({"kind": "Node", "metadata": {"name": "n1", "uid": "1"}, "spec": {}}), FORBIDDEN)
        for action in (
            doing.pause("jane", PauseRequest()),
            doing.resume("jane", ResumeRequest()),
            doing.maintain("jane", MaintenanceRequest("n1", on=True)),
        ):
            status, said = await refused(action)
            assert status == 503
            assert "you may do it, but the controller itself may not" in said
            assert "deploy/rbac.yaml" in said


async def test_an_api_server_in_trouble_is_told_of(tmp_path: Path) -> None:
    async with page_actions(tmp_path) as (doing, server):
        server.script(MAP, status_answer(404, "NotFound", "no"))
        server.script(MAPS, Answer(hang_up=True))
        status, said = await refused(doing.pause("jane", PauseRequest()))
        assert (status, "the API server could not do it" in said) == (503, True)


async def test_a_cluster_without_migrations_says_how_to_install_them(tmp_path: Path) -> None:
    async with page_actions(tmp_path) as (doing, server):
        server.script(POD, body(RUNNING))
        status, said = await refused(doing.migrate("jane", MoveRequest("shop", "web")))
        assert (status, "rescheduler crds | kubectl apply" in said) == (503, True)


async def test_what_a_rule_of_the_cluster_forbids_is_told_in_its_words(tmp_path: Path) -> None:
    async with page_actions(tmp_path) as (doing, server):
        server.script(POD, body(RUNNING))
        quota = status_answer(422, "Invalid", "admission webhook denied the request: not on Fridays")
        server.script(MIGRATIONS, body({"metadata": {"resourceVersion": "1"}, "items": []}), quota)
        status, said = await refused(doing.migrate("jane", MoveRequest("shop", "web", method="auto")))
        assert (status, said) == (422, "admission webhook denied the request: not on Fridays")


async def test_maintenance_that_nobody_does_says_how_to_have_it_done(tmp_path: Path) -> None:
    async with page_actions(tmp_path, empties=False) as (doing, server):
        server.script(NODE, body({"kind": "Node", "metadata": {"name": "n1", "uid": "1"}, "spec": {}}))
        server.script(EVENTS, Answer(500, b"{}"))  # an Event that cannot be written stops nobody
        assert await doing.maintain("jane", MaintenanceRequest("n1", on=True)) == (
            "Node n1 is marked for maintenance, but nothing empties it: add NodeMaintenance to enabledStrategies."
        )


async def test_some_that_cannot_be_approved_do_not_stop_the_others(tmp_path: Path) -> None:
    async with page_actions(tmp_path) as (doing, server):
        wanted = []
        for number in range(20):
            wanted.append(MigrationRef("shop", f"m{number}"))
            metadata = {"name": f"m{number}", "namespace": "shop", "uid": "1", "resourceVersion": "1"}
            spec = {"pod": {"name": "web"}, "approvalRequired": number % 4 != 0}
            server.script(f"{MIGRATIONS}/m{number}", body({"metadata": metadata, "spec": spec}))
        said = await doing.approve("jane", ApproveRequest(wanted))
        assert said.startswith("15 moves were approved: ")
        assert "5 could not be: shop/m0: it needs no approval; shop/m12: it needs no approval; " in said
        assert said.endswith("; and 2 more.")
        written = [each for each in server.seen if each.method == "PATCH"]
        assert len(written) == 15

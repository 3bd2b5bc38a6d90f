"""Tables: the cells of each kind's row, and how durations are shown."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kubemini import clock, kinds
from kubemini.kinds import Kind
from kubemini.server.tables import age, columns_of, human
from rescheduler.model.json import Json
from tests.unit.kubemini.served import PODS, TABLE, pod, served


def row(kind: Kind, **body: Any) -> list[Any]:
    """The cells of an object that is five minutes old."""
    created = clock.stamp(clock.now() - timedelta(minutes=5))
    metadata = {"name": "it", "creationTimestamp": created} | body.pop("metadata", {})
    return [column.cell({"metadata": metadata, **body}) for column in columns_of(kind)]


def container(state: Json, **fields: Any) -> Json:
    return {"name": "main", "state": state, "ready": "running" in state, "restartCount": 0} | fields


ENDED = {"terminated": {"exitCode": 0, "reason": "Completed"}}
GATED = {"type": "PodScheduled", "reason": "SchedulingGated"}
READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ({"phase": "Running", "containerStatuses": [container({"running": {}})]}, "Running"),
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Pending", "conditions": [GATED]}, "SchedulingGated"),
        ({"phase": "Running", "containerStatuses": [container({"waiting": {"reason": "CrashLoop"}})]}, "CrashLoop"),
        ({"phase": "Failed", "reason": "OutOfcpu"}, "OutOfcpu"),
        ({"phase": "Failed", "containerStatuses": [container({"terminated": {"exitCode": 3}})]}, "ExitCode:3"),
        ({"phase": "Succeeded", "containerStatuses": [container(ENDED)]}, "Completed"),
    ],
)
def test_one_word_says_how_a_pod_is(status: Json, word: str) -> None:
    assert row(kinds.POD, spec=pod("it")["spec"], status=status)[2] == word
    if status["phase"] in ("Running", "Pending"):
        going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
        assert row(kinds.POD, metadata=going, spec={}, status=status)[2] == "Terminating"


def test_a_pod_shows_its_restarts_and_its_place() -> None:
    finished = {"terminated": {"finishedAt": clock.stamp(clock.now() - timedelta(hours=1))}}
    status = {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "containerStatuses": [container({"running": {}}, restartCount=2, lastState=finished)],
    }
    shown = row(kinds.POD, spec={**pod("it")["spec"], "nodeName": "n"}, status=status)
    assert shown == ["it", "1/1", "Running", "2 (60m ago)", "5m", "10.0.0.1", "n", "<none>", "<none>"]


@pytest.mark.parametrize(
    ("kind", "body", "cells"),
    [
        (
            kinds.NODE,
            {"spec": {"unschedulable": True}, "status": {"conditions": READY, "nodeInfo": {"kubeletVersion": "v1"}}},
            ["it", "Ready,SchedulingDisabled", "<none>", "5m", "v1"],
        ),
        (kinds.NODE, {"status": {}}, ["it", "Unknown", "<none>", "5m", ""]),
        (
            kinds.DEPLOYMENT,
            {"spec": {"replicas": 3}, "status": {"readyReplicas": 2}},
            ["it", "2/3", 0, 0, "5m"],
        ),
        (kinds.REPLICA_SET, {"spec": {"replicas": 3}, "status": {"replicas": 2}}, ["it", 3, 2, 0, "5m"]),
        (kinds.STATEFUL_SET, {"spec": {"replicas": 1}, "status": {}}, ["it", "0/1", "5m"]),
        (kinds.DAEMON_SET, {"status": {"desiredNumberScheduled": 4}}, ["it", 4, 0, 0, 0, 0, "<none>", "5m"]),
        (kinds.JOB, {"spec": {"completions": 2}, "status": {"succeeded": 1}}, ["it", "Running", "1/2", "", "5m"]),
        (
            kinds.JOB,
            {
                "spec": {"parallelism": 2},
                "status": {
                    "conditions": [{"type": "Complete", "status": "True"}],
                    "startTime": "2026-01-01T00:00:00Z",
                    "completionTime": "2026-01-01T00:00:07Z",
                },
            },
            ["it", "Complete", "0/1", "7s", "5m"],
        ),
        (kinds.BUDGET, {"spec": {"maxUnavailable": "30%"}, "status": {}}, ["it", "N/A", "30%", 0, "5m"]),
        (kinds.LEASE, {"spec": {"holderIdentity": "me"}}, ["it", "me", "5m"]),
        (
            kinds.CORE_EVENT,
            {"involvedObject": {"kind": "Pod", "name": "p"}, "reason": "R", "type": "Normal", "message": "m\n"},
            ["<unknown>", "Normal", "R", "pod/p", "m"],
        ),
        (kinds.STORAGE_CLASS, {}, ["it", "5m"]),
    ],
)
def test_each_kind_has_its_usual_columns(kind: Kind, body: Json, cells: list[Any]) -> None:
    shown = row(kind, **body)
    assert shown[: len(cells)] == cells
    assert len(shown) == len(columns_of(kind))


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (310, "5m10s"),
        (900, "15m"),
        (12_600, "3h30m"),
        (183_600, "2d"),
    ],
)
def test_durations_are_coarser_the_longer_they_are(seconds: float, shown: str) -> None:
    assert human(seconds) == shown


def test_an_age_needs_a_time() -> None:
    assert (age(None), age("yesterday")) == ("<unknown>", "<invalid>")


async def test_a_table_has_rows_with_whole_objects() -> None:
    async with served() as client:
        await client.post(PODS, pod("a"))
        table = (await client.get(PODS, TABLE)).json
        assert [column["name"] for column in table["columnDefinitions"]][:5] == [
            "Name",
            "Ready",
            "Status",
            "Restarts",
            "Age",
        ]
        assert "spec" in table["rows"][0]["object"]

"""Workloads that ask for recovery, and what recovery writes about them: the record of failures, and Events."""

from __future__ import annotations

import json

from rescheduler.model.json import Json
from rescheduler.model.labels import FAILURES, SCHEDULING_RETRIES
from tests.support.both_clusters import Space


def retried(body: Json, times: str = "3", **others: str) -> Json:
    """The workload or pod, with so many retries; and with other annotations."""
    before = body["metadata"].get("annotations", {})
    body["metadata"]["annotations"] = {**before, SCHEDULING_RETRIES: times, **others}
    return body


def annotations_of(space: Space, kind: str, name: str) -> dict[str, str]:
    found: dict[str, str] = space.get(kind, name)["metadata"].get("annotations", {})
    return found


def record(space: Space, kind: str, name: str) -> Json:
    """The record of its failures; empty if there is none."""
    found: Json = json.loads(annotations_of(space, kind, name).get(FAILURES, "{}"))
    return found


def event_reasons(space: Space, name: str) -> list[str]:
    """The reasons of our Events about an object, sorted."""
    ours = [each for each in space.list("Event") if each.get("reportingComponent", "").startswith("rescheduler.io/")]
    return sorted(each["reason"] for each in ours if each["involvedObject"]["name"] == name)

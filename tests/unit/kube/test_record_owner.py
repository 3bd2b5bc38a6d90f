"""The owner of a record, and what is below it: from the API server, or as far as the cache knows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from typing import cast

import pytest

from rescheduler.admission.advisor import find_record_owner
from rescheduler.decode.cache import ClusterCache
from rescheduler.kube.client import ApiClient, ListPage
from rescheduler.kube.objects import path_of
from rescheduler.kube.record_owner import OwnedObjects, RecordOwnerKey, RecordOwners
from rescheduler.model.advice import NewPod
from rescheduler.model.json import Json
from rescheduler.model.objects import Pod
from rescheduler.runtime.failure_detector import FailureDetector
from tests.support.live import live
from tests.unit.runtime.failing_world import ASKS, SPACE, body, pod, told
from tests.unit.runtime.migrations import NOW

SELECTS = {"selector": {"matchLabels": {"app": "web"}}}


class Server:
    """An API server that has these objects, and gives lists out in pages of two."""

    def __init__(self, *bodies: Json) -> None:
        self.bodies = bodies
        self.asked: list[Mapping[str, str] | None] = []

    async def find(self, path: str) -> bytes | None:
        found = [each for each in self.bodies if path_of(each["kind"], SPACE, each["metadata"]["name"]) == path]
        return json.dumps(found[0]).encode() if found else None

    async def list_pages(self, path: str, params: Mapping[str, str] | None = None) -> AsyncGenerator[ListPage, None]:
        self.asked.append(params)
        found = [
            {key: value for key, value in each.items() if key not in ("kind", "apiVersion")}
            for each in self.bodies
            if path_of(each["kind"], SPACE) == path
        ]
        for start in range(0, max(len(found), 1), 2):
            listed = {"apiVersion": "v1", "metadata": {}, "items": found[start : start + 2]}
            yield ListPage(json.dumps(listed).encode(), start == 0, "9")


def looked_at(kind: str, name: str, *bodies: Json) -> tuple[OwnedObjects | RecordOwnerKey | None, Server]:
    server = Server(*bodies)
    return asyncio.run(RecordOwners(cast("ApiClient", server)).look((kind, SPACE, name))), server


def names(bodies: tuple[Json, ...]) -> list[str]:
    assert all(each["kind"] for each in bodies), "items of lists do not say what they are"
    return sorted(each["metadata"]["name"] for each in bodies)


def test_a_deployment_has_the_pods_of_all_its_replica_sets_and_no_others() -> None:
    top = body("Deployment", "web", ASKS, spec=SELECTS)
    old, new = body("ReplicaSet", "web-1", of=top), body("ReplicaSet", "web-2", of=top)
    other = body("ReplicaSet", "other")
    pods = [pod("a", old), pod("b", new), pod("c", new), pod("d", other), pod("e"), pod("f", new)]
    found, server = looked_at("Deployment", "web", top, old, new, other, *pods)
    assert isinstance(found, OwnedObjects)
    assert (names(found.controllers), names(found.pods)) == (["web-1", "web-2"], ["a", "b", "c", "f"])
    assert server.asked == [{"labelSelector": "app=web"}] * 2, "and at no older version: as it is now"


def test_a_cron_job_has_the_pods_of_its_jobs() -> None:
    top = body("CronJob", "nightly", ASKS)
    first, second = body("Job", "nightly-1", of=top), body("Job", "nightly-2", of=top)
    found, server = looked_at("CronJob", "nightly", top, first, second, pod("a", first), pod("b", second), pod("c"))
    assert isinstance(found, OwnedObjects)
    assert (names(found.controllers), names(found.pods)) == (["nightly-1", "nightly-2"], ["a", "b"])
    assert server.asked[1] == {"labelSelector": "batch.kubernetes.io/job-name in (nightly-1,nightly-2)"}


@pytest.mark.parametrize("kind", ["Deployment", "CronJob"])
def test_who_has_made_nothing_yet_has_nothing(kind: str) -> None:
    found, server = looked_at(kind, "web", body(kind, "web", spec=SELECTS), pod("a"))
    assert isinstance(found, OwnedObjects)
    assert (found.controllers, found.pods) == ((), ())
    assert len(server.asked) == 1


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "DaemonSet", "Job"])
def test_other_controllers_are_their_own_holders(kind: str) -> None:
    holder = body(kind, "web", spec=SELECTS)
    found, _ = looked_at(kind, "web", holder, pod("a", holder), pod("b", body("Job", "other")))
    assert found == OwnedObjects(holder, (holder,), (pod("a", holder),))


def test_a_single_pod_is_its_own_holder_unless_somebody_has_adopted_it() -> None:
    alone = pod("a")
    assert looked_at("Pod", "a", alone)[0] == OwnedObjects(alone, (), (alone,))
    assert looked_at("Pod", "a", pod("a", body("ReplicaSet", "web-1")))[0] is None


def test_a_controller_says_who_above_it_keeps_the_record() -> None:
    top = body("Deployment", "web")
    assert looked_at("ReplicaSet", "web-1", top, body("ReplicaSet", "web-1", of=top))[0] == ("Deployment", SPACE, "web")
    asking, quiet = body("CronJob", "nightly", ASKS), body("CronJob", "nightly")
    job = body("Job", "nightly-1", of=asking)
    assert looked_at("Job", "nightly-1", asking, job)[0] == ("CronJob", SPACE, "nightly")
    assert isinstance(looked_at("Job", "nightly-1", quiet, job)[0], OwnedObjects)


def test_who_has_only_the_name_of_the_owner_keeps_nothing() -> None:
    top, namesake = body("Deployment", "web"), body("Deployment", "web")
    namesake["metadata"]["uid"] = "another"
    assert isinstance(looked_at("ReplicaSet", "web-1", namesake, body("ReplicaSet", "web-1", of=top))[0], OwnedObjects)
    assert isinstance(looked_at("ReplicaSet", "web-1", body("ReplicaSet", "web-1", of=top))[0], OwnedObjects)


def test_what_is_gone_is_nothing() -> None:
    assert looked_at("Deployment", "web")[0] is None


def family(*kinds: str, notes: dict[str, str] | None = None) -> list[Json]:
    """Workloads of which each makes the next, and a pod of the last; the first has the annotations."""
    made: list[Json] = []
    for number, kind in enumerate(kinds):
        made.append(body(kind, f"w{number}", None if made else notes, made[-1] if made else None))
    return [*made, pod("a", made[-1] if made else None)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (family("Deployment", "ReplicaSet"), ("Deployment", "w0")),
        (family("Deployment", "ReplicaSet", notes=ASKS), ("Deployment", "w0")),
        (family("ReplicaSet"), ("ReplicaSet", "w0")),
        (family("StatefulSet"), ("StatefulSet", "w0")),
        (family("DaemonSet"), ("DaemonSet", "w0")),
        (family("Job"), ("Job", "w0")),
        (family("CronJob", "Job"), ("Job", "w1")),
        (family("CronJob", "Job", notes=ASKS), ("CronJob", "w0")),
        (family("Rollout", "ReplicaSet", notes=ASKS), ("ReplicaSet", "w1")),
        (family("Deployment", "Job", notes=ASKS), ("Job", "w1")),
        (family(), ("Pod", "a")),
    ],
)
def test_all_who_ask_agree_on_who_keeps_the_record_of_a_pod(found: list[Json], expected: tuple[str, str]) -> None:
    cache = ClusterCache("test")
    told(cache, *(each for each in found if each["kind"] != "Rollout"))
    row: Pod = cache.row("Pod", (SPACE, "a"))
    by_webhook = find_record_owner(NewPod(SPACE, row.name, owner=row.owner), cache)
    by_loop = FailureDetector(cache, live(), lambda: NOW, print).holder(row)
    assert (by_webhook.kind, by_webhook.name) == expected
    assert by_loop == (expected[0], SPACE, expected[1])
    answer, _ = looked_at(*expected, *(each for each in found if each["kind"] != "Rollout"))
    assert isinstance(answer, OwnedObjects), "and the live read agrees"
    maker = row.owner
    if maker is not None and (maker.kind, maker.name) != expected:
        assert looked_at(maker.kind, maker.name, *found)[0] == by_loop


def test_a_namesake_of_the_maker_that_is_gone_says_nothing() -> None:
    cron, job, alone = family("CronJob", "Job", notes=ASKS)
    cron["metadata"]["uid"] = "another"
    cache = ClusterCache("test")
    told(cache, cron, job, alone)
    row: Pod = cache.row("Pod", (SPACE, "a"))
    assert FailureDetector(cache, live(), lambda: NOW, print).holder(row) == ("Job", SPACE, "w1")
    assert find_record_owner(NewPod(SPACE, "a", owner=row.owner), cache).kind == "Job"

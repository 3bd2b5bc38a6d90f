"""What recovery decides by: which guards object, which nodes are well, and which could take a replacement."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from rescheduler.decode.cache import ClusterCache
from rescheduler.kube.record_owner import OwnedObjects, RecordOwnerKey, RecordOwners
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.policy import Policy
from rescheduler.model.time import format_instant, parse_instant
from rescheduler.recovery.decision import WorkloadState
from rescheduler.recovery.failed_pods import detect_failure
from rescheduler.recovery.settings import RecoverySettings
from rescheduler.runtime.failure_detector import VanishedPods
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.runtime.recovery_reader import WorkloadStateReader
from tests.support.informers import informers
from tests.support.live import live
from tests.unit.runtime.failing_world import ASKS, SPACE, body, crashing, pod, told
from tests.unit.runtime.migrations import NOW, over, pending, under_way

NODES = ("one", "two", "three")
POLICY = Policy(excluded_namespaces=("away",), excluded_pod_selector="tier=gold")


class Reads:
    """A cluster that shows one workload, and nodes as they are now."""

    def __init__(self, holding: OwnedObjects | RecordOwnerKey | None, *others: Json) -> None:
        self.holding = holding
        self.others = {(each["kind"], each["metadata"]["name"]): each for each in others}
        self.found: list[str] = []

    async def look(self, key: RecordOwnerKey) -> OwnedObjects | RecordOwnerKey | None:
        return self.holding

    async def find(self, kind: str, namespace: str, name: str) -> Json | None:
        self.found.append(name)
        return self.others.get((kind, name))


def reader(
    reads: Reads,
    cache: ClusterCache | None = None,
    migrations: MigrationCache | None = None,
    vanished: VanishedPods | None = None,
) -> WorkloadStateReader:
    known = informers(cache=cache, migrations=migrations, now=lambda: NOW)
    return WorkloadStateReader(
        cast("RecordOwners", reads), known, live(policy=lambda: POLICY), vanished or VanishedPods(clock)
    )


def a_node(name: str, *, ready: bool = True, taints: tuple[str, ...] = (), **spec: Any) -> Json:
    listed = [{"key": key, "effect": "NoSchedule"} for key in taints]
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    found = body("Node", name, spec={"taints": listed} | spec, status={"conditions": [condition]})
    found["metadata"]["labels"] = {"kubernetes.io/hostname": name}
    return found


def case_of(
    holding: OwnedObjects,
    *known: Json,
    migrations: MigrationCache | None = None,
    read: tuple[Json, ...] = (),
    fell: tuple[Json, ...] = (),
) -> WorkloadState:
    """The case of a holder, where the cache has been told of these; three nodes that are well, if it is of none."""
    cache, vanished = ClusterCache("test"), VanishedPods(clock)
    for each in fell:
        told(cache, each)
        vanished.observe(cache.row("Pod", (SPACE, each["metadata"]["name"])))
        cache.drop("Pod", (SPACE, each["metadata"]["name"]))
    told(cache, *(known or map(a_node, NODES)))
    cases = reader(Reads(holding, *read), cache, migrations, vanished)
    metadata = holding.holder["metadata"]
    found = asyncio.run(cases.read((holding.holder["kind"], SPACE, metadata["name"])))
    assert isinstance(found, WorkloadState)
    return found


def web(*pods: Json, **template: Any) -> OwnedObjects:
    """A Deployment with one ReplicaSet; `pods` are made anew as its own."""
    top = body("Deployment", "web", ASKS)
    spec = {"template": {"spec": template}}
    return OwnedObjects(top, (body("ReplicaSet", "web-1", of=top, spec=spec),), pods)


def of_web(name: str = "web-1-a", **more: Any) -> Json:
    made = crashing(name, body("ReplicaSet", "web-1"))
    made["metadata"] |= more
    return made


def test_a_holder_that_is_elsewhere_or_nowhere_makes_no_case() -> None:
    for found in (None, ("CronJob", SPACE, "nightly")):
        assert asyncio.run(reader(Reads(found)).read(("Job", SPACE, "nightly-1"))) == found


def test_what_was_read_is_passed_on() -> None:
    holding = web(of_web())
    found = case_of(holding)
    assert (found.workload, found.controllers, found.pods) == (holding.holder, holding.controllers, holding.pods)
    assert (found.now, found.settings, found.replacement) == (NOW, RecoverySettings(), None)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, ""),
        ({"labels": {labels.RESCHEDULING: "disabled"}}, "disabled"),
        ({"labels": {"tier": "gold"}}, "excludedPodSelector"),
        ({"namespace": "away"}, "excludedNamespaces"),
        ({"labels": {labels.MIGRATION_STATUS: "in-progress", labels.MIGRATION_ID: "m"}}, "migration m is in-progress"),
        ({"labels": {labels.MIGRATION_STATUS: "completed", labels.MIGRATION_ID: "m"}}, ""),
        ({"annotations": {labels.MIRROR: "x"}}, "static pod"),
    ],
)
def test_guards_object(more: Json, why: str) -> None:
    found = case_of(web(of_web(**more))).objections
    assert (why in found["web-1-a-uid"]) if why else (found == {})


def test_system_critical_pods_are_left_alone() -> None:
    critical = of_web()
    critical["spec"]["priority"] = 2_000_000_000
    assert "system-critical" in case_of(web(critical)).objections["web-1-a-uid"]


def test_a_pod_that_is_being_moved_is_left_alone_until_the_move_is_over() -> None:
    for migration, moving in ((under_way("m", "web-1-a"), True), (over("m", "web-1-a"), False)):
        migrations = MigrationCache()
        migrations.put(migration)
        assert bool(case_of(web(of_web()), migrations=migrations).objections) == moving


def test_a_move_that_waits_is_no_hindrance_but_for_a_pod_that_would_be_copied() -> None:
    migrations = MigrationCache()
    migrations.put(pending("m", "web-1-a"))
    migrations.put(pending("n", "single"))
    assert case_of(web(of_web()), migrations=migrations).objections == {}
    single = crashing("single", notes=ASKS)
    assert "migration n" in case_of(OwnedObjects(single, (), (single,)), migrations=migrations).objections["single-uid"]


def test_nodes_that_are_not_well_are_read_anew_and_those_that_are_gone_are_left_out() -> None:
    pods = (of_web("a"), of_web("b"), of_web("c"), of_web("d"))
    for each, node in zip(pods, ("one", "two", "three", "four"), strict=True):
        each["spec"]["nodeName"] = node
    known = (a_node("one"), a_node("two", ready=False), a_node("three", ready=False))
    found = case_of(web(*pods), *known, read=(a_node("two"), a_node("four", ready=False)))
    status = {name: each["status"]["conditions"][0]["status"] for name, each in found.nodes.items()}
    assert status == {"one": "True", "two": "True", "four": "False"}
    assert found.unready_share == pytest.approx(2 / 3)


def test_a_pod_without_a_node_needs_none() -> None:
    unbound = pod("web-1-a", body("ReplicaSet", "web-1"), node="", phase="Pending")
    assert case_of(web(unbound)).nodes == {}


def feasible(state: WorkloadState) -> frozenset[str]:
    """The nodes that could take each of its pods."""
    (nodes,) = set(state.feasible_nodes.values())
    return nodes


def test_nodes_are_free_if_their_labels_and_taints_suit_and_they_are_open() -> None:
    known = (
        a_node("one"),
        a_node("two", taints=("gpu",)),
        a_node("three", unschedulable=True),
        a_node("four", ready=False),
        a_node("five"),
    )
    assert feasible(case_of(web(of_web()), *known)) == {"one", "five"}
    chosen = web(of_web(), nodeSelector={"kubernetes.io/hostname": "five"})
    assert feasible(case_of(chosen, *known)) == {"five"}
    tolerant = of_web()
    tolerant["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    assert feasible(case_of(web(tolerant), *known)) == {"one", "two", "five"}


def test_where_a_pod_was_told_not_to_go_counts_not_where_its_template_says_nothing_of_it() -> None:
    told_off = of_web()
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["one"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    told_off["spec"]["affinity"] = {"nodeAffinity": required}
    assert feasible(case_of(web(told_off))) == set(NODES)
    single = crashing("single", notes=ASKS | {labels.FAILURES: '{"count":1,"avoids":["one"]}'})
    single["spec"]["affinity"] = {"nodeAffinity": required}
    assert feasible(case_of(OwnedObjects(single, (), (single,)))) == set(NODES)
    own = crashing("single", notes=ASKS)
    own["spec"]["affinity"] = {"nodeAffinity": required}
    assert feasible(case_of(OwnedObjects(own, (), (own,)))) == {"two", "three"}


def test_pods_of_an_older_template_or_with_a_volume_may_have_other_nodes() -> None:
    top = body("Deployment", "web", ASKS)
    new = body("ReplicaSet", "web-2", of=top, spec={"template": {"spec": {}}})
    selector = {"nodeSelector": {"kubernetes.io/hostname": "two"}}
    old = body("ReplicaSet", "web-1", of=top, spec={"template": {"spec": selector}})
    old["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    bound = crashing("web-2-b", new)
    bound["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["three"]}]}
    volume = body("PersistentVolume", "disk", spec={"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}})
    claim = body("PersistentVolumeClaim", "data", spec={"volumeName": "disk"})
    del volume["metadata"]["namespace"]
    pods = (crashing("web-1-a", old), crashing("web-2-a", new), bound)
    found = case_of(OwnedObjects(top, (old, new), pods), *map(a_node, NODES), volume, claim)
    places = {"web-1-a-uid": {"two"}, "web-2-a-uid": set(NODES), "web-2-b-uid": {"three"}}
    assert found.feasible_nodes == places


def test_a_case_is_renewed_with_the_holder_as_it_is_now() -> None:
    old, new = body("StatefulSet", "db", ASKS), body("StatefulSet", "db", ASKS)
    new["metadata"]["resourceVersion"] = "2"
    ill = crashing("db-0", old)
    cases = reader(Reads(OwnedObjects(old, (old,), (ill,)), new))
    key: RecordOwnerKey = ("StatefulSet", SPACE, "db")
    first = asyncio.run(cases.read(key))
    assert isinstance(first, WorkloadState)
    again = asyncio.run(cases.refresh(key, first))
    assert isinstance(again, WorkloadState)
    assert (again.workload, again.controllers, again.pods) == (new, (new,), (ill,))


def test_a_case_is_made_anew_if_the_holder_is_another_or_gone_or_a_pod() -> None:
    single = crashing("single", notes=ASKS)
    reads = Reads(
        OwnedObjects(single, (), (single,)), crashing("single", notes=ASKS | {labels.FAILURES: '{"count":1}'})
    )
    cases, key = reader(reads), ("Pod", SPACE, "single")
    first = asyncio.run(cases.read(key))
    assert isinstance(first, WorkloadState)
    reads.holding = None
    assert asyncio.run(cases.refresh(key, first)) is None


def clock() -> float:
    return NOW


def test_pods_that_failed_and_are_gone_are_shown_as_they_were_with_their_guards_and_places() -> None:
    db = body("StatefulSet", "db", ASKS, spec={"template": {"spec": {}}})
    there, gone, out = fallen_pod("db-0", db), fallen_pod("db-1", db), fallen_pod("db-2", db)
    stranger = fallen_pod("other-0", body("StatefulSet", "other"))
    gone["metadata"]["labels"] = {"controller-revision-hash": "db-7"}
    out["metadata"]["labels"] = {labels.RESCHEDULING: "disabled"}
    found = case_of(OwnedObjects(db, (db,), (there,)), fell=(there, gone, out, stranger))
    assert [each["metadata"]["name"] for each in found.vanished] == ["db-1", "db-2"]
    shown = found.vanished[0]
    assert (shown["metadata"]["uid"], shown["metadata"]["labels"]) == ("db-1-uid", gone["metadata"]["labels"])
    assert (shown["spec"]["nodeName"], shown["status"]["reason"]) == ("one", "OutOfcpu")
    assert parse_instant(shown["status"]["startTime"]) == NOW
    assert detect_failure(shown, None, RecoverySettings(), NOW + 5) == detect_failure(
        gone, None, RecoverySettings(), NOW + 5
    )
    assert list(found.objections) == ["db-2-uid"]
    assert feasible(found) == set(NODES)


def fallen_pod(name: str, of: Json) -> Json:
    """A pod that its kubelet turned away just now."""
    return pod(name, of, phase="Failed", reason="OutOfcpu", conditions=[], startTime=format_instant(NOW))


def test_whoever_has_the_name_of_the_replacement_is_shown() -> None:
    single = crashing("single", notes=ASKS | {labels.FAILURES: '{"count":1,"replacement":"copy"}'})
    copy = pod("copy")
    assert case_of(OwnedObjects(single, (), (single,)), read=(copy,)).replacement == copy
    assert case_of(OwnedObjects(single, (), (single,))).replacement is None
    unreadable = crashing("single", notes=ASKS | {labels.FAILURES: "{"})
    assert case_of(OwnedObjects(unreadable, (), (unreadable,))).replacement is None

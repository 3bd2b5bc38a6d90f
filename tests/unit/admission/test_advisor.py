"""What is known about a new pod: which migration waits for it, and on which nodes its like have failed."""

from __future__ import annotations

from typing import Any

import pytest

from rescheduler.admission.advisor import NO_ADVICE, RecentFailures
from rescheduler.model import labels
from rescheduler.model.advice import ExpectedMove, NewPod
from rescheduler.model.migration import ObjectReference, Phase
from rescheduler.model.objects import Owner
from rescheduler.model.plan import Method
from rescheduler.recovery.settings import RecoverySettings
from tests.unit.admission.worlds import FORGET_AFTER, NOW, RETRIES, WEB, World, at, new_pod, record, reference

DATABASE = Owner("StatefulSet", "db", "db-uid")
BATCH = Owner("Job", "batch", "batch-uid")
AWAITED = ExpectedMove("m", "one", "two", "LoadBalancing", "original-uid", "web-abc-1")


def avoided(world: World, about: NewPod) -> set[str]:
    return set(world.placement_advisor().advise(about).avoid)


class TestWhereAPodIsExpected:
    def test_a_pod_of_the_controller_whose_pod_was_evicted_is_the_one(self) -> None:
        world = World()
        world.migration()
        assert world.placement_advisor().advise(new_pod()).expected == AWAITED

    def test_from_the_moment_of_the_eviction_on(self) -> None:
        world = World()
        world.migration(step="Evict")
        assert world.placement_advisor().advise(new_pod()).expected == AWAITED

    @pytest.mark.parametrize(
        "otherwise",
        [
            {"step": "Pause"},
            {"step": "RollBack"},
            {"target": ""},
            {"method": Method.HANDOFF},
            {"phase": Phase.PENDING},
            {"phase": Phase.COMPLETED},
            {"controller": ObjectReference("ReplicaSet", "web-abc", "another-uid")},
            {"controller": None, "workload": ObjectReference("ReplicaSet", "web-abc", WEB.uid)},
            {"replacement": ObjectReference("Pod", "web-abc-2", "rebuilt-uid")},
        ],
    )
    def test_a_migration_that_does_not_wait_for_it_says_nothing(self, otherwise: dict[str, Any]) -> None:
        world = World()
        world.migration(**otherwise)
        assert world.placement_advisor().advise(new_pod()) is NO_ADVICE

    def test_of_two_that_wait_it_is_for_the_one_that_began_first(self) -> None:
        world = World()
        world.migration("a-later", start_time=NOW - 1)
        world.migration("earlier", start_time=NOW - 9)
        expected = world.placement_advisor().advise(new_pod()).expected
        assert expected is not None
        assert expected.migration == "earlier"

    def test_a_pod_that_is_marked_stays_with_its_migration_until_that_is_over(self) -> None:
        world = World()
        world.migration("earlier", start_time=NOW - 9)
        world.migration(
            "mine", step="AwaitRebuiltReady", replacement=ObjectReference("Pod", "web-abc-2", "rebuilt-uid")
        )
        marked = new_pod(labels={labels.MIGRATION_ID: "mine"}, name="web-abc-2", uid="rebuilt-uid")
        expected = world.placement_advisor().advise(marked).expected
        assert expected is not None
        assert expected.migration == "mine"
        world.migration("mine", version="2", phase=Phase.COMPLETED)
        world.migrations.drop(("shop", "earlier"))
        assert world.placement_advisor().advise(marked) is NO_ADVICE

    def test_a_pod_that_bears_the_mark_of_somebody_elses_migration_is_not_believed(self) -> None:
        world = World()
        world.migration()
        stranger = new_pod(Owner("ReplicaSet", "other", "other-uid"), labels={labels.MIGRATION_ID: "m"})
        assert world.placement_advisor().advise(stranger) is NO_ADVICE

    def test_the_scheduler_asks_later_when_the_new_pod_is_recorded_and_not_yet_marked(self) -> None:
        world = World()
        world.migration(step="Restore", replacement=ObjectReference("Pod", "web-abc-2", "rebuilt-uid"))
        told = [
            world.placement_advisor().advise(new_pod(name=name, uid=uid)).expected is not None
            for name, uid in (("web-abc-2", "rebuilt-uid"), ("web-abc-2", ""), ("web-abc-2", "x"), ("web-abc-3", ""))
        ]
        assert told == [True, True, False, False]

    def test_a_stateful_set_s_pod_is_told_by_its_name(self) -> None:
        world = World()
        world.migration(pod="db-1", controller=ObjectReference("StatefulSet", "db", "db-uid"))
        known = world.placement_advisor()
        assert known.advise(new_pod(DATABASE, "db-1")).expected is not None
        assert known.advise(new_pod(DATABASE, "db-0")).expected is None

    def test_a_second_pod_of_a_scale_up_is_not_expected_once_the_first_is_seen_with_its_mark(self) -> None:
        world = World()
        world.migration()
        known = world.placement_advisor()
        running = {labels.MIGRATION_ID: "m", labels.MIGRATION_STATUS: "in-progress"}
        world.put("Pod", {"name": "web-abc-1", "uid": "original-uid", "labels": running})
        assert known.advise(new_pod()).expected is not None
        world.put("Pod", {"name": "web-abc-2", "labels": running})
        assert known.advise(new_pod()).expected is None
        assert known.advise(new_pod(labels=running, name="web-abc-2", uid="web-abc-2-uid")).expected is not None
        world.cache.drop("Pod", ("shop", "web-abc-2"))
        assert known.advise(new_pod()).expected is not None

    def test_it_is_to_be_held_back_only_if_the_operator_wants_so_and_nobody_took_the_place(self) -> None:
        world = World()
        world.migration()
        for wanted in (True, False):
            expected = world.placement_advisor(gate=wanted).advise(new_pod()).expected
            assert expected is not None
            assert expected.gate is wanted

    def test_what_we_place_ourselves_needs_no_advice(self) -> None:
        world = World()
        world.migration()
        world.deployment(record("one"))
        known = world.placement_advisor()
        assert known.advise(new_pod(labels={labels.PLACEHOLDER: "m"})) is NO_ADVICE
        assert known.advise(new_pod(annotations={labels.WITHHELD: "{}"})) is NO_ADVICE
        copy = new_pod(None, "rescheduled-web-1", labels={labels.MIGRATION_ID: "m"})
        assert known.advise(copy) is NO_ADVICE


class TestWhichNodesItAvoids:
    def test_those_where_pods_of_its_deployment_failed(self) -> None:
        world = World()
        world.deployment(record("one"))
        told = f"node(s) where pods of Deployment web failed (CrashLoopBackOff at {at(NOW - 60)})"
        assert world.placement_advisor().advise(new_pod()).avoid == {"one": told}

    def test_where_nodes_share_a_reason_it_reads_the_same_so_that_the_scheduler_adds_them_up(self) -> None:
        world = World()
        world.deployment(record("one", "two"))
        told = "node(s) where pods of Deployment web failed (CrashLoopBackOff)"
        assert world.placement_advisor().advise(new_pod()).avoid == {"one": told, "two": told}

    def test_a_change_of_the_record_counts_at_once(self) -> None:
        world = World()
        world.deployment(record("one"))
        known = world.placement_advisor()
        world.deployment(record("two"))
        assert set(known.advise(new_pod()).avoid) == {"two"}
        world.deployment(RETRIES)
        assert known.advise(new_pod()) is NO_ADVICE

    def test_the_copy_of_the_record_on_a_replica_set_is_never_the_record(self) -> None:
        world = World()
        world.deployment(RETRIES)
        above = reference(Owner("Deployment", "web", "web-uid"))
        world.put("ReplicaSet", {"name": "web-abc", "ownerReferences": [above], "annotations": record("one")})
        assert avoided(world, new_pod()) == set()
        world.cache.drop("Deployment", ("Deployment", "shop", "web"))
        assert avoided(world, new_pod()) == set()

    def test_a_replica_set_of_nobody_s_keeps_its_own(self) -> None:
        world = World()
        world.put("ReplicaSet", {"name": "web-abc", "annotations": record("one")})
        assert avoided(world, new_pod()) == {"one"}

    def test_a_workload_of_the_same_name_that_was_there_before_says_nothing(self) -> None:
        world = World()
        world.deployment(record("one"))
        young = Owner("ReplicaSet", "web-abc", "younger-uid")
        assert avoided(world, new_pod(young, labels={labels.TEMPLATE_HASH: "abc"})) == set()

    def test_the_first_pods_of_a_rollout_come_before_their_replica_set_is_known(self) -> None:
        world = World()
        world.deployment(record("one"))
        young = Owner("ReplicaSet", "web-def", "web-def-uid")
        assert avoided(world, new_pod(young, labels={labels.TEMPLATE_HASH: "def"})) == {"one"}
        assert avoided(world, new_pod(young, labels={labels.TEMPLATE_HASH: "xyz"})) == set()

    @pytest.mark.parametrize(("owner", "label"), [(WEB, labels.TEMPLATE_HASH), (DATABASE, "controller-revision-hash")])
    def test_what_failed_with_another_template_says_nothing_about_this_one(self, owner: Owner, label: str) -> None:
        world = World()
        world.deployment(record("one", revision="old"))
        world.put("StatefulSet", {"name": "db", "annotations": record("one", slot="db-0", revision="old")})
        told = [avoided(world, new_pod(owner, "db-0", labels=each)) for each in ({label: "old"}, {label: "new"}, {})]
        assert told == [{"one"}, set(), {"one"}]

    def test_each_pod_of_a_stateful_set_has_a_record_of_its_own(self) -> None:
        world = World()
        world.put("StatefulSet", {"name": "db", "annotations": record("one", slot="db-1")})
        assert avoided(world, new_pod(DATABASE, "db-1")) == {"one"}
        assert avoided(world, new_pod(DATABASE, "db-0")) == set()

    def test_pods_of_a_daemon_set_avoid_nothing(self) -> None:
        world = World()
        world.put("DaemonSet", {"name": "logs", "annotations": record("one", slot="one")})
        logs = Owner("DaemonSet", "logs", "logs-uid")
        world.failed("logs-1", logs, "two")
        assert world.placement_advisor().advise(new_pod(logs)) is NO_ADVICE

    def test_a_cron_job_keeps_the_record_of_its_jobs_only_if_it_says_how_often(self) -> None:
        world = World()
        nightly = reference(Owner("CronJob", "nightly", "nightly-uid"), "batch/v1")
        job = Owner("Job", "nightly-29", "nightly-29-uid")
        world.put("Job", {"name": "nightly-29", "ownerReferences": [nightly], "annotations": record("two")})
        world.put("CronJob", {"name": "nightly", "annotations": record("one")})
        assert avoided(world, new_pod(job)) == {"one"}
        world.put("CronJob", {"name": "nightly", "annotations": {labels.FAILURES: record("one")[labels.FAILURES]}})
        assert avoided(world, new_pod(job)) == {"two"}

    def test_the_pod_of_a_cron_job_may_come_before_its_job_is_known(self) -> None:
        world = World()
        world.put("CronJob", {"name": "nightly", "annotations": record("one")})
        assert avoided(world, new_pod(Owner("Job", "nightly-29391240", "uid"))) == {"one"}
        assert avoided(world, new_pod(Owner("Job", "nightly-again", "uid"))) == set()

    def test_a_pod_that_nobody_manages_carries_its_own_record(self) -> None:
        world = World()
        assert avoided(world, new_pod(None, "solo", annotations=record("one"))) == {"one"}
        world.put("Pod", {"name": "solo", "annotations": record("two")})
        assert avoided(world, new_pod(None, "solo")) == {"two"}
        (told,) = world.placement_advisor().advise(new_pod(None, "solo")).avoid.values()
        assert told == f"node(s) where pod solo failed (CrashLoopBackOff at {at(NOW - 60)})"

    def test_a_failure_that_is_too_old_is_forgotten(self) -> None:
        world = World()
        world.deployment(record("one", at=NOW - FORGET_AFTER))
        assert avoided(world, new_pod()) == set()

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"nodes": {"one": {}}}', '{"count": "many"}'])
    def test_an_annotation_that_is_no_record_is_none(self, text: str) -> None:
        world = World()
        world.deployment({**RETRIES, labels.FAILURES: text})
        assert world.placement_advisor().advise(new_pod()) is NO_ADVICE

    def test_nodes_of_the_control_plane_count_like_any_other(self) -> None:
        world = World("one")
        for name in ("front", "one"):
            world.node(name, labels={"node-role.kubernetes.io/control-plane": ""})
        world.deployment(record("one"))
        assert set(world.placement_advisor().advise(new_pod()).avoid) == {"one"}

    def test_if_all_nodes_that_could_take_pods_would_be_refused_none_is(self) -> None:
        world = World()
        world.node("shut", cordoned=True)
        world.node("sick", ready=False)
        world.deployment(record("one", "two", "three"))
        known = world.placement_advisor()
        assert known.advise(new_pod()) is NO_ADVICE
        world.node("sick")
        assert set(known.advise(new_pod()).avoid) == {"one", "two", "three"}
        world.cache.drop("Node", "sick")
        assert known.advise(new_pod()) is NO_ADVICE

    def test_a_pod_that_is_opted_out_is_left_to_the_scheduler(self) -> None:
        world = World()
        world.deployment(record("one"))
        assert world.placement_advisor().advise(new_pod(labels={labels.RESCHEDULING: "disabled"})) is NO_ADVICE

    def test_an_owner_of_a_kind_that_nobody_knows_is_no_reason_to_fail(self) -> None:
        assert World().placement_advisor().advise(new_pod(Owner("Rollout.argoproj.io", "x", "u"))) is NO_ADVICE


class TestPodsThatFailedJustNow:
    def test_their_nodes_are_avoided_before_anybody_has_recorded_them(self) -> None:
        world = World()
        world.deployment(RETRIES)
        known = world.placement_advisor()
        world.failed("web-abc-1", WEB, "one", "OutOfcpu")
        told = f"node(s) where pods of Deployment web failed (OutOfcpu at {at(NOW)})"
        assert known.advise(new_pod()).avoid == {"one": told}

    def test_only_where_failed_pods_are_to_be_rescheduled(self) -> None:
        world = World()
        world.deployment({})
        world.failed("web-abc-1", WEB, "one")
        assert avoided(world, new_pod()) == set()
        assert avoided(world, new_pod(annotations=RETRIES)) == {"one"}
        assert avoided(world, new_pod(annotations={labels.MISSPELT_RETRIES: "1"})) == {"one"}

    def test_only_for_reasons_that_count(self) -> None:
        world = World()
        world.deployment(RETRIES)
        world.failed("web-abc-1", WEB, "one", "DeadlineExceeded")
        assert avoided(world, new_pod()) == set()

    def test_only_for_pods_of_the_same_controller(self) -> None:
        world = World()
        world.deployment(RETRIES)
        world.failed("other-1", Owner("ReplicaSet", "other", "other-uid"), "one")
        assert avoided(world, new_pod()) == set()

    def test_a_stateful_set_deletes_a_failed_pod_at_once_and_it_is_remembered_all_the_same(self) -> None:
        world = World()
        world.put("StatefulSet", {"name": "db", "annotations": RETRIES})
        known = world.placement_advisor()
        world.failed("db-1", DATABASE, "one")
        world.cache.drop("Pod", ("shop", "db-1"))
        assert set(known.advise(new_pod(DATABASE, "db-1")).avoid) == {"one"}
        assert known.advise(new_pod(DATABASE, "db-0")) is NO_ADVICE
        world.failed("db-1", DATABASE, "two", uid="second")
        assert set(known.advise(new_pod(DATABASE, "db-1")).avoid) == {"one", "two"}

    def test_only_for_a_minute_however_often_a_new_list_tells_of_them(self) -> None:
        world = World()
        world.put("Job", {"name": "batch", "annotations": RETRIES})
        known = world.placement_advisor()
        world.failed("batch-1", BATCH, "one")
        world.time += 59
        assert set(known.advise(new_pod(BATCH)).avoid) == {"one"}
        world.failed("batch-1", BATCH, "one")
        world.time += 1
        assert known.advise(new_pod(BATCH)) is NO_ADVICE

    def test_nothing_is_kept_of_pods_that_are_gone_for_long(self) -> None:
        world = World()
        fresh = RecentFailures(world.cache, RecoverySettings, lambda: world.time)
        world.cache.listen(lambda _kind, key, _version: fresh.update(key))
        for number in range(1000):
            world.time += 1
            world.failed(f"batch-{number}", BATCH, "one")
            world.cache.drop("Pod", ("shop", f"batch-{number}"))
        assert len(fresh) <= 61

    def test_without_recovery_no_failure_counts(self) -> None:
        world = World()
        fresh = RecentFailures(world.cache, lambda: RecoverySettings(enabled=False), lambda: world.time)
        world.cache.listen(lambda _kind, key, _version: fresh.update(key))
        world.failed("batch-1", BATCH, "one")
        assert len(fresh) == 0

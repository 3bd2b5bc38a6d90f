"""What comes of samples for the nodes and pods of a snapshot, what stands in for those without, and what is said."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from rescheduler.config.schema import UsageSettings
from rescheduler.model import labels
from rescheduler.model.objects import Usage
from tests.support.builders import NOW, cluster, deployment, node, pod, statefulset
from tests.unit.usage.rows import hear, heard, of_node, of_pod


def used(cpu: int, memory: int) -> tuple[tuple[str, int], ...]:
    return (("cpu", cpu), ("memory", memory))


def test_nodes_and_pods_are_known_by_their_samples() -> None:
    history = heard(of_node("a", 900, 2**31), of_pod("web", 70, 2**25))
    found = history.measured(cluster(node("a"), pod("web", on="a")))
    assert found.nodes == {"a": used(900, 2**31)}
    assert found.pods == {("default", "web"): used(70, 2**25)}
    assert found.warnings == ()


def test_several_answers_are_smoothed() -> None:
    history = heard(of_node("a", 100, ago=60), now=NOW - 60)
    hear(history, [of_node("a", 400, ago=30)], NOW - 30)
    hear(history, [of_node("a", 100)])
    assert history.measured(cluster(node("a"))).nodes["a"] == used(200, 2**30)


def test_who_is_not_in_the_snapshot_is_not_in_the_answer() -> None:
    history = heard(of_node("gone"), of_node("a"), of_pod("gone"))
    found = history.measured(cluster(node("a")))
    assert list(found.nodes) == ["a"]
    assert found.pods == {}


def test_a_pod_that_is_pending_or_has_ended_uses_nothing() -> None:
    history = heard(of_pod("done"), of_pod("waiting"), of_node("a"))
    found = history.measured(cluster(node("a"), pod("done", on="a", phase="Succeeded"), pod("waiting")))
    assert (found.pods, found.warnings) == ({}, ())


class TestWhoHasNoHistory:
    def test_a_new_replica_is_expected_to_use_what_the_others_do(self) -> None:
        rows = [*deployment("web", on=["a", "a", "a"])]
        history = heard(
            of_node("a"), of_pod("web-" + _hash("web") + "-0", 100), of_pod("web-" + _hash("web") + "-1", 300)
        )
        found = history.measured(cluster(node("a"), rows))
        assert len(found.pods) == 2
        assert found.workloads == {("Deployment", "default", "web"): used(200, 2**20)}
        assert found.warnings == ()

    def test_what_a_workload_used_is_known_when_all_its_pods_were_replaced(self) -> None:
        history = heard(of_node("a"), of_pod("db-0", 250))
        history.measured(cluster(node("a"), statefulset("db", on=["a"])))
        hear(history, [of_node("a", ago=-60)], NOW + 60)
        anew = statefulset("db", on=["a"], age=-30.0)  # made 30 s after NOW
        found = history.measured(replace(cluster(node("a"), anew), taken_at=NOW + 60))
        assert found.pods == {}
        assert found.workloads[("StatefulSet", "default", "db")] == used(250, 2**20)
        assert found.warnings == ()

    def test_a_workload_is_forgotten_after_a_day(self) -> None:
        history = heard(of_pod("db-0", 250))
        history.measured(cluster(node("a"), statefulset("db", on=["a"])))
        hear(history, [of_node("a", ago=-86401)], NOW + 86401)
        found = history.measured(replace(cluster(node("a")), taken_at=NOW + 86401))
        assert found.nodes
        assert found.workloads == {}

    def test_the_copy_of_a_pod_uses_what_the_original_did(self) -> None:
        history = heard(of_node("a"), of_pod("lone", 77))
        history.measured(cluster(node("a"), pod("lone", on="a")))
        copy = pod("rescheduled-lone-1", on="a", age=-30.0, annotations={labels.ORIGINAL_POD_NAME: "lone"})
        found = history.measured(replace(cluster(node("a"), copy), taken_at=NOW + 60))
        assert found.workloads[("Pod", "default", "rescheduled-lone-1")] == used(77, 2**20)

    @pytest.mark.parametrize(
        ("on", "rows"),
        [("b", ()), ("", ()), ("b", [of_pod("copy", None, 2**20)])],
        ids=["new", "nominated", "half known"],
    )
    def test_a_copy_that_was_not_handed_over_yet_uses_what_its_workload_does(self, on: str, rows: list[Usage]) -> None:
        name = "web-" + _hash("web") + "-0"
        copy = pod("copy", on=on, annotations={labels.ORIGINAL_POD_NAME: name})
        history = heard(of_node("a"), of_node("b"), of_pod(name, 450), *rows)
        found = history.measured(cluster(node("a"), node("b"), deployment("web", on=["a"]), copy))
        assert found.workloads["Pod", "default", "copy"] == used(450, 2**20)
        assert found.warnings == ()

    def test_a_pod_of_the_same_name_that_is_younger_than_the_sample_has_none(self) -> None:
        history = heard(of_pod("lone", 900, ago=30), of_node("a"))
        fresh = msgspec.structs.replace(pod("lone", on="a"), created=NOW - 10, uid="another")
        found = history.measured(cluster(node("a"), fresh))
        assert found.pods == {}
        assert found.warnings == (
            "usage: no sample of the last 3m0s for 1 of 1 pods, nor for their like; their requests count: default/lone",
        )


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("row", "why"),
        [
            (of_node("a", ago=181), "1 of 1 samples is older than 3m0s, and refused: a"),
            (
                of_node("a", ago=-31),
                "1 of 1 samples is from a time that has not come yet (clocks differ), and refused: a",
            ),
            (of_node("a", ago=None), "1 of 1 samples is without a time, and refused: a"),
        ],
    )
    def test_a_sample_of_another_time_is_refused_and_said(self, row: object, why: str) -> None:
        assert isinstance(row, type(of_node("a")))
        found = heard(row).measured(cluster(node("a")))
        assert found.nodes == {}
        assert f"usage: {why}" in found.warnings

    def test_what_was_refused_of_an_earlier_answer_is_no_longer_said(self) -> None:
        history = heard(of_node("a", ago=500))
        hear(history, [of_node("a")])
        assert history.measured(cluster(node("a"))).warnings == ()

    def test_a_clock_that_is_a_little_ahead_is_believed(self) -> None:
        assert heard(of_node("a", ago=-25)).measured(cluster(node("a"))).nodes


class TestWhatIsSaid:
    def test_many_are_counted_and_three_are_named(self) -> None:
        nodes = [node(f"n{number}") for number in range(9)]
        found = heard().measured(cluster(nodes))
        assert found.warnings == (
            "usage: no sample of the last 3m0s for 9 of 9 nodes; they are counted by their pods: n0, n1, n2 and 6 more",
        )

    def test_a_node_that_is_not_ready_and_a_pod_that_ends_are_not_missed(self) -> None:
        rows = (node("a", ready=False), pod("web", on="a", deleting=True), pod("new", on="a", phase="Pending"))
        assert heard().measured(cluster(*rows)).warnings == ()

    def test_a_source_that_names_nodes_otherwise_is_found_out(self) -> None:
        found = heard(of_node("10.0.0.7")).measured(cluster(node("a")))
        assert found.warnings[-1] == "usage: the source names nodes otherwise than the cluster does: 10.0.0.7"

    def test_a_failure_is_said_while_what_is_known_still_counts(self) -> None:
        history = heard(of_node("a", 900))
        history.begin(NOW)
        history.failed("nobody is there")
        found = history.measured(cluster(node("a")))
        assert found.warnings == ("what is used could not be read: nobody is there",)
        assert found.nodes == {"a": used(900, 2**30)}

    def test_after_a_while_without_answers_nothing_counts_any_more(self) -> None:
        history = heard(of_node("a", 900))
        history.failed("nobody is there")
        assert history.measured(replace(cluster(node("a")), taken_at=NOW + 181)).nodes == {}

    def test_nor_does_what_is_remembered_of_workloads(self) -> None:
        history = heard(of_node("a", 900), of_pod("db-0", 250))
        rows = cluster(node("a"), statefulset("db", on=["a"]))
        assert history.measured(rows).workloads
        history.failed("nobody is there")
        found = history.measured(replace(rows, taken_at=NOW + 181))
        assert (found.pods, found.workloads) == ({}, {})
        assert any("their requests count: default/db-0" in each for each in found.warnings)

    def test_a_snapshot_without_a_time_is_taken_for_as_old_as_the_answer(self) -> None:
        found = heard(of_node("a")).measured(replace(cluster(node("a")), taken_at=None))
        assert found.nodes
        assert "does not say when it was taken" in found.warnings[0]


def test_a_longer_window_remembers_more() -> None:
    settings = UsageSettings(window=3600.0)
    history = heard(of_node("a", 100, ago=170), settings=settings, now=NOW - 1000 + 830)
    hear(history, [of_node("a", 300)])
    assert dict(history.measured(cluster(node("a"))).nodes["a"])["cpu"] > 250


def _hash(name: str) -> str:
    rows = deployment(name, on=["a"])
    return str(rows[1].name).removeprefix(f"{name}-")  # type: ignore[union-attr]

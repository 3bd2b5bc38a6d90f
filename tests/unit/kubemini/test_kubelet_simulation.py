"""The marks that tell pods and kubelets how to behave: what they say, and what becomes of nonsense."""

from __future__ import annotations

import pytest

from kubemini.simulation import HEALTHY, KUBELET_LABEL, PREFIX, Kubelet, Mode, behaviour, kubelet_of


def marks(**said: str) -> dict[str, str]:
    return {PREFIX + key.replace("_", "-"): value for key, value in said.items()}


@pytest.mark.parametrize("annotations", [None, {}, {"example.com/fails": "CrashLoopBackOff"}])
def test_a_pod_without_marks_is_healthy(annotations: dict[str, str] | None) -> None:
    assert behaviour(annotations, "a") is HEALTHY


def test_every_mark_is_read() -> None:
    said = marks(
        starts_in="1", completes_in="2.5", ends_in="3", fails="Failed", reason="Terminated", restarts_every="0.25"
    )
    how = behaviour(said, "a")
    assert (how.starts_in, how.completes_in, how.ends_in, how.restarts_every) == (1, 2.5, 3, 0.25)
    assert (how.fails, how.reason, how.problems) == (Mode.ENDED, "Terminated", ())


@pytest.mark.parametrize(("nodes", "fails"), [("a", True), ("b, a", True), ("b,c", False), ("ab", False), ("", False)])
def test_a_pod_fails_on_the_nodes_that_are_named(nodes: str, fails: bool) -> None:
    how = behaviour(marks(fails="NeverReady", fails_on=nodes), "a")
    assert how.fails is (Mode.NEVER_READY if fails else None)


@pytest.mark.parametrize("text", ["soon", "", "-1", "inf", "nan", "1s"])
def test_a_time_that_is_none_is_told_and_counts_as_not_given(text: str) -> None:
    how = behaviour(marks(starts_in=text, ends_in="4"), "a")
    assert (how.starts_in, how.ends_in) == (None, 4)
    assert how.problems == (f"simulate.rescheduler.io/starts-in: {text!r} is not a number of seconds, 0 or more",)


def test_a_pod_that_is_told_to_crash_without_end_leaves_the_machine_time_for_others() -> None:
    assert behaviour(marks(restarts_every="0"), "a").restarts_every == 0.1


def test_a_way_to_fail_that_is_none_is_told_even_where_the_pod_does_not_fail() -> None:
    how = behaviour(marks(fails="CrashLoop", fails_on="b"), "a")
    assert how.fails is None
    (problem,) = how.problems
    assert problem == (
        "simulate.rescheduler.io/fails: 'CrashLoop' is not one of CrashLoopBackOff, SidecarRuns, NeverReady, "
        "ImagePullBackOff, OutOfcpu, Failed"
    )


def test_a_mark_that_is_not_known_is_told() -> None:
    (problem,) = behaviour(marks(fail="CrashLoopBackOff"), "a").problems
    assert problem.startswith("simulate.rescheduler.io/fail is not known; there are starts-in, completes-in,")


@pytest.mark.parametrize(("labels", "state"), [({}, ""), ({KUBELET_LABEL: "Dead"}, "Dead"), ({KUBELET_LABEL: ""}, "")])
def test_a_kubelet_is_as_its_label_says(labels: dict[str, str], state: str) -> None:
    assert kubelet_of(labels) == (Kubelet(state), "")


def test_a_kubelet_whose_label_makes_no_sense_is_healthy_and_it_is_told() -> None:
    kubelet, problem = kubelet_of({KUBELET_LABEL: "dead"})
    assert kubelet is Kubelet.HEALTHY
    assert problem == "simulate.rescheduler.io/kubelet: 'dead' is not one of NotReady, Dead"

"""How pods say that they misbehave; what kubelets make of it is in contract tests."""

from __future__ import annotations

import pytest

from kubemini.simulation import PREFIX, Mode, behaviour


def annotated(**values: str) -> dict[str, str]:
    return {PREFIX + key.replace("_", "-"): value for key, value in values.items()}


@pytest.mark.parametrize(("nodes", "fails"), [("a", True), ("b, a", True), ("b,c", False), ("ab", False), ("", False)])
def test_a_pod_fails_on_the_nodes_that_are_named(nodes: str, fails: bool) -> None:
    how = behaviour(annotated(fails="NeverReady", fails_on=nodes), "a")
    assert how.fails is (Mode.NEVER_READY if fails else None)


def test_crashes_have_a_shortest_interval() -> None:
    assert behaviour(annotated(restarts_every="0"), "a").restarts_every == 0.1


@pytest.mark.parametrize("text", ["soon", "", "-1", "inf", "nan", "1s"])
def test_a_wrong_time_counts_as_not_given(text: str) -> None:
    how = behaviour(annotated(starts_in=text, ends_in="4", fails="Crash"), "a")
    assert (how.starts_in, how.ends_in, how.fails) == (None, 4, None)

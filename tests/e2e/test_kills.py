"""A controller is killed by SIGKILL in the middle of a move; its successor ends the move or takes all of it back.

Real processes, real signals, and a last leader that waits for the lease of the dead one. The real control plane sees
one death in every method, the embedded cluster more of them; `make chaos` sees hundreds. In every round a new
controller dies in the next move while it goes on with what the dead left, so each of them finds a mess.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chaos.cases import CASES, stage
from tests.chaos.kills import DELETED, Kill, chosen_kills, every_kill, rounds_of, run_round
from tests.chaos.lives import Setting
from tests.support.both_clusters import ClusterUnderTest
from tests.support.embedded import EmbeddedControlPlane
from tests.support.killing import Point
from tests.support.migrations import pod_migrations
from tests.testbed.cluster import ControlPlane
from tests.testbed.hollow import NodeShape

# Steps with commands: those that only wait may be over before they are recorded.
ON_THE_REAL_ONE = [
    Kill("handoff", "HandOver", "unanswered"),
    Kill("lone", "Ungate", "first", "first"),
    Kill("evict", "Prefer", "leaving", "sending"),
    Kill("stateful", "Evict", "stored"),
    Kill("copy", "EvictOriginal", "sending-second"),
]
ON_THE_EMBEDDED_ONE = [
    Kill("handoff", "CreateCopy", "sending"),
    Kill("lone", "Cheapen", "first", "second"),
    Kill("evict", "Pause", "unanswered", "first"),
    Kill("recreate", "Restore", "first"),
    Kill("stateful", "MarkRebuilt", "stored", DELETED),
    Kill("replicas", "Prefer", "first", "storing"),
    Kill("copy", "Ungate", "stored", "unanswered"),
    Kill("handoff", "Completed", "storing"),
    Kill("evict", "Evict", "unanswered"),
    Kill("copy", "EvictOriginal", "second"),
]


@contextmanager
def four_nodes(cluster: ClusterUnderTest) -> Iterator[list[str]]:
    with pod_migrations(cluster):
        names = cluster.add_nodes(4, NodeShape(), prefix="killed")
        yield names
        cluster.remove_nodes(names)


def nothing_is_lost_and_nothing_left(cluster: ClusterUnderTest, kills: list[Kill], folder: Path) -> None:
    setting = Setting(cluster.kubeconfig, folder, forgets_leases=True)
    with four_nodes(cluster) as nodes, stage(cluster, nodes, CASES) as made:
        for round_of_kills in rounds_of(kills):
            done = run_round(made, setting, round_of_kills, print)
            assert not done.broken, setting.said()
            assert all(death.reached for death in done.deaths), done.deaths
            assert {death.phase for death in done.deaths} <= {"Completed", "Failed", DELETED}
            made.clear()


@pytest.mark.cluster
def test_whoever_comes_after_a_killed_controller_leaves_nothing_behind(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    nothing_is_lost_and_nothing_left(control_plane, ON_THE_REAL_ONE, tmp_path)


@pytest.mark.parametrize("kills", rounds_of(ON_THE_EMBEDDED_ONE), ids=["every case", "some once more"])
def test_whoever_comes_after_a_killed_controller_leaves_nothing_behind_in_the_embedded_cluster(
    kills: list[Kill], tmp_path: Path
) -> None:
    with EmbeddedControlPlane() as cluster:
        nothing_is_lost_and_nothing_left(cluster, kills, tmp_path)


def test_two_hundred_kills_are_at_every_step_of_every_case() -> None:
    chosen = chosen_kills(200, seed=1)
    assert sum(len(kill.lives) for kill in chosen) >= 200
    assert {(kill.case, kill.step) for kill in chosen} == {(kill.case, kill.step) for kill in every_kill()}


def test_a_round_moves_no_workload_twice() -> None:
    for round_of_kills in rounds_of(chosen_kills(200, seed=1)):
        cases = [kill.case for kill in round_of_kills]
        assert len(cases) == len(set(cases))


def test_a_point_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="nowhere is not one of"):
        Point.parsed("handoff:HandOver:nowhere")


def test_a_trap_dies_of_the_signal_and_not_of_an_exception() -> None:
    code = "from tests.support.killing import Point, die; die(Point('handoff', 'HandOver', 'stored'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert done.stderr == "killed itself at handoff:HandOver:stored\n"

"""A process that is killed right after any one of its writes: the next one ends the move or takes all of it back.

Every write counts, to the PodMigration and to the cluster, so every recorded step and every command of it is a place to
die. The next process either goes on, or finds the time up and rolls back: in turn by each of them, and by both where
many examples are wanted. The embedded cluster sees all places, the real one a sample.
"""

from __future__ import annotations

import itertools

import pytest

from rescheduler.migration.settings import MigrationSettings
from rescheduler.model.migration import MigrationSpec, Phase
from rescheduler.model.plan import Method
from tests.support.both_clusters import Space, name_of, nodes_fixture
from tests.support.examples import seeds
from tests.support.manifests import deployment, pod, stateful_set
from tests.support.migrations import (
    MIGRATIONS,
    QUICK,
    Drive,
    Fuse,
    Killed,
    Moves,
    audit,
    wait_until_settled,
)
from tests.support.pod_migrations import migration_spec, replace

pytestmark = pytest.mark.usefixtures("kind")
TIME_IS_UP = replace(QUICK, timeout=0.0, attempts=1)
SAMPLED = 7  # on the real cluster: one of so many
CASES = {
    "handoff": (Method.HANDOFF, deployment("web", 2)),
    "evict": (Method.EVICT, deployment("web", 2)),
    "evict of a StatefulSet": (Method.EVICT, stateful_set("web", 2)),
    "copy": (Method.COPY, pod("web")),
}
ENDS = {"rolls back": TIME_IS_UP, "goes on": QUICK}


two_nodes = nodes_fixture(2, prefix="killed", scope="module")


@pytest.fixture
def every(request: pytest.FixtureRequest) -> int:
    """Which of the writes are places to die: one of so many."""
    return SAMPLED if "real" in request.node.name else 1


@pytest.mark.parametrize("start", list(seeds(few=1, many=2)))
@pytest.mark.parametrize("case", list(CASES))
def test_whoever_comes_after_a_kill_leaves_nothing_behind(
    space: Space, two_nodes: list[str], case: str, start: int, every: int
) -> None:
    moves, (method, workload) = Moves(space), CASES[case]
    space.create(workload)
    ends, writes, burnt = itertools.islice(itertools.cycle(ENDS), start, None), 1, True
    phases: dict[str, set[Phase]] = {end: set() for end in ENDS}
    while burnt:
        end = next(ends)
        burnt, phase = _killed(moves, migration_spec("", method=method), writes, ENDS[end], two_nodes)
        phases[end].add(phase)
        writes += every
    assert writes > 12, "so few writes are no move"
    assert phases["goes on"] == {Phase.COMPLETED}
    assert Phase.FAILED in phases["rolls back"] or start == 1, "after the first write all can be taken back"


def _killed(
    moves: Moves, order: MigrationSpec, writes: int, settings: MigrationSettings, nodes: list[str]
) -> tuple[bool, Phase]:
    """A move that is killed after so many writes, then ended by another process; if it was killed, and how it ended."""
    space, name = moves.space, f"m{writes}"
    pods = 1 if order.fixed_method is Method.COPY else 2
    before = wait_until_settled(space, pods)
    original = space.pods("web")[0]
    target = next(node for node in nodes if node != original["spec"]["nodeName"])
    moves.order(name, replace(order, pod=name_of(original), target=target))
    fuse, burnt = Fuse(writes), False
    try:
        moves.drive(name, Drive(fuse=fuse))
    except Killed:
        burnt = True
    done = moves.drive(name, Drive(settings))
    moves.late(name)
    try:
        audit(before, wait_until_settled(space, pods), done)
    except AssertionError as error:
        raise AssertionError(f"killed right after {fuse.written[-1]} ({writes}): {error}") from error
    space.api.delete(f"{MIGRATIONS.format(space.name)}/{name}")
    return burnt, done.status.phase

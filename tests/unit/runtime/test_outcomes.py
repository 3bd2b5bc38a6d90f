"""Outcomes: a move that is due is assessed once, stored and reported; a new leader goes on with the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

from structlog.testing import capture_logs

from rescheduler.kube.errors import ClusterError
from rescheduler.kube.migrations import StaleError
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import MigrationStatus, MoveOutcome, ObjectReference, OutcomeVerdict, PodMigration
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.runtime.migration_cache import MigrationCache, MigrationStore
from rescheduler.runtime.outcomes import OutcomeAssessor
from rescheduler.runtime.reconciler import PeriodicTask
from tests.support.builders import NOW, cluster, node, pod
from tests.support.informers import informers
from tests.support.live import live
from tests.support.pod_migrations import replace
from tests.unit.planning.outcome_world import CAME_BACK, NOT_PAID, PAID, POLICY, UNKNOWN, move

AFTER = 120.0
API = ObjectReference("Deployment", "api")


def stage_of(*pods: tuple[str, str]) -> ClusterSnapshot:
    """Node a is busy, b and c are not; pods by name and node."""
    rows = [pod(name, on=at, cpu=1, namespace="shop") for name, at in pods]
    return cluster(node("a", cpu=10), node("b", cpu=10), node("c", cpu=10), pod("load", on="a", cpu=8), rows)


@dataclass
class Stage:
    """A cache, a store that may refuse, and a cluster."""

    snapshot: ClusterSnapshot = field(default_factory=stage_of)
    migrations: MigrationCache = field(default_factory=MigrationCache)
    now: float = NOW + AFTER
    stale: str = ""
    lacking: str = ""
    refusal: dict[ObjectKey, Exception] = field(default_factory=dict)
    keeps: bool = True
    """Whether the API server keeps outcomes; not with an older definition of the kind, which drops the field."""
    snapshots: int = 0
    stored: list[tuple[str, OutcomeVerdict]] = field(default_factory=list)
    told: list[tuple[str, float | None, float | None, str]] = field(default_factory=list)

    def knows(self, *migrations: PodMigration) -> Stage:
        for each in migrations:
            self.migrations.put(each)
        return self

    async def update_status(self, migration: PodMigration, progress: MigrationStatus) -> PodMigration:
        key = (migration.namespace, migration.name)
        if key in self.refusal:
            raise self.refusal[key]
        assert progress.outcome is not None
        self.stored.append((migration.name, progress.outcome.verdict))
        assert replace(progress, outcome=None) == replace(migration.status, outcome=None), "nothing else is changed"
        if not self.keeps:
            return migration
        written = replace(migration, status=progress, version=str(int(migration.metadata.resource_version) + 1))
        self.migrations.put(written, ours=True)
        return written

    def copied(self) -> Callable[[], ClusterSnapshot]:
        self.snapshots += 1
        return lambda: self.snapshot

    def assessor(self) -> OutcomeAssessor:
        """As a new leader would make it."""
        return OutcomeAssessor(
            informers(migrations=self.migrations, capture=self.copied, stale=lambda: self.stale),
            live(policy=lambda: POLICY, outcomes=SimpleNamespace(assess_after=AFTER)),
            cast("MigrationStore", self),
            lambda: self.now,
            lambda *told: self.told.append(told),
            lambda: self.lacking,
        )

    def outcome(self, name: str) -> MoveOutcome | None:
        found = self.migrations.get(("shop", name))
        assert found is not None
        return found.status.outcome


def done(name: str = "m", way: str = "a>b", *, ended: float = NOW, **more: object) -> PodMigration:
    return move(name, way, ended=ended, predicted=10.0, **more)  # type: ignore[arg-type]  # what the test is about


async def test_a_move_is_looked_at_when_its_time_has_come_and_not_before() -> None:
    stage = Stage(stage_of(("new-m", "b")), now=NOW + AFTER - 1).knows(done())
    assert await stage.assessor().assess() == 0
    assert (stage.stored, stage.snapshots) == ([], 0)
    stage.now += 1
    assert await stage.assessor().assess() == 1
    assert stage.outcome("m") == MoveOutcome(PAID, 10.0, stage.now)
    assert stage.told == [("LoadBalancing", 10.0, 10.0, "Paid")]


async def test_it_is_looked_at_once_whoever_leads() -> None:
    stage = Stage(stage_of(("new-m", "a"))).knows(done())
    first, second = stage.assessor(), stage.assessor()
    assert [await first.assess(), await second.assess(), await first.assess()] == [1, 0, 0]
    assert stage.stored == [("m", CAME_BACK)]
    assert stage.snapshots == 1, "nothing is weighed where nothing is due"


async def test_several_are_weighed_together() -> None:
    stage = Stage(stage_of(("new-m", "b"), ("new-n", "a"))).knows(done("m"), done("n"), done("o"))
    assert await stage.assessor().assess() == 3
    assert sorted(stage.stored) == [("m", PAID), ("n", CAME_BACK), ("o", UNKNOWN)]
    assert stage.snapshots == 1


async def test_nothing_is_judged_on_what_may_be_out_of_date() -> None:
    stage = Stage(stage_of(("new-m", "b")), stale="pods: no connection").knows(done())
    assert await stage.assessor().assess() == 0
    stage.stale = ""
    assert await stage.assessor().assess() == 1


async def test_while_nobody_knows_what_is_used_only_what_came_back_is_judged() -> None:
    """Just then plans go by something else than before: whoever goes to and fro has to rest all the same."""
    stage = Stage(stage_of(("new-m", "b"), ("new-n", "b")), lacking="what is used is not known: no route to host")
    stage.knows(done("m", workload=API), done("n"), done("o", "b>a", ended=NOW + 30))
    assert await stage.assessor().assess() == 1
    assert stage.stored == [("n", CAME_BACK)]
    stage.lacking = ""
    assert await stage.assessor().assess() == 1
    assert stage.stored[-1] == ("m", PAID)


async def test_one_that_was_changed_meanwhile_is_looked_at_again_and_holds_up_no_other() -> None:
    stage = Stage(stage_of(("new-m", "b"), ("new-n", "b")), refusal={("shop", "m"): StaleError("shop/m: changed")})
    stage.knows(done("m"), done("n"))
    assert await stage.assessor().assess() == 1
    assert (stage.stored, len(stage.told)) == ([("n", PAID)], 1)
    stage.refusal.clear()
    assert await stage.assessor().assess() == 1
    assert stage.stored[-1] == ("m", PAID)


async def test_an_unanswered_request_is_the_dutys_to_tell_and_nothing_is_told_twice() -> None:
    stage = Stage(stage_of(("new-m", "b")), refusal={("shop", "m"): ClusterError("nobody is there")}).knows(done())
    task = PeriodicTask("assess moves", 10.0, stage.assessor().assess)
    assert not await task.run_once()
    assert stage.told == []
    stage.refusal.clear()
    assert await task.run_once()
    assert len(stage.told) == 1


async def test_one_that_was_deleted_meanwhile_stays_so() -> None:
    stage = Stage(stage_of(("new-m", "b")), refusal={("shop", "m"): StaleError("shop/m: not found")}).knows(done())
    stage.migrations.drop(("shop", "m"))
    assert await stage.assessor().assess() == 0
    assert stage.migrations.get(("shop", "m")) is None


async def test_a_move_that_paid_and_is_undone_later_has_come_back() -> None:
    there = done("there", verdict=PAID, realised=9.0)
    back = done("back", "b>a", ended=NOW + 700)
    stage = Stage(stage_of(("new-back", "a")), now=NOW + 701).knows(there, back)
    assert await stage.assessor().assess() == 1
    assert stage.outcome("there") == MoveOutcome(CAME_BACK, 9.0, stage.now)
    assert stage.outcome("back") is None, "it has its own time"
    assert stage.snapshots == 0
    assert stage.told == [("LoadBalancing", None, None, "CameBack")], "its gains were told before"
    assert await stage.assessor().assess() == 0


async def test_a_move_that_is_undone_before_its_time_has_come_back_when_it_comes() -> None:
    back = done("back", "b>a", ended=NOW + 50)
    stage = Stage(stage_of(("new-back", "a")), now=NOW + AFTER).knows(done("there"), back)
    assert await stage.assessor().assess() == 1
    assert stage.stored == [("there", CAME_BACK)]


async def test_where_outcomes_are_not_kept_it_is_tried_with_one_and_told_once_until_they_are() -> None:
    stage = Stage(stage_of(("new-m", "b"), ("new-n", "b")), keeps=False).knows(done("m"), done("n"))
    assessor = stage.assessor()
    with capture_logs() as logs:
        assert [await assessor.assess() for _ in range(3)] == [0, 0, 0]
    assert len(stage.stored) == 3, "one try a look, whatever is due"
    assert stage.told == []
    (warning,) = (each for each in logs if each["log_level"] == "warning")
    assert "rescheduler crds | kubectl apply" in warning["cure"]
    stage.keeps = True
    assert await assessor.assess() == 2


async def test_moves_that_failed_or_are_under_way_are_not_looked_at() -> None:
    stage = Stage(now=NOW + 9999)
    for phase in ("Failed", "InProgress", "Pending"):
        made = done(phase.lower())
        stage.knows(replace(made, status=replace(made.status, phase=type(made.status.phase)(phase))))
    assert await stage.assessor().assess() == 0


async def test_what_a_rest_depends_on_is_needed() -> None:
    stage = Stage().knows(done("m1", verdict=NOT_PAID), done("m2", ended=NOW - 5000.0, verdict=PAID))
    assert stage.assessor().needed(NOW + 10.0) == {("shop", "m1")}

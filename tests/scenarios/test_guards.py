"""Guards: for each a pod that it keeps in place, its neighbour that may go, and the configuration that switches it.

The pods are on a node under maintenance, so everything that may leave it does.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from rescheduler.model import labels
from rescheduler.model.migration import OutcomeVerdict
from rescheduler.model.move_history import FAILED, MoveHistory, PastMove
from rescheduler.model.objects import Owner, Pod, PodCondition
from rescheduler.model.plan import Plan
from rescheduler.model.policy import Filters
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.model.time import format_instant
from rescheduler.planning.api import Proposal, Proposals, Strategy
from rescheduler.planning.cycle import make_plan
from rescheduler.planning.settings import StrategySettings
from rescheduler.planning.view import View
from tests.support.builders import (
    KINDS,
    NOW,
    Row,
    claim,
    cluster,
    daemonset,
    deployment,
    job,
    node,
    pod,
    statefulset,
    volume,
)
from tests.support.planning import BALANCING, PolicyOptions, policy_of, without_clock
from tests.support.pod_migrations import replace

Rows = Row | list[Row]
STAGE = [node("a"), node("b")]
STATUS, ID = labels.MIGRATION_STATUS, labels.MIGRATION_ID
HOW = labels.MIGRATION_METHOD
SAFE = labels.SAFE_LOCAL_VOLUMES
EVICT = {labels.EVICT: ""}
LONELY: PolicyOptions = {"allow": ["single_replica"]}
ANY: PolicyOptions = {"filters": Filters(controllers=("*",))}
NAMED: PolicyOptions = {"filters": Filters(controllers=("Set.x.io",))}


class Leaving(Strategy[StrategySettings]):
    """Wants everything off node a."""

    order = 0

    def propose(self, view: View) -> Proposals:
        for position in view.pods_on(0):
            yield Proposal.one(position, "it is to leave", force=True)


def leaving(snapshot: ClusterSnapshot, options: PolicyOptions) -> Plan:
    return make_plan(snapshot, policy_of(options), [Leaving(StrategySettings())])


def on_stage(*rows: Rows, kinds: Iterable[str] = KINDS) -> ClusterSnapshot:
    return cluster(STAGE, *rows, kinds=kinds)


def unready(seconds: float) -> PodCondition:
    return PodCondition("Ready", "False", "ContainersNotReady", NOW - seconds)


def foreign(annotations: dict[str, str]) -> Pod:
    return pod("p", on="a", owner=Owner("Workflow.argoproj.io", "nightly"), annotations=annotations)


def moved(seconds_ago: float) -> dict[str, str]:
    return {labels.MIGRATION_TIME: format_instant(NOW - seconds_ago)}


def stored(*, local: bool = False) -> list[Row]:
    shared = claim("data", "v", modes=["ReadWriteMany"])
    return [pod("p", on="a", claims=["data"]), shared, volume("v", local=local)]


def after_bad_moves(count: int, ended: float, *rows: Rows) -> ClusterSnapshot:
    """A stage on which so many moves of pod p have not paid, the last one so many seconds ago."""
    past = [
        PastMove(f"m{n}", "p", "b", "a", BALANCING, NOW - ended - n, 12.0, 0.3, OutcomeVerdict.NOT_PAID)
        for n in range(count)
    ]
    memory = MoveHistory(tuple(past), tuple(past))
    return replace(on_stage(*(rows or (pod("p", on="a"),))), memories={("Pod", "default", "p"): memory})


def after_a_move(ended: float, strategy: str = BALANCING) -> ClusterSnapshot:
    """A stage on which a pod of web was moved so many seconds ago and is gone since, with the mark it bore."""
    past = PastMove("m", "gone", "b", "a", strategy, NOW - ended, 12.0, 12.0, OutcomeVerdict.PAID)
    memories = {("Deployment", "default", "web"): MoveHistory((past,))}
    return replace(on_stage(deployment("web", on=["a"])), memories=memories)


def after_a_failed_move(ended: float) -> ClusterSnapshot:
    """A stage on which a pod of web was evicted, and its move failed so many seconds ago."""
    past = PastMove("m", "gone", "b", "a", "Manual", NOW - ended, verdict=FAILED, counts=False)
    memories = {("Deployment", "default", "web"): MoveHistory((past,))}
    return replace(on_stage(deployment("web", on=["a"])), memories=memories)


def born(created: float | None) -> Pod:
    return msgspec.structs.replace(pod("p", on="a"), created=created)


def only_kept(snapshot: ClusterSnapshot, options: PolicyOptions) -> tuple[str, str] | None:
    """The guard and reason that keep the one pod of node a in place; None when it moves."""
    plan = leaving(snapshot, options)
    assert len(plan.moves) + len(plan.rejections) == 1
    return None if plan.moves else (plan.rejections[0].guard, plan.rejections[0].reason)


KEPT = [
    (
        "Unreadable",
        on_stage(pod("p", on="a", problem="f.json: Pod default/p: junk")),
        {},
        "f.json: Pod default/p: junk",
    ),
    ("NotRunning", on_stage(pod("p", nominated="a")), {}, "not on a node yet"),
    ("Deleting", on_stage(pod("p", on="a", deleting=True)), {}, "being deleted"),
    ("Migrating", on_stage(pod("p", on="a", labels={ID: "m-1", STATUS: "in-progress"})), {}, "m-1 is in-progress"),
    (
        "ExcludedNamespace",
        on_stage(pod("p", on="a", namespace="kube-system")),
        {},
        "kube-system is in excludedNamespaces",
    ),
    ("ExcludedNamespace", on_stage(pod("p", on="a")), {"excluded_namespaces": ["default"]}, "default is in"),
    (
        "ExcludedPodSelector",
        on_stage(pod("p", on="a", labels={"tier": "db"})),
        {"excluded_pods": "tier in (db,cache)"},
        "excludedPodSelector tier in (cache,db) selects it",
    ),
    ("ExcludedPodSelector", on_stage(pod("p", on="a")), {"excluded_pods": "!tier"}, "!tier selects it"),
    (
        "ReschedulingDisabled",
        on_stage(pod("p", on="a", labels={labels.RESCHEDULING: "disabled"})),
        {},
        "scheduler.alpha.kubernetes.io/rescheduling is disabled",
    ),
    ("DaemonSet", on_stage(daemonset("agent", on=["a"])), LONELY, "DaemonSet agent runs it"),
    ("StaticPod", on_stage(pod("p", on="a", annotations={labels.MIRROR: "hash"})), {}, "static pod"),
    ("StaticPod", on_stage(pod("p", on="a", annotations={labels.STATIC_SOURCE: "file"})), {}, "static pod"),
    ("StaticPod", on_stage(pod("p", on="a", owner=Owner("Node", "a"))), LONELY, "static pod"),
    (
        "SystemCritical",
        on_stage(pod("p", on="a", priority=2_000_000_000)),
        {},
        "priority 2000000000 is system-critical",
    ),
    ("MinPodAge", on_stage(pod("p", on="a", age=59)), {}, "younger than minPodAge (60s)"),
    ("MinPodAge", on_stage(pod("p", on="a", age=3600)), {"min_pod_age": 3601}, "minPodAge (3601s)"),
    ("MinPodAge", on_stage(born(NOW + 5)), {}, "younger than minPodAge"),
    ("CoolDown", on_stage(pod("p", on="a", annotations=moved(599))), {}, "less than coolDown (600s) ago"),
    ("CoolDown", on_stage(pod("p", on="a", annotations=moved(-30))), {}, "less than coolDown (600s) ago"),
    ("CoolDown", on_stage(pod("p", on="a", annotations=moved(3600))), {"cool_down": 7200}, "coolDown (7200s)"),
    ("CoolDown", on_stage(pod("p", on="a", annotations={labels.MIGRATION_TIME: "today"})), {}, "'today' is not a time"),
    (
        "CoolDown",
        after_a_move(599),
        {},
        "its workload was moved at 2027-01-15T07:50:01Z, less than coolDown (600s) ago",
    ),
    ("CoolDown", after_a_move(1, "Manual"), {}, "less than coolDown (600s) ago"),
    (
        "CoolDown",
        after_a_failed_move(599),
        {},
        "its workload lost a pod to a move that failed at 2027-01-15T07:50:01Z, less than coolDown (600s) ago",
    ),
    ("CoolDown", after_a_move(-30), {}, "less than coolDown (600s) ago"),
    ("Outcome", after_bad_moves(1, 1199), {}, "did not pay (12.0 points predicted, 0.3 came true): it rests until"),
    ("Outcome", after_bad_moves(2, 2399), {}, "its last 2 moves did not pay"),
    ("Outcome", after_bad_moves(3, 601), {"cool_down": 100}, "8 × coolDown"),
    ("LocalStorage", on_stage(pod("p", on="a", local_storage=["emptyDir tmp"])), {}, "local storage (emptyDir tmp)"),
    ("Volumes", on_stage(pod("p", on="a", inline_disks=["rbd disk"])), {}, "inline disk rbd disk"),
    ("Volumes", on_stage(stored(local=True)), {}, "volume v of claim data is on its node and cannot follow"),
    (
        "Volumes",
        on_stage(stored(), kinds=KINDS - {"PersistentVolume"}),
        {},
        "the input has no PersistentVolume objects",
    ),
    ("Volumes", on_stage(stored(), kinds=KINDS - {"PersistentVolumeClaim"}), {}, "no PersistentVolumeClaim objects"),
    ("LocalStorage", on_stage(pod("p", on="a", local_storage=["hostPath istio-data"])), {}, "(hostPath istio-data)"),
    (
        "LocalStorage",
        on_stage(pod("p", on="a", local_storage=["emptyDir tmp", "emptyDir cache"], annotations={SAFE: "tmp"})),
        {},
        "local storage (emptyDir cache)",
    ),
    ("RunsToCompletion", on_stage(pod("p", on="a", to_completion=True)), {}, "a copy would do its work twice"),
    ("UnknownScheduler", on_stage(pod("p", on="a", scheduler="volcano")), {}, "scheduler volcano places it"),
    (
        "UnknownController",
        on_stage(pod("p", on="a", owner=Owner("Workflow.argoproj.io", "nightly"))),
        LONELY,
        "what Workflow.argoproj.io nightly does without it is not known (filters.controllers lets it go)",
    ),
    ("UnknownController", on_stage(pod("p", on="a", owner=Owner("StatefulSet.apps.kruise.io", "s"))), LONELY, "s does"),
    ("UnknownController", on_stage(pod("p", on="a", owner=Owner("ReplicationController", "r"))), LONELY, "r does"),
    ("ResourceClaims", on_stage(pod("p", on="a", resource_claims=True)), {}, "resourceClaims"),
    ("Job", on_stage(job("sum", replicas=3, on=["a"])), {}, "Job sum would start its work again (allow.jobs lets it)"),
    ("MigrationMethod", on_stage(statefulset("db", on=["a", "b"])), {"method": "handoff"}, "chosen for it, and only a"),
    (
        "MigrationMethod",
        on_stage(deployment("web", on=["a", "b"], recreate=True, annotations={HOW: "handoff"})),
        {},
        "handoff is the method chosen for it, and its Deployment's strategy is Recreate",
    ),
    (
        "MigrationMethod",
        on_stage(deployment("web", on=["a", "b"], annotations={HOW: "evikt"})),
        {},
        "'evikt', not one of auto, handoff, evict",
    ),
    ("SingleReplica", on_stage(statefulset("db", on=["a"])), {}, "only replica, and only a ReplicaSet adopts"),
    ("SingleReplica", on_stage(deployment("web", on=["a"], recreate=True)), {}, "only replica, and its Deployment's"),
    ("SingleReplica", on_stage(deployment("web", on=["a"], ready=False)), {}, "only replica, and it is not Ready"),
    ("SingleReplica", on_stage(deployment("web", on=["a"])), {"method": "evict"}, "evict is the method chosen for it"),
    (
        "SingleReplica",
        on_stage(pod("p", on="a", owner=Owner("Widget.example.com", "w"))),
        ANY,
        "it is the only replica",
    ),
    (
        "SingleReplica",
        on_stage(deployment("web", on=["a"], no_surge=True)),
        {},
        "only replica, and its Deployment's max",
    ),
    (
        "SingleReplica",
        on_stage(statefulset("db", on=["a"], ready=False, conditions=[unready(599)])),
        {},
        "only replica",
    ),
]

FREE = [
    ("an ordinary pod", on_stage(pod("p", on="a")), {}),
    ("a migration that is over", on_stage(pod("p", on="a", labels={ID: "m-1", STATUS: "completed"})), {}),
    ("a namespace that was let in", on_stage(pod("p", on="a", namespace="kube-system")), {"excluded_namespaces": []}),
    ("a selector of others", on_stage(pod("p", on="a", labels={"tier": "web"})), {"excluded_pods": "tier=db"}),
    ("opting out by annotation", on_stage(pod("p", on="a", annotations={labels.RESCHEDULING: "disabled"})), {}),
    ("a foreign DaemonSet", on_stage(pod("p", on="a", owner=Owner("DaemonSet.apps.kruise.io", "d"))), ANY | LONELY),
    ("a foreign DaemonSet that is named", on_stage(pod("p", on="a", owner=Owner("Set.x.io", "d"))), NAMED | LONELY),
    ("a foreign controller, by annotation", on_stage(foreign(EVICT)), LONELY),
    ("a pod from the API", on_stage(pod("p", on="a", annotations={labels.STATIC_SOURCE: "api"})), {}),
    ("just below system-critical", on_stage(pod("p", on="a", priority=1_999_999_999)), {}),
    ("exactly minPodAge", on_stage(pod("p", on="a", age=60)), {}),
    ("minPodAge of nothing", on_stage(pod("p", on="a", age=0)), {"min_pod_age": 0}),
    ("age without a clock", without_clock(on_stage(pod("p", on="a", age=1))), {}),
    ("no date of birth", on_stage(born(None)), {}),
    ("exactly coolDown", on_stage(pod("p", on="a", annotations=moved(600))), {}),
    ("coolDown of nothing", on_stage(pod("p", on="a", annotations=moved(0))), {"cool_down": 0}),
    ("coolDown without a clock", without_clock(on_stage(pod("p", on="a", annotations=moved(1)))), {}),
    ("another pod's coolDown", on_stage(pod("p", on="a"), pod("q", on="b", annotations=moved(1))), {}),
    ("a move that is remembered, coolDown ago", after_a_move(600), {}),
    ("a move that is remembered, without a clock", without_clock(after_a_move(1)), {}),
    ("one bad move, twice coolDown ago", after_bad_moves(1, 1200), {}),
    ("bad moves and no coolDown", after_bad_moves(9, 1), {"cool_down": 0}),
    ("bad moves without a clock", without_clock(after_bad_moves(9, 1)), {}),
    ("another's bad moves", after_bad_moves(9, 1, pod("q", on="a")), {}),
    ("local storage", on_stage(pod("p", on="a", local_storage=["emptyDir tmp"])), {"allow": ["local_storage"]}),
    ("a volume that can follow", on_stage(stored()), {}),
    ("a Job", on_stage(job("sum", replicas=3, on=["a"])), {"allow": ["jobs"]}),
    ("a foreign Job", on_stage(pod("p", on="a", owner=Owner("Job.batch.volcano.sh", "j"))), ANY | LONELY),
    ("a pod of nobody that ends", on_stage(pod("p", on="a", to_completion=True)), {"allow": ["jobs"]}),
    ("a StatefulSet's pod that ends", on_stage(statefulset("db", on=["a", "b"], to_completion=True)), {}),
    ("the default scheduler by name", on_stage(pod("p", on="a", scheduler="default-scheduler")), {}),
    ("any scheduler", on_stage(pod("p", on="a", scheduler="volcano")), {"filters": Filters(schedulers=())}),
    ("sockets of a sidecar", on_stage(pod("p", on="a", local_storage=["emptyDir istio-data"])), {}),
    (
        "volumes that may be lost",
        on_stage(pod("p", on="a", local_storage=["emptyDir tmp", "hostPath c"], annotations={SAFE: "tmp, c"})),
        {},
    ),
    (
        "the only replica, long not Ready",
        on_stage(statefulset("db", on=["a"], ready=False, conditions=[unready(600)])),
        {},
    ),
    ("a handoff that can be", on_stage(deployment("web", on=["a"])), {"method": "handoff"}),
    ("a pod of nobody, handoff for all", on_stage(pod("p", on="a")), {"method": "handoff"}),
    (
        "an eviction by its own word",
        on_stage(statefulset("db", on=["a", "b"], annotations={HOW: "evict"})),
        {"method": "handoff"},
    ),
    ("one of two replicas", on_stage(statefulset("db", on=["a", "b"])), {}),
    (
        "one that is not Ready, of two that are wanted",
        on_stage(statefulset("db", replicas=2, on=["a"], ready=False)),
        {},
    ),
    ("the only replica", on_stage(statefulset("db", on=["a"])), LONELY),
    ("the only replica, handed off", on_stage(deployment("web", on=["a"])), {}),
    ("the only pod of nobody", on_stage(pod("p", on="a")), {"method": "evict"}),
]


@pytest.mark.parametrize(
    ("guard", "snapshot", "options", "words"), [pytest.param(*row, id=f"{row[0]}: {row[3][:40]}") for row in KEPT]
)
def test_a_guard_keeps_a_pod_in_place_and_says_why(
    guard: str, snapshot: ClusterSnapshot, options: PolicyOptions, words: str
) -> None:
    kept = only_kept(snapshot, options)
    assert kept is not None
    assert kept[0] == guard
    assert words in kept[1]


@pytest.mark.parametrize(("snapshot", "options"), [pytest.param(*row[1:], id=row[0]) for row in FREE])
def test_a_guard_lets_its_neighbour_go(snapshot: ClusterSnapshot, options: PolicyOptions) -> None:
    assert only_kept(snapshot, options) is None


def test_finished_pods_are_nobodys_business() -> None:
    plan = leaving(on_stage(pod("done", on="a", phase="Succeeded"), pod("lost", on="a", phase="Failed")), {})
    assert (plan.moves, plan.rejections) == ((), ())


def test_the_first_guard_that_objects_is_the_one_reported() -> None:
    crowd = pod("p", on="a", namespace="kube-system", age=1, priority=2_000_000_000, local_storage=["x"])
    kept = only_kept(on_stage(crowd), {})
    assert kept is not None
    assert kept[0] == "ExcludedNamespace"


def test_a_workload_rests_when_one_of_its_pods_was_moved() -> None:
    calm = deployment("web", on=["a", "b"], pod_annotations=None)
    sibling = msgspec.structs.replace(_pods(calm)[1], annotations=moved(60))
    kept = only_kept(on_stage([row for row in calm if row is not _pods(calm)[1]], sibling), {})
    assert kept is not None
    assert kept[0] == "CoolDown"


def test_the_latest_move_of_a_workload_counts_whatever_zone_its_time_is_written_in() -> None:
    """06:59 an hour west of Greenwich is 07:59 there, later than 07:30."""
    rows = deployment("web", on=["a", "b", "b"])
    first, *others = _pods(rows)
    times = ["2027-01-15T06:59:00-01:00", "2027-01-15T07:30:00Z"]
    siblings = [
        msgspec.structs.replace(other, annotations={labels.MIGRATION_TIME: time})
        for other, time in zip(others, times, strict=True)
    ]
    kept = only_kept(on_stage([row for row in rows if not isinstance(row, Pod)], first, *siblings), {})
    assert kept is not None
    assert kept[0] == "CoolDown"


def _pods(rows: list[Row]) -> list[Pod]:
    return [row for row in rows if isinstance(row, Pod)]

"""What holds for every decision, whatever the pods, the record and the nodes are like."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.migration.observation import ready_seconds
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.recovery.decide import decide
from rescheduler.recovery.decision import RecoveryOutcome, WorkloadState
from rescheduler.recovery.record import WHOLE, NodeFailure, RecordEntry, format_record, parse_record
from rescheduler.recovery.settings import RecoverySettings, total_retries
from tests.support.examples import examples
from tests.unit.recovery.cases import (
    NODES,
    NOW,
    case,
    container,
    crashing,
    ended,
    failed,
    node,
    pod,
    ready,
    recorded,
    replica_set,
    scheduled,
    stamp,
    with_notes,
    workload,
)

KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod")
REASONS = ("CrashLoopBackOff", "Error", "Evicted", "ImagePullBackOff", "NotStarted", "NodeNotReady")


@st.composite
def pods(draw: st.DrawFn, name: str, owner: Json | None) -> Json:
    """A pod in any state."""
    where = draw(st.sampled_from(NODES))
    ago = draw(st.sampled_from([1.0, 30.0, 650.0, 5_000.0]))
    match draw(st.sampled_from(["well", "between", "crash", "failed", "starts", "image", "lost", "done", "completed"])):
        case "well":
            body = pod(name, where, owner, conditions=[ready("True", ago)])
        case "between":
            status = [container(restarts=5, last=ended(), running={})]
            body = pod(name, where, owner, conditions=[ready("True", 2)], containerStatuses=status)
        case "crash":
            body = crashing(name, where, owner, restarts=draw(st.integers(1, 6)), ago=ago)
        case "failed":
            body = failed(name, where, owner, draw(st.sampled_from(["", "Evicted", "OutOfcpu", "Shutdown"])), ago)
        case "starts":
            body = pod(name, where, owner, phase="Pending", conditions=[scheduled(ago)], containerStatuses=[])
        case "image":
            waits = [container(waiting={"reason": draw(st.sampled_from(["ImagePullBackOff", "InvalidImageName"]))})]
            body = pod(name, where, owner, phase="Pending", conditions=[scheduled(ago)], containerStatuses=waits)
        case "lost":
            body = pod(name, where, owner, conditions=[ready("False", ago)])
        case "done":
            over = [container(terminated=ended(code=0))]
            body = pod(name, where, owner, phase="Succeeded", conditions=[ready("False")], containerStatuses=over)
        case _:
            over = [container(terminated=ended(code=0)), container("proxy", running={})]
            body = pod(name, where, owner, conditions=[ready("False")], containerStatuses=over)
            body["spec"]["restartPolicy"] = "Never"
    if draw(st.integers(0, 9)) == 0:
        body["metadata"]["deletionTimestamp"] = stamp(1)
    if draw(st.integers(0, 9)) == 0:
        body["metadata"]["labels"] = body["metadata"]["labels"] | {labels.MIGRATION_STATUS: "in-progress"}
    return body


@st.composite
def cases(draw: st.DrawFn) -> WorkloadState:
    """A workload of any kind, with pods in any state and any record."""
    kind = draw(st.sampled_from(KINDS))
    retries = draw(st.sampled_from(["0", "1", "2", "5", "x"]))
    number = draw(st.integers(1, 5))
    controllers: tuple[Json, ...] = ()
    if kind == "Pod":
        holder = with_notes(draw(pods("solo", None)), {labels.SCHEDULING_RETRIES: retries})
        holder["metadata"].pop("deletionTimestamp", None)
        found: tuple[Json, ...] = (holder,)
    else:
        holder = workload(kind, retries=retries, parallelism=number, replicas=number)
        if kind == "Deployment":
            controllers = (replica_set(holder), replica_set(holder, "bbb", 2))
        else:
            controllers = (workload("Job", "web-1", retries=None),) if kind == "CronJob" else (holder,)
        found = tuple(draw(pods(f"web-{each}", draw(st.sampled_from(controllers)))) for each in range(number))
    names = {"StatefulSet": ["web-0", "web-1", "web-9"], "DaemonSet": list(NODES)}.get(kind, [WHOLE])
    known = [*sorted(uids(found)), "uid-gone"]
    entry = st.builds(
        RecordEntry,
        count=st.integers(0, 12),
        nodes=st.dictionaries(
            st.sampled_from(NODES),
            st.builds(NodeFailure, st.sampled_from([NOW - 60, NOW - 5_000]), st.sampled_from(REASONS)),
        ),
        pending=st.lists(st.sampled_from(known), max_size=2, unique=True).map(tuple),
        told=st.sampled_from(["", "RetriesExhausted", "WorkloadAtFault", "RetriesExhausted,WorkloadAtFault"]),
        revision=st.sampled_from(["", "aaa", "bbb"]),
    )
    record = draw(st.dictionaries(st.sampled_from(names), entry, max_size=3))
    unready = set(draw(st.lists(st.sampled_from(NODES), max_size=3)))
    nodes = {each: node(each, "Unknown" if each in unready else "True", ago=300) for each in NODES[:-1]}
    seen = case(
        holder,
        *found,
        controllers=controllers,
        nodes=nodes,
        unready_share=len(unready) / len(NODES),
        feasible_nodes=frozenset(draw(st.lists(st.sampled_from(NODES)))),
        objections=dict.fromkeys(draw(st.lists(st.sampled_from(known), max_size=1)), "opted out"),
        settings=RecoverySettings(fault_nodes=draw(st.sampled_from([2, 4, 100]))),
    )
    return recorded(seen, format_record(record))


def before(seen: WorkloadState) -> dict[str, RecordEntry]:
    return parse_record(seen.workload["metadata"]["annotations"].get(labels.FAILURES, ""))


def after(seen: WorkloadState) -> dict[str, RecordEntry]:
    return before(recorded(seen, decide(seen).record))


@given(cases())
@settings(max_examples=examples(few=10, many=60))
def test_no_count_ever_exceeds_its_budget_or_goes_up_by_more_than_pods_are_pending(seen: WorkloadState) -> None:
    text = seen.workload["metadata"]["annotations"][labels.SCHEDULING_RETRIES]
    budget = total_retries(int(text), seen.workload) if text != "x" else 0
    for name, entry in after(seen).items():
        had = before(seen).get(name, RecordEntry())
        assert entry.count <= max(budget, had.count)
        assert entry.count <= had.count + len(set(entry.pending) - set(had.pending))


@given(cases())
@settings(max_examples=examples(few=10, many=60))
def test_deciding_again_after_the_record_is_written_counts_and_tells_nothing_twice(seen: WorkloadState) -> None:
    first = decide(seen)
    written_once = recorded(seen, first.record)
    second = decide(written_once)
    assert before(recorded(written_once, second.record)) == before(written_once)
    assert second.outcomes == ()
    assert uids(second.deletions) == uids(first.deletions)


def uids(bodies: Iterable[Json]) -> set[str]:
    return {each["metadata"]["uid"] for each in bodies}


@given(cases())
@settings(max_examples=examples(few=10, many=60))
def test_nothing_that_is_ready_completed_leaving_or_guarded_is_deleted(seen: WorkloadState) -> None:
    for each in decide(seen).deletions:
        assert ready_seconds(each, seen.now) is None
        assert each["status"]["phase"] != "Succeeded"
        assert "deletionTimestamp" not in each["metadata"]
        assert each["metadata"]["uid"] not in seen.objections
        assert each["metadata"]["labels"].get(labels.MIGRATION_STATUS) != "in-progress"


@given(cases())
@settings(max_examples=examples(few=10, many=60))
def test_a_pod_that_nobody_manages_is_never_deleted_before_its_replacement_is_there(seen: WorkloadState) -> None:
    if seen.workload["kind"] == "Pod":
        assert decide(seen).deletions == ()


@given(cases())
@settings(max_examples=examples(few=10, many=60))
def test_whatever_is_deleted_is_recorded_as_pending(seen: WorkloadState) -> None:
    pending = {uid for entry in after(seen).values() for uid in entry.pending}
    assert {each["metadata"]["uid"] for each in decide(seen).deletions} <= pending


@given(cases())
@settings(max_examples=examples(few=10, many=60))
def test_entries_without_failing_or_recovered_pods_stay_untouched(seen: WorkloadState) -> None:
    names = {each["metadata"]["name"] for each in seen.pods} | {each["spec"].get("nodeName") for each in seen.pods}
    for name, entry in before(seen).items():
        if name != WHOLE and name not in names and all(NOW - each.at < 3600 for each in entry.nodes.values()):
            now = after(seen).get(name, RecordEntry())
            assert (now.count, now.nodes) == (entry.count, entry.nodes)


@given(cases())
@settings(max_examples=examples(few=10, many=50))
def test_deciding_changes_nothing_it_is_given_and_always_says_the_same(seen: WorkloadState) -> None:
    given_as = repr(seen)
    assert decide(seen) == decide(seen)
    assert repr(seen) == given_as
    assert set(decide(seen).outcomes) <= set(RecoveryOutcome)

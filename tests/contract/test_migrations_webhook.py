"""Moves by eviction where our webhook is asked about new pods: led to the target, with the workload left as it is.

The API server calls the product's own webhook over TLS; what it knows comes from its own watches, as in a replica that
does not lead. With `nominate`, pods land exactly where they are to, though others want the same room.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from rescheduler.migration import commands
from rescheduler.migration.observation import SteeringMethod
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationStatus, Phase, PodMigration
from rescheduler.model.plan import Method
from tests.support.both_clusters import Space, condition, name_of, nodes_fixture
from tests.support.examples import seeds
from tests.support.manifests import budget, deployment, job, on, pod, replica_set, simulated, stateful_set
from tests.support.migrations import (
    MIGRATIONS,
    QUICK,
    Drive,
    Fuse,
    Inventory,
    Killed,
    Moves,
    audit,
    wait_until_settled,
    wait_until_undisturbed,
)
from tests.support.pod_migrations import migration_spec, pod_migration, replace
from tests.support.replicas import Replica, Wanted, replica
from tests.support.shell import clean_up
from tests.testbed.pki import Authority
from tests.testbed.processes import until

pytestmark = pytest.mark.usefixtures("kind")
BY_WEBHOOK = Drive(steered=SteeringMethod.WEBHOOK)
NOMINATING = Drive(steered=SteeringMethod.NOMINATE)
TIME_IS_UP = replace(QUICK, timeout=0.0, attempts=1)
ENDS = {"rolls back": TIME_IS_UP, "goes on": QUICK}
SAMPLED = 7  # on the real cluster: one place to die of so many
WORKLOAD_KINDS = ("Deployment", "ReplicaSet", "StatefulSet")
END = "contract.test/end"
WORKLOADS = {
    "Deployment": deployment("storefront", 2, strategy={"type": "Recreate"}),
    "ReplicaSet": replica_set("storefront", 2),
    "StatefulSet": stateful_set("storefront", 2),
}


trio = nodes_fixture(3, prefix="webhook", scope="module")
"""Three nodes: with two, a preference against the source would do."""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki")


@pytest.fixture
def every(request: pytest.FixtureRequest) -> int:
    return SAMPLED if "real" in request.node.name else 1


def versions(space: Space) -> dict[str, str]:
    """Where a watch of each kind of workload begins."""
    return {kind: space.version(kind) for kind in WORKLOAD_KINDS}


def untouched(space: Space, since: dict[str, str]) -> None:
    """What workloads shall be was never changed, not even for a moment; a Deployment's generation counts notes, too."""
    for kind, version in since.items():
        for each in space.list(kind):
            space.patch(kind, name_of(each), {"metadata": {"labels": {END: "yes"}}})
            last = f"metadata.name={name_of(each)}"
            events = space.events(
                kind, version, lambda event: END in event["object"]["metadata"]["labels"], fieldSelector=last
            )
            assert {str(event["object"]["spec"]) for event in events} == {str(each["spec"])}, f"{kind} was changed"


def ordered(moves: Moves, original: Json, target: str, name: str = "m") -> None:
    moves.order(name, migration_spec(name_of(original), target=target, method=Method.EVICT))


def other_node(nodes: list[str], original: Json) -> str:
    return next(node for node in nodes if node != original["spec"]["nodeName"])


def replaced_by(space: Space, migration: PodMigration) -> Json:
    assert migration.status.replacement is not None, migration.status
    return space.get("Pod", migration.status.replacement.name)


def evicting(original: Json) -> str:
    """The eviction, as a fuse knows it."""
    return str(commands.evict(original, 0, "have its controller recreate it"))


def evicts(moves: Moves, webhook: Replica, drive: Drive, name: str = "m") -> None:
    """Driven until it is about to evict, and the replica has heard of that: it need not, before the new pod is made."""
    with pytest.raises(Killed):
        moves.drive(name, replace(drive, fuse=Fuse(after="storing step Evict")))
    until("it is known", lambda: webhook.knows(name, "Evict"))


def led(moves: Moves, webhook: Replica, drive: Drive, name: str = "m") -> PodMigration:
    """Driven to its end by way of a replica that knows."""
    evicts(moves, webhook, drive, name)
    return moves.drive(name, drive)


def clean(moves: Moves, before: Inventory, pods: int, done: PodMigration) -> None:
    """Nothing lost and nothing left, also of what is told late."""
    moves.late(done.name)
    after = wait_until_settled(moves.space, pods)
    audit(before, after, done)
    assert not [key for key, body in after.items() if labels.PLACEHOLDER in body["labels"]]
    assert not [key for key, body in after.items() if labels.GATED in body["annotations"]]


@pytest.mark.parametrize("drive", [BY_WEBHOOK, NOMINATING], ids=["webhook", "nominate"])
@pytest.mark.parametrize("workload", list(WORKLOADS))
def test_a_new_pod_is_led_to_its_target_and_its_workload_is_not_touched(
    space: Space, moves: Moves, authority: Authority, trio: list[str], workload: str, drive: Drive
) -> None:
    space.create(WORKLOADS[workload])
    before = wait_until_settled(space, 2)
    since = versions(space)
    original = space.pods("storefront")[0]
    target = other_node(trio, original)
    ordered(moves, original, target)
    with replica(space, authority, Wanted(gate=drive is NOMINATING)) as webhook:
        done = led(moves, webhook, drive)
    assert (done.status.phase, done.status.message) == (Phase.COMPLETED, "")
    assert replaced_by(space, done)["spec"]["nodeName"] == target
    clean(moves, before, 2, done)
    untouched(space, since)


def test_a_pod_of_a_job_is_led_to_its_target(space: Space, moves: Moves, authority: Authority, trio: list[str]) -> None:
    body = simulated(job("sum"), completes_in="600")
    body["spec"]["podReplacementPolicy"] = "TerminatingOrFailed"
    space.create(body)
    (original,) = until("its pod runs", lambda: [each for each in space.list("Pod") if _is_ready(each)])
    target = other_node(trio, original)
    ordered(moves, original, target)
    with replica(space, authority, Wanted()) as webhook:
        done = led(moves, webhook, BY_WEBHOOK)
    assert (done.status.phase, done.status.message) == (Phase.COMPLETED, "")
    assert replaced_by(space, done)["spec"]["nodeName"] == target


def test_without_a_webhook_the_pod_lands_somewhere_and_that_is_told(
    space: Space, moves: Moves, authority: Authority, trio: list[str]
) -> None:
    """It died after we were told that it is asked."""
    space.create(WORKLOADS["StatefulSet"])
    before = wait_until_settled(space, 2)
    original = space.pods("storefront")[0]
    target = other_node(trio, original)
    ordered(moves, original, target)
    with space.tainted(target):
        space.shunned(target)
        done = moves.drive("m", NOMINATING)
    landed = replaced_by(space, done)["spec"]["nodeName"]
    assert (done.status.phase, done.status.message) == (
        Phase.COMPLETED,
        f"landed on {landed}, not on {target}",
    )
    clean(moves, before, 2, done)


def test_a_nominated_pod_gets_the_last_room_though_rivals_of_its_size_come(
    space: Space, moves: Moves, authority: Authority, trio: list[str]
) -> None:
    """The rivals are there before the new pod is, and can go nowhere else: only a reservation keeps them out."""
    space.create(deployment("storefront", 1, cpu="1", strategy={"type": "Recreate"}))
    (original,) = until("it runs", lambda: [each for each in space.pods("storefront") if _is_ready(each)])
    target = other_node(trio, original)
    space.runs(pod("filler", cpu="2500m", nodeSelector=on(target)))
    before = wait_until_settled(space, 2)
    ordered(moves, original, target)
    with replica(space, authority, Wanted(gate=True)) as webhook:
        evicts(moves, webhook, NOMINATING)
        for number in range(3):
            space.create(pod(f"rival-{number}", cpu="1", nodeSelector=on(target)))
            assert "Insufficient cpu" in space.refused(f"rival-{number}")
        done = moves.drive("m", NOMINATING)
    assert (done.status.phase, done.status.message) == (Phase.COMPLETED, "")
    assert replaced_by(space, done)["spec"]["nodeName"] == target
    for number in range(3):
        assert not space.get("Pod", f"rival-{number}")["spec"].get("nodeName")
        space.delete("Pod", f"rival-{number}", gracePeriodSeconds=0)
    clean(moves, before, 2, done)


@pytest.mark.real_only  # it needs a ResourceQuota
def test_where_no_room_can_be_held_the_move_goes_on_and_says_so(
    space: Space, moves: Moves, authority: Authority, trio: list[str]
) -> None:
    space.create(WORKLOADS["StatefulSet"])
    before = wait_until_settled(space, 2)
    quota = {"metadata": {"name": "full"}, "spec": {"hard": {"pods": "2"}}}
    original = space.pods("storefront")[0]
    target = other_node(trio, original)
    ordered(moves, original, target)
    with replica(space, authority, Wanted(gate=True)) as webhook:
        space.create({"apiVersion": "v1", "kind": "ResourceQuota", **quota})
        space.reaches("ResourceQuota", "full", "counts", lambda each: each.get("status", {}).get("used"))
        done = led(moves, webhook, NOMINATING)
    assert done.status.message.startswith(f"no room is held on {target}: ")
    assert "exceeded quota" in done.status.message
    assert (done.status.phase, replaced_by(space, done)["spec"]["nodeName"]) == (Phase.COMPLETED, target)
    space.delete("ResourceQuota", "full")
    clean(moves, before, 2, done)


def test_a_leader_that_dies_with_a_pod_behind_the_gate_blocks_nobody(
    space: Space, moves: Moves, authority: Authority, trio: list[str]
) -> None:
    """Another replica lets it through after some seconds, and the next leader finds that in order."""
    space.create(WORKLOADS["Deployment"])
    before = wait_until_settled(space, 2)
    original = space.pods("storefront")[0]
    ordered(moves, original, other_node(trio, original))
    since = space.version("Pod")
    with replica(space, authority, Wanted(gate=True, patience=2.0)) as webhook:
        evicts(moves, webhook, NOMINATING)
        with pytest.raises(Killed):
            moves.drive("m", replace(NOMINATING, fuse=Fuse(after=evicting(original))))
        new = first_marked(space, original, since)
        assert labels.NOMINATE_GATE in [gate["name"] for gate in new["spec"]["schedulingGates"]]
        assert new["metadata"]["annotations"][labels.GATED] == "m"
        free = space.ready(name_of(new))
        assert not free["spec"].get("schedulingGates")
        assert labels.GATED not in free["metadata"]["annotations"]
        done = moves.drive("m", NOMINATING)
    assert done.status.phase is Phase.COMPLETED
    assert name_of(replaced_by(space, done)) == name_of(new)
    clean(moves, before, 2, done)


def test_a_move_that_is_cancelled_behind_the_gate_lets_the_pod_through(
    space: Space, moves: Moves, authority: Authority, trio: list[str]
) -> None:
    space.create(WORKLOADS["Deployment"])
    before = wait_until_settled(space, 2)
    original = space.pods("storefront")[0]
    ordered(moves, original, other_node(trio, original))
    since = space.version("Pod")
    with replica(space, authority, Wanted(gate=True)) as webhook:
        evicts(moves, webhook, NOMINATING)
        with pytest.raises(Killed):
            moves.drive("m", replace(NOMINATING, fuse=Fuse(after=evicting(original))))
        new = first_marked(space, original, since)
        assert not space.get("Pod", name_of(new))["spec"].get("nodeName")
        moves.space.api.patch(f"{MIGRATIONS.format(space.name)}/m/status", {"status": {"step": "RollBack"}})
        done = moves.drive("m", NOMINATING)
    assert done.status.phase is Phase.FAILED
    space.ready(name_of(new))
    clean(moves, before, 2, done)


def test_a_scale_up_at_the_same_moment_is_told_from_the_replacement(
    space: Space, moves: Moves, authority: Authority, trio: list[str]
) -> None:
    """Its pods are marked and held back, too, until it is known which one takes the original's place."""
    space.create(WORKLOADS["ReplicaSet"])
    wait_until_settled(space, 2)
    original = space.pods("storefront")[0]
    target = other_node(trio, original)
    ordered(moves, original, target)
    with replica(space, authority, Wanted(gate=True)) as webhook:
        evicts(moves, webhook, NOMINATING)
        space.patch("ReplicaSet", "storefront", {"spec": {"replicas": 4}})
        until("more pods are there", lambda: len(space.pods("storefront")) == 4)
        done = moves.drive("m", NOMINATING)
    assert (done.status.phase, replaced_by(space, done)["spec"]["nodeName"]) == (Phase.COMPLETED, target)
    moves.late("m")
    after = wait_until_settled(space, 4)
    carrying = [key for key, body in after.items() if labels.MIGRATION_ID in body["labels"]]
    assert carrying == [("Pod", name_of(replaced_by(space, done)))]
    assert not [key for key, body in after.items() if labels.GATED in body["annotations"]]


def test_a_placeholder_is_let_into_a_restricted_namespace(
    space: Space, moves: Moves, authority: Authority, trio: list[str]
) -> None:
    """The pod itself would not be, so the move is taken back."""
    space.create(WORKLOADS["Deployment"])
    before = wait_until_settled(space, 2)
    original = space.pods("storefront")[0]
    target = other_node(trio, original)
    ordered(moves, original, target)
    label = {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    space.api.patch(f"/api/v1/namespaces/{space.name}", {"metadata": label})
    held = Fuse(after=f"patch Pod {space.name}/m-room: reserve room on {target}")
    with pytest.raises(Killed):
        moves.drive("m", replace(NOMINATING, fuse=held))
    room = space.get("Pod", "m-room")
    assert (room["status"]["nominatedNodeName"], room["spec"].get("nodeName")) == (target, None)
    done = moves.drive("m", replace(NOMINATING, settings=TIME_IS_UP))
    assert done.status.phase is Phase.FAILED
    clean(moves, before, 2, done)


def test_two_migrations_of_one_controller_take_turns(
    space: Space, moves: Moves, authority: Authority, trio: list[str]
) -> None:
    """A budget of its own lets both go; a temporary one would have them take turns already."""
    space.create(WORKLOADS["ReplicaSet"])
    space.create(budget("storefront", "storefront", maxUnavailable=2))
    wait_until_settled(space, 2)
    space.reaches(
        "PodDisruptionBudget", "storefront", "counts", lambda pdb: pdb.get("status", {}).get("currentHealthy") == 2
    )
    first, second = space.pods("storefront")
    targets = [other_node(trio, first), other_node(trio, second)]
    ordered(moves, first, targets[0], "first")
    ordered(moves, second, targets[1], "second")
    with replica(space, authority, Wanted(gate=True)) as webhook:
        evicts(moves, webhook, NOMINATING, "first")
        with pytest.raises(Killed):
            moves.drive("first", replace(NOMINATING, fuse=Fuse(after=evicting(first))))
        waits = replace(NOMINATING, rivals=(moves.read("first"),), until=lambda each: each.status.step == "TakeTurn")
        assert moves.drive("second", waits).status.message == (
            "migration first is evicting a pod of the same controller"
        )
        done = [moves.drive("first", NOMINATING), led(moves, webhook, NOMINATING, "second")]
    assert [each.status.phase for each in done] == [Phase.COMPLETED, Phase.COMPLETED]
    assert [replaced_by(space, each)["spec"]["nodeName"] for each in done] == targets


@pytest.mark.parametrize("place", ["room is held", "evicted", "nominated"])
def test_cleanup_and_the_garbage_collector_find_placeholders_and_gated_pods(
    space: Space, moves: Moves, authority: Authority, trio: list[str], place: str
) -> None:
    """The migration is gone, and what it owned is its own no more: all there is are marks."""
    space.create(WORKLOADS["StatefulSet"])
    before = wait_until_settled(space, 2)
    original = space.pods("storefront")[0]
    target = other_node(trio, original)
    ordered(moves, original, target)
    places = {
        "room is held": f"patch Pod {space.name}/m-room: reserve room on {target}",
        "evicted": evicting(original),
        "nominated": "storing step ReleaseRoom",
    }
    wait_until_undisturbed(space.cluster)
    with replica(space, authority, Wanted(gate=True)) as webhook:
        if place != "room is held":
            evicts(moves, webhook, NOMINATING)
        with pytest.raises(Killed):
            moves.drive("m", replace(NOMINATING, fuse=Fuse(after=places[place])))
        space.patch("Pod", "m-room", {"metadata": {"ownerReferences": []}})
        space.api.delete(f"{MIGRATIONS.format(space.name)}/m")
        ran = clean_up(space.cluster, "--yes")
    assert ran.code == 0, ran.said
    assert f"delete Pod {space.name}/m-room: the room is not held any more" in ran.out
    lost = pod_migration(space.name, "m", migration_spec(name_of(original)), MigrationStatus(phase=Phase.FAILED))
    audit(before, wait_until_settled(space, 2), lost)


@pytest.mark.parametrize("start", list(seeds(few=1, many=2)))
@pytest.mark.parametrize("workload", ["Deployment", "StatefulSet"])
def test_whoever_comes_after_a_kill_leaves_nothing_behind(
    moves: Moves, authority: Authority, trio: list[str], workload: str, start: int, every: int
) -> None:
    """The next process goes on, or finds the time up and rolls back: in turn by each place to die."""
    space, ends = moves.space, itertools.islice(itertools.cycle(ENDS), start, None)
    space.create(WORKLOADS[workload])
    wait_until_settled(space, 2)
    since = versions(space)
    writes, burnt = 1, True
    phases: dict[str, set[Phase]] = {end: set() for end in ENDS}
    with replica(space, authority, Wanted(gate=True, patience=5.0)):
        while burnt:
            before, name, fuse, end = wait_until_settled(space, 2), f"m{writes}", Fuse(writes), next(ends)
            original = space.pods("storefront")[0]
            ordered(moves, original, other_node(trio, original), name)
            try:
                moves.drive(name, replace(NOMINATING, fuse=fuse))
                burnt = False
            except Killed:
                pass
            done = moves.drive(name, replace(NOMINATING, settings=ENDS[end]))
            phases[end].add(done.status.phase)
            try:
                clean(moves, before, 2, done)
            except AssertionError as error:
                raise AssertionError(f"killed right after {fuse.written[-1]} ({writes}): {error}") from error
            space.api.delete(f"{MIGRATIONS.format(space.name)}/{name}")
            writes += every
    assert writes > 12, "so few writes are no move"
    assert phases["goes on"] == {Phase.COMPLETED}
    assert Phase.FAILED in phases["rolls back"] or start == 1, "after the first write all can be taken back"
    untouched(space, since)


def _is_ready(found: Json) -> bool:
    return condition(found, "Ready").get("status") == "True"


def first_marked(space: Space, original: Json, since: str) -> Json:
    """The pod that the webhook has marked, as it was made: it may be let through soon after."""

    def is_new(event: Json) -> bool:
        metadata = event["object"]["metadata"]
        return metadata["uid"] != original["metadata"]["uid"] and labels.PLACEHOLDER not in metadata["labels"]

    found: Json = space.events("Pod", since, is_new, labelSelector=f"{labels.MIGRATION_ID}=m")[-1]["object"]
    return found

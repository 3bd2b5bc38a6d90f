"""`rescheduler move` on a running cluster: what it orders, what it tells meanwhile, and how it ends."""

from __future__ import annotations

import re
import time

import pytest

from rescheduler.cli import messages
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.time import format_instant
from tests.support.both_clusters import Space, name_of
from tests.support.manifests import deployment, lease, pod, simulated
from tests.support.migrations import MIGRATIONS
from tests.support.shell import Shell, driven, meanwhile
from tests.testbed.processes import until


@pytest.fixture
def web(space: Space, nodes: list[str]) -> Json:
    """A pod of a Deployment that is rolled out."""
    space.create(deployment("web", 2))
    space.rolled_out("web")
    return space.pods("web")[0]


def elsewhere(nodes: list[str], found: Json) -> str:
    return next(node for node in nodes if node != found["spec"]["nodeName"])


def ordered(space: Space) -> list[Json]:
    found: list[Json] = space.api.get(MIGRATIONS.format(space.name))["items"]
    return found


def test_a_pod_is_moved_and_followed_to_its_node(shell: Shell, space: Space, web: Json, nodes: list[str]) -> None:
    target = elsewhere(nodes, web)
    with driven(space):
        ran = shell.ok("move", name_of(web), "-n", space.name, "--to", target, "--reason", "noisy neighbour")
    created, moved = ran.out.splitlines()
    (migration,) = ordered(space)
    assert created == f"podmigration.rescheduler.io/{name_of(migration)} created"
    assert moved.startswith(f"pod {space.name}/{name_of(web)} moved from {web['spec']['nodeName']} to {target} as ")
    assert f"{space.name}/{name_of(web)}: Completed\n" in ran.said
    assert migration["spec"]["reason"] == "noisy neighbour"
    assert migration["spec"]["strategy"] == "Manual"
    assert migration["spec"]["pod"] == {"name": name_of(web), "uid": web["metadata"]["uid"]}


def test_the_pods_kind_and_namespace_may_stand_before_its_name(shell: Shell, space: Space, web: Json) -> None:
    for written in (f"{space.name}/{name_of(web)}", f"pod/{name_of(web)}"):
        out = shell.ok("move", written, "-n", space.name, "--dry-run").out
        assert out.startswith(f"pod {space.name}/{name_of(web)} would be moved to ")
    assert "give one of the two" in shell.refused(messages.USAGE, "move", f"a/{name_of(web)}", "-n", "b")
    assert "is not POD" in shell.refused(messages.USAGE, "move", "a/b/c")


def test_a_dry_run_says_node_and_method_and_orders_nothing(
    shell: Shell, space: Space, web: Json, nodes: list[str]
) -> None:
    target = elsewhere(nodes, web)
    ran = shell.ok("move", name_of(web), "-n", space.name, "--to", target, "--dry-run")
    assert ran.out == f"pod {space.name}/{name_of(web)} would be moved to {target} by handoff (dry run)\n"
    body = shell.ok("move", name_of(web), "-n", space.name, "--method", "evict", "--dry-run", "-ojson").data
    assert (body["kind"], body["spec"]["method"]) == ("PodMigration", "evict")
    assert ordered(space) == []


def test_a_dry_run_says_what_the_controller_would_refuse(shell: Shell, space: Space, nodes: list[str]) -> None:
    space.runs(pod("kept", labels={labels.RESCHEDULING: "disabled"}))
    said = shell.refused(messages.REFUSED, "move", "kept", "-n", space.name, "--dry-run")
    assert f"pod {space.name}/kept would not be moved now: ReschedulingDisabled: " in said


def test_a_dry_run_says_what_the_wanted_node_lacks(shell: Shell, space: Space, nodes: list[str]) -> None:
    big = space.runs(pod("big", cpu="3"))
    target = elsewhere(nodes, big)
    space.runs(pod("rival", cpu="3", nodeName=target))
    said = shell.refused(messages.REFUSED, "move", "big", "-n", space.name, "--to", target, "--dry-run")
    assert f"would not be moved now: NoTarget: {target}: " in said
    assert "(NodeResourcesFit); the move would wait for that to change" in said


def test_a_move_that_fails_ends_with_its_reason(shell: Shell, space: Space, nodes: list[str]) -> None:
    alone = space.runs(pod("alone"))

    def fail() -> None:
        (migration,) = until("it is ordered", lambda: ordered(space))
        status = {"phase": "Failed", "message": "the copy never became Ready"}
        space.api.patch(f"{MIGRATIONS.format(space.name)}/{name_of(migration)}/status", {"status": status})

    with meanwhile(fail):
        said = shell.refused(messages.FAILED, "move", "alone", "-n", space.name, "--to", elsewhere(nodes, alone))
    assert "was not moved: the copy never became Ready" in said


def test_a_migration_that_is_deleted_is_told(shell: Shell, space: Space, web: Json) -> None:
    def delete() -> None:
        (migration,) = until("it is ordered", lambda: ordered(space))
        space.api.delete(f"{MIGRATIONS.format(space.name)}/{name_of(migration)}")

    with meanwhile(delete):
        said = shell.refused(messages.FAILED, "move", name_of(web), "-n", space.name)
    assert "the migration was deleted before it was over" in said


def test_ctrl_c_leaves_the_move_going_and_says_how_to_go_on(shell: Shell, space: Space, web: Json) -> None:
    with shell.started("move", name_of(web), "-n", space.name) as running:
        running.says("Pending")
        code, said = running.interrupt()
    (migration,) = ordered(space)
    assert code == messages.INTERRUPTED
    assert "the move goes on" in said
    assert f"rescheduler migrations {name_of(migration)} -n {space.name} -w" in said
    assert f"kubectl delete pmig {name_of(migration)} -n {space.name}" in said
    assert "Traceback" not in said


def test_the_waiting_has_an_end_and_the_move_goes_on(shell: Shell, space: Space, web: Json) -> None:
    said = shell.refused(messages.TIMED_OUT, "move", name_of(web), "-n", space.name, "--timeout", "100ms")
    assert "not over yet; the move goes on" in said
    assert len(ordered(space)) == 1


def test_without_waiting_it_is_only_ordered(shell: Shell, space: Space, web: Json) -> None:
    ran = shell.ok("move", name_of(web), "-n", space.name, "--no-wait", "-o", "name")
    (migration,) = ordered(space)
    assert ran.out == f"podmigration.rescheduler.io/{name_of(migration)}\n"
    assert "target" not in migration["spec"]


def test_a_pod_is_not_ordered_twice_at_once(shell: Shell, space: Space, web: Json) -> None:
    shell.ok("move", name_of(web), "-n", space.name, "--no-wait")
    (migration,) = ordered(space)
    said = shell.refused(messages.REFUSED, "move", name_of(web), "-n", space.name, "--no-wait")
    assert f"migration {name_of(migration)} of the pod is Pending already" in said
    assert len(ordered(space)) == 1


def test_the_object_is_printed_as_it_ended(shell: Shell, space: Space, web: Json, nodes: list[str]) -> None:
    with driven(space):
        ran = shell.ok("move", name_of(web), "-n", space.name, "--to", elsewhere(nodes, web), "-o", "json")
    assert ran.data["status"]["phase"] == "Completed"


def test_what_makes_no_sense_is_refused_before_anything_is_ordered(
    shell: Shell, space: Space, web: Json, nodes: list[str]
) -> None:
    name, here = name_of(web), web["spec"]["nodeName"]
    inside = ("-n", space.name)
    assert f"is on {here} already" in shell.refused(messages.REFUSED, "move", name, *inside, "--to", here)
    assert "one too many" in shell.refused(messages.REFUSED, "move", name, *inside, "--method", "copy")
    said = shell.refused(messages.UNREADABLE, "move", name, *inside, "--to", "nod-0")
    assert said.startswith("error: there is no node nod-0; did you mean node-0")
    said = shell.refused(messages.UNREADABLE, "move", name[:-1], *inside)
    assert f"there is no pod {name[:-1]} in namespace {space.name}; did you mean {name}" in said
    with space.cordoned(elsewhere(nodes, web)):
        said = shell.refused(messages.REFUSED, "move", name, *inside, "--to", elsewhere(nodes, web))
        assert "is cordoned; `kubectl uncordon" in said
    assert "--timeout says how long to wait" in shell.refused(
        messages.USAGE, "move", name, *inside, "--no-wait", "--timeout", "5m"
    )
    assert ordered(space) == []


def test_a_pod_that_has_ended_or_is_on_no_node_is_refused(shell: Shell, space: Space, nodes: list[str]) -> None:
    space.create(pod("nowhere", nodeSelector={"no": "where"}))
    space.refused("nowhere")
    said = shell.refused(messages.REFUSED, "move", "nowhere", "-n", space.name)
    assert "is not on a node yet" in said
    space.create(simulated(pod("done"), fails="Failed"))
    space.reaches("Pod", "done", "has ended", lambda found: found["status"]["phase"] == "Failed")
    assert "has ended (Failed)" in shell.refused(messages.REFUSED, "move", "done", "-n", space.name)


def test_it_is_said_when_no_controller_seems_to_run(shell: Shell, space: Space, web: Json) -> None:
    other = space.pods("web")[1]
    ran = shell.ok("move", name_of(web), "-n", space.name, "--no-wait")
    assert "no controller seems to run: there is no Lease kube-rescheduler" in ran.said
    space.create(lease("kube-rescheduler", renewTime=micro(time.time()), leaseDurationSeconds=600))
    ran = shell.ok("move", name_of(other), "-n", space.name, "--no-wait")
    assert "no controller" not in ran.said


def test_a_lease_that_has_run_out_is_nobodys(shell: Shell, space: Space, web: Json) -> None:
    space.create(lease("kube-rescheduler", renewTime=micro(time.time() - 100), leaseDurationSeconds=15))
    ran = shell.ok("move", name_of(web), "-n", space.name, "--no-wait")
    told = re.search(r"the Lease kube-rescheduler ran out (\d+) s ago", ran.said)
    assert told, ran.said
    assert 85 <= int(told[1]) < 600


def micro(seconds: float) -> str:
    return format_instant(seconds).replace("Z", ".000000Z")

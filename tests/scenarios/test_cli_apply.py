"""`rescheduler apply`: a reviewed plan becomes migrations, as far as it still holds, and never twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rescheduler.cli import messages
from rescheduler.model import labels
from rescheduler.model.json import Json
from tests.support.both_clusters import ClusterUnderTest, Space, name_of
from tests.support.manifests import deployment, pod
from tests.support.migrations import MIGRATIONS
from tests.support.shell import Shell, driven, meanwhile
from tests.testbed.processes import until

STANDING = {"max": 0.0, "min": 0.0, "mean": 0.0, "stddev": 0.0}
PICTURE = {"cpu": STANDING, "memory": STANDING, "hotNodes": 0}

Written = Callable[..., str]


@pytest.fixture
def web(space: Space, nodes: list[str]) -> list[Json]:
    """The pods of a Deployment of three, and one that nobody manages."""
    space.create(deployment("web", 3))
    space.rolled_out("web")
    return [*space.pods("web"), space.runs(pod("alone"))]


@pytest.fixture
def plan(tmp_path: Path) -> Written:
    """A plan's file, with these moves."""

    def written(*moves: Json, name: str = "plan.json") -> str:
        path = tmp_path / name
        path.write_text(json.dumps(document(*moves)))
        return str(path)

    return written


def document(*moves: Json) -> Json:
    head = {"apiVersion": "rescheduler.io/v1alpha1", "kind": "Plan"}
    return {**head, "moves": list(moves), "rejections": [], "before": PICTURE, "after": PICTURE, "warnings": []}


def move(found: Json, nodes: list[str], number: int = 0, **fields: Any) -> Json:
    """A move of a pod to the first node that it is not on."""
    here = found["spec"]["nodeName"]
    return {
        "namespace": found["metadata"]["namespace"],
        "pod": name_of(found),
        "from": here,
        "to": next(node for node in nodes if node != here),
        "strategy": "LoadBalancing",
        "reason": "because",
        "method": "handoff" if "ownerReferences" in found["metadata"] else "copy",
        "uid": found["metadata"]["uid"],
        "proposal": number,
    } | fields


def ordered(space: Space) -> list[Json]:
    found: list[Json] = space.api.get(MIGRATIONS.format(space.name))["items"]
    return found


def test_a_plan_becomes_migrations(
    shell: Shell, space: Space, web: list[Json], nodes: list[str], plan: Written
) -> None:
    moves = [move(web[0], nodes), move(web[3], nodes, 1)]
    ran = shell.ok("apply", "-f", plan(*moves))
    made = {each["spec"]["pod"]["name"]: each for each in ordered(space)}
    names = [name_of(made[each["pod"]]) for each in moves]
    assert ran.out.splitlines() == [f"podmigration.rescheduler.io/{name} created" for name in names]
    assert made[name_of(web[0])]["spec"] == {
        "pod": {"name": name_of(web[0]), "uid": web[0]["metadata"]["uid"]},
        "target": moves[0]["to"],
        "method": "handoff",
        "strategy": "LoadBalancing",
        "reason": "because",
        "paused": False,
        "approvalRequired": False,
        "windowed": False,
    }


def test_the_same_plan_orders_nothing_twice(
    shell: Shell, space: Space, web: list[Json], nodes: list[str], plan: Written, tmp_path: Path
) -> None:
    moves = [move(web[0], nodes), move(web[3], nodes, 1)]
    shell.ok("apply", "-f", plan(*moves))
    again = shell.ok("apply", "-f", plan(*moves))
    assert [line.split()[1] for line in again.out.splitlines()] == ["unchanged", "unchanged"]
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(document(*moves)))
    rewritten = shell.ok("apply", "-f", str(tmp_path / "plan.yaml"))
    assert rewritten.out == again.out
    assert len(ordered(space)) == 2


def test_an_applied_plan_stays_applied_when_its_moves_are_over(
    shell: Shell, space: Space, web: list[Json], nodes: list[str], plan: Written
) -> None:
    file = plan(move(web[0], nodes))
    with driven(space):
        shell.ok("apply", "-f", file, "--wait")
    assert shell.ok("apply", "-f", file).out.endswith(" unchanged (Completed)\n")


def test_waiting_tells_how_the_moves_go_on_and_end(
    shell: Shell, space: Space, web: list[Json], nodes: list[str], plan: Written
) -> None:
    moves = [move(web[0], nodes), move(web[3], nodes, 1)]
    with driven(space):
        ran = shell.ok("apply", "-f", plan(*moves), "--wait", "-o", "json")
    assert [(each["outcome"], each["phase"]) for each in ran.data["entries"]] == [("created", "Completed")] * 2
    assert f"{space.name}/alone: Completed\n" in ran.said
    assert "note: 2 of 2 moves are completed" in ran.said


def test_a_failed_move_ends_the_waiting_with_its_reason(
    shell: Shell, space: Space, web: list[Json], nodes: list[str], plan: Written
) -> None:
    def fail() -> None:
        (migration,) = until("it is ordered", lambda: ordered(space))
        path = f"{MIGRATIONS.format(space.name)}/{name_of(migration)}/status"
        space.api.patch(path, {"status": {"phase": "Failed", "message": "no room"}})

    with meanwhile(fail):
        said = shell.refused(messages.FAILED, "apply", "-f", plan(move(web[0], nodes)), "--wait")
    assert "was not moved: no room" in said


def test_the_waiting_has_an_end_and_says_how_far_it_came(
    shell: Shell, space: Space, web: list[Json], nodes: list[str], plan: Written
) -> None:
    ran = shell.run("apply", "-f", plan(move(web[0], nodes)), "--wait", "--timeout", "100ms", "-o", "json")
    assert ran.code == messages.TIMED_OUT
    assert "not all are over yet; the moves go on" in ran.said
    assert [each["phase"] for each in ran.data["entries"]] == ["Pending"]


def test_stale_entries_are_refused_with_their_reason_and_the_others_ordered(
    shell: Shell, space: Space, web: list[Json], nodes: list[str], plan: Written
) -> None:
    moves = [
        move(web[0], nodes),
        move(web[1], nodes, 1, uid="another"),
        move(web[2], nodes, 2, **{"from": "node-99"}),
        move(web[3], nodes, 3, to="node-99"),
        move(web[3], nodes, 4, pod="gone"),
    ]
    ran = shell.run("apply", "-f", plan(*moves))
    assert ran.code == messages.REFUSED
    created, *refused = ran.out.splitlines()
    assert created.endswith(" created")
    assert [line.partition(" refused: ")[2] for line in refused] == [
        "another pod has its name by now",
        f"it is on {web[2]['spec']['nodeName']}, not on node-99",
        "node node-99 is gone",
        "the pod is gone",
    ]
    assert len(ordered(space)) == 1


def test_a_pod_that_is_being_moved_and_a_guard_that_objects_are_refused(
    shell: Shell, space: Space, web: list[Json], nodes: list[str], plan: Written
) -> None:
    shell.ok("move", "alone", "-n", space.name, "--no-wait")
    (under_way,) = ordered(space)
    space.patch("Pod", name_of(web[0]), {"metadata": {"labels": {labels.RESCHEDULING: "disabled"}}})
    ran = shell.run("apply", "-f", plan(move(web[3], nodes), move(web[0], nodes, 1)))
    assert ran.code == messages.REFUSED
    assert f"refused: migration {name_of(under_way)} is Pending" in ran.out
    assert "refused: ReschedulingDisabled: " in ran.out


def test_moves_that_belong_together_are_ordered_or_refused_together(
    shell: Shell, space: Space, web: list[Json], nodes: list[str], plan: Written
) -> None:
    together = [move(web[0], nodes, 7), move(web[3], nodes, 7)]
    ran = shell.run("apply", "-f", plan(together[0], together[1] | {"uid": "another"}))
    assert ran.code == messages.REFUSED
    assert f"refused: {space.name}/alone, which belongs to it, is refused" in ran.out
    assert ordered(space) == []
    shell.ok("apply", "-f", plan(*together))
    proposals = [each["spec"]["proposal"] for each in ordered(space)]
    assert proposals[0] == proposals[1]
    assert proposals[0]["members"] == 2


def test_a_namespace_takes_its_part_of_the_plan_and_tears_nothing_apart(
    cluster: ClusterUnderTest, shell: Shell, space: Space, web: list[Json], nodes: list[str], plan: Written
) -> None:
    other = move(web[3], nodes, 9, namespace="elsewhere")
    file = plan(move(web[0], nodes), move(web[1], nodes, 9), other)
    ran = shell.run("apply", "-f", file, "-n", space.name)
    assert ran.code == messages.REFUSED
    created, torn = ran.out.splitlines()
    assert created.endswith(" created")
    assert "it belongs to moves in other namespaces, which -n leaves out" in torn
    ran = shell.ok("apply", "-f", file, "-n", "nowhere")
    assert (ran.out, ran.said) == ("", "note: the plan has no move in namespace nowhere\n")


def test_a_dry_run_checks_everything_and_orders_nothing(
    shell: Shell, space: Space, web: list[Json], nodes: list[str], plan: Written
) -> None:
    file = plan(move(web[0], nodes), move(web[1], nodes, 1, uid="another"))
    ran = shell.run("apply", "-f", file, "--dry-run")
    assert ran.code == messages.REFUSED
    assert " created (dry run)\n" in ran.out
    assert " refused: another pod" in ran.out
    assert ordered(space) == []


def test_a_plan_without_uids_means_the_pods_that_are_there_now(
    shell: Shell, space: Space, web: list[Json], nodes: list[str], plan: Written
) -> None:
    file = plan(move(web[0], nodes, uid=""))
    shell.ok("apply", "-f", file)
    (migration,) = ordered(space)
    assert migration["spec"]["pod"]["uid"] == web[0]["metadata"]["uid"]
    assert shell.ok("apply", "-f", file).out.endswith(" unchanged (Pending)\n")


def test_names_and_documents_are_for_programs(
    shell: Shell, space: Space, web: list[Json], nodes: list[str], plan: Written
) -> None:
    file = plan(move(web[0], nodes), move(web[1], nodes, 1, uid="another"))
    names = shell.run("apply", "-f", file, "-o", "name")
    (migration,) = ordered(space)
    assert names.out == f"podmigration.rescheduler.io/{name_of(migration)}\n"
    assert "warning: pod/" in names.said
    result = shell.run("apply", "-f", file, "-o", "json")
    assert (result.code, result.data["kind"]) == (messages.REFUSED, "PlanResult")
    assert [each["outcome"] for each in result.data["entries"]] == ["unchanged", "refused"]
    assert result.data["entries"][0]["migration"] == name_of(migration)
    assert result.data["entries"][1]["reason"] == "another pod has its name by now"


def test_where_the_server_refuses_one_what_belongs_to_it_is_taken_back(
    shell: Shell, space: Space, web: list[Json], nodes: list[str], plan: Written
) -> None:
    invalid = move(web[1], nodes, 5, strategy="no label value")
    ran = shell.run("apply", "-f", plan(move(web[0], nodes, 5), invalid))
    assert ran.code == messages.REFUSED, ran.said
    first, second = ran.out.splitlines()
    assert f"refused: {space.name}/{name_of(web[1])}, which belongs to it, is refused" in first
    assert "is invalid: spec.strategy" in second
    assert ordered(space) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty; expected an object of kind Plan"),
        ("{", "is not JSON"),
        ("[]", "expected an object of kind Plan, found a list"),
        ('{"apiVersion": "v1", "kind": "List"}', "apiVersion: 'v1' is not rescheduler.io/v1alpha1"),
        (json.dumps(document({"namespace": "a"})), "moves[0]"),
        (json.dumps(document() | {"moves": None}), "moves: expected"),
        ("a: [b", "is neither JSON nor YAML"),
    ],
)
def test_what_is_no_plan_is_told_with_the_place_and_the_cure(
    shell: Shell, tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    found = shell.refused(messages.UNREADABLE, "apply", "-f", str(path))
    assert found.startswith(f"error: {path}: ")
    assert said in found
    assert "A plan is what `rescheduler plan -o json` or `-o yaml` writes." in found


def test_a_plan_comes_by_standard_input_too(shell: Shell, space: Space, web: list[Json], nodes: list[str]) -> None:
    ran = shell.ok("apply", "-f", "-", "--dry-run", stdin=json.dumps(document(move(web[0], nodes))))
    assert ran.out.endswith(" created (dry run)\n")
    assert shell.run("apply", "-f", "-", stdin="{}").said.startswith("error: <stdin>: apiVersion: missing")


def test_files_that_are_not_there_and_flags_that_make_no_sense_are_usage(shell: Shell, tmp_path: Path) -> None:
    missing = str(tmp_path / "none.json")
    assert f"{missing}: cannot be read: No such file" in shell.refused(messages.UNREADABLE, "apply", "-f", missing)
    assert "cannot be read" in shell.refused(messages.UNREADABLE, "apply", "-f", str(tmp_path))
    assert "missing option '-f'" in shell.refused(messages.USAGE, "apply")
    assert "cannot both be standard input" in shell.refused(messages.USAGE, "apply", "-f", "-", "--config", "-")
    assert "--timeout says" in shell.refused(messages.USAGE, "apply", "-f", missing, "--timeout", "1m")

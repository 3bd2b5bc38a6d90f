"""Input that is wrong: an error that names file and object and the cure, or a warning; never a traceback."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rescheduler.cli import messages
from tests.support import dumps
from tests.support.cli import Ran, rescheduler, succeeded

NOW = ("--now", dumps.NOW)


def _planned(path: Path, *objects: Any) -> Ran:
    return succeeded("plan", "-f", dumps.written(path / "c.json", *objects), *NOW, "-ojson")


def _refused(path: Path, content: bytes) -> str:
    (path / "c.json").write_bytes(content)
    ran = rescheduler("plan", "-f", str(path / "c.json"), *NOW)
    assert (ran.code, ran.out) == (1, "")
    assert ran.said.startswith(f"error: {path / 'c.json'}: ")
    return ran.said


@pytest.mark.parametrize("share", [0.01, 0.5, 0.999])
def test_a_truncated_file_is_an_error_that_names_it(tmp_path: Path, share: float) -> None:
    whole = json.dumps(dumps.dump(dumps.hot_cluster())).encode()
    said = _refused(tmp_path, whole[: int(len(whole) * share)])
    assert "not usable as JSON" in said
    packed = gzip.compress(whole)
    _refused(tmp_path, packed[: int(len(packed) * share)])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"Error from server (Forbidden)", "not usable as YAML or JSON"),
        (b"\x1f\x8bbroken", "cannot be read"),
        (b'{"kind":"Status","message":"pods is forbidden"}', "pods is forbidden"),
        ("kind: Pod".encode("utf-16"), "UTF-16"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_dump_is_an_error_that_says_what_it_is(tmp_path: Path, content: bytes, said: str) -> None:
    assert said in _refused(tmp_path, content)


@pytest.mark.parametrize(
    "content",
    [
        {"apiVersion": "v1", "kind": "List", "items": []},
        {"apiVersion": "example.com/v1", "kind": "Node", "metadata": {"name": "not-ours"}},
        {"apiVersion": "v1", "kind": "PodList", "items": [dumps.pod("p", "a")]},
        {"hello": "world"},
    ],
)
def test_without_a_node_the_whole_kubectl_command_is_the_cure(tmp_path: Path, content: dict[str, Any]) -> None:
    said = _refused(tmp_path, json.dumps(content).encode())
    assert "holds no Node" in said
    command = next(line for line in said.splitlines() if "kubectl get nodes,pods," in line)
    for kind in ("poddisruptionbudgets", "replicasets", "jobs", "persistentvolumes", "csinodes", "priorityclasses"):
        assert kind in command
    assert command.endswith(" -A -o json > cluster.json")


def test_files_that_cannot_be_opened_are_errors(tmp_path: Path) -> None:
    missing = rescheduler("plan", "-f", str(tmp_path / "missing.json"))
    assert (missing.code, missing.out) == (1, "")
    assert missing.said == f"error: {tmp_path / 'missing.json'}: cannot be read: No such file or directory\n"
    folder = rescheduler("plan", "-f", str(tmp_path))
    assert (folder.code, folder.said) == (1, f"error: {tmp_path}: cannot be read: Is a directory\n")


CONFIGURATIONS = (
    ("convert", "-f"),
    ("config", "check"),
    ("config", "show", "--config"),
    ("run", "--config"),
    ("plan", "--config"),
    ("explain", "shop/web", "--config"),
    ("move", "shop/web", "--config"),
    ("maintenance", "start", "worker-1", "--config"),
    ("maintenance", "status", "--config"),
    ("pause", "--config"),
    ("cleanup", "--yes", "--config"),
    ("scheduler-config", "--merge"),
)
CLUSTERS_AND_PLANS = (("plan", "-f"), ("explain", "shop/web", "-f"), ("snapshot", "-f"), ("apply", "-f"))


@pytest.mark.parametrize("command", [*CONFIGURATIONS, *CLUSTERS_AND_PLANS], ids=" ".join)
def test_a_file_that_cannot_be_read_ends_every_command_alike(tmp_path: Path, command: tuple[str, ...]) -> None:
    for path, why in ((tmp_path / "none", "No such file or directory"), (tmp_path, "Is a directory")):
        ran = rescheduler(*command, str(path))
        assert (ran.code, ran.out) == (messages.UNREADABLE, "")
        assert ran.said.removeprefix("error: ") == f"{path}: cannot be read: {why}\n"


@pytest.mark.parametrize("command", CONFIGURATIONS, ids=" ".join)
def test_a_configuration_that_can_be_read_and_is_wrong_ends_every_command_alike(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    for content in (b"kind: Nonsense\n", b"", b"a: [", b"a: \xff\n"):
        (tmp_path / "c.yaml").write_bytes(content)
        ran = rescheduler(*command, str(tmp_path / "c.yaml"))
        assert (ran.code, ran.out) == (messages.USAGE, ""), content
        assert ran.said.removeprefix("error: ").startswith(f"{tmp_path / 'c.yaml'}: ")


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (("-f", "x", "--context", "prod"), "--context is for the live cluster and -f reads a file"),
        (("-f", "x", "--kubeconfig", "k"), "--kubeconfig is for the live cluster and -f reads a file"),
        (("-f", "-", "-f", "-"), "-f - can be given only once"),
        (("-f", "-", "--config", "-"), "cannot both be standard input"),
    ],
)
def test_inputs_that_contradict_each_other_are_usage_errors(flags: tuple[str, ...], error: str) -> None:
    ran = rescheduler("plan", *flags)
    assert (ran.code, ran.out) == (2, "")
    assert error in ran.said
    assert "See 'rescheduler plan --help'." in ran.said


def _paths(thing: Any, at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [at] if at else []
    if isinstance(thing, dict):
        for key, value in thing.items():
            found += _paths(value, (*at, key))
    return found


def _damaged(junk: Any) -> Iterator[Any]:
    """Objects that have this value at one place each, at every place that there is."""
    for healthy in (dumps.node("odd"), dumps.pod("odd", "a"), dumps.deployment("odd", ["a"])[0], dumps.pdb("odd", 1)):
        for number, path in enumerate(_paths(healthy)):
            damaged = json.loads(json.dumps(healthy))
            damaged["metadata"]["name"] = f"odd-{number}"
            at = damaged
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = junk
            yield damaged


@pytest.mark.parametrize("junk", [None, "text", [1], {"a": 1}, 1.5])
def test_null_or_a_wrong_type_anywhere_is_at_most_a_warning_that_names_the_object(tmp_path: Path, junk: Any) -> None:
    ran = _planned(tmp_path, dumps.node("a"), dumps.node("b"), dumps.pod("p", "a"), list(_damaged(junk)))
    for line in ran.data["warnings"]:
        assert "c.json" in line or line.startswith("the input") or "on nodes that" in line, line


@pytest.mark.parametrize("quantity", ["-1", "1e", ""])
def test_a_pod_with_a_senseless_quantity_is_named_and_left_alone(tmp_path: Path, quantity: str) -> None:
    ran = _planned(
        tmp_path, dumps.node("a"), dumps.node("b"), dumps.pod("odd", "a", quantity), dumps.pod("p", "a", "3.9")
    )
    assert f"{tmp_path / 'c.json'}: Pod default/odd: spec.containers[0].resources.requests" in ran.said
    assert all(move["pod"] != "odd" and move["to"] != "a" for move in ran.data["moves"])


def test_missing_kinds_are_said_where_they_weaken_a_check(tmp_path: Path) -> None:
    pods = [thing for thing in dumps.deployment("web", ["a", "a"]) if thing["kind"] == "Pod"]
    ran = _planned(tmp_path, dumps.node("a"), pods)
    for kind in ("PodDisruptionBudget", "ReplicaSets", "Deployments"):
        assert f"warning: the input has no {kind}: " in ran.said


def test_names_that_would_disturb_a_terminal_are_shown_harmlessly(tmp_path: Path) -> None:
    evil = dumps.pod("evil\x1b]0;owned\x07\nnext", "a", "3900m")
    file = dumps.written(tmp_path / "c.json", dumps.node("a"), dumps.node("b"), evil)
    for form in ("table", "wide", "name", "json", "yaml"):
        ran = succeeded("plan", "-f", file, *NOW, "-o", form)
        assert "\x1b" not in ran.out + ran.said
        assert "\x07" not in ran.out + ran.said


def test_yaml_nested_without_end_is_refused_before_it_can_hurt(tmp_path: Path) -> None:
    path = tmp_path / "deep.yaml"
    path.write_text("a: " + "[" * 300_000)
    ran = rescheduler("plan", "-f", str(path))
    assert ran.code == 1
    assert "nested deeper" in ran.said

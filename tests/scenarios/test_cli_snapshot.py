"""`rescheduler snapshot`: recordings hold what planning reads and nothing secret, and give the same plans."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.support import dumps
from tests.support.cli import rescheduler, succeeded

NOW = ("--now", dumps.NOW)
TAKEN_AT = "rescheduler.io/taken-at"


def _rich_cluster() -> list[dict[str, Any]]:
    """Something of every kind that planning reads, with a secret wherever one can be."""
    storage: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default", "annotations": {"x": dumps.SECRET}},
            "spec": {"volumeName": "vol", "storageClassName": "fast", "accessModes": ["ReadWriteOnce"]},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "vol"},
            "spec": {
                "csi": {
                    "driver": "csi.example.com",
                    "volumeHandle": "h-1",
                    "volumeAttributes": {"key": dumps.SECRET},
                    "nodeStageSecretRef": {"name": dumps.SECRET},
                }
            },
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "fast"},
            "provisioner": "csi.example.com",
            "parameters": {"secret": dumps.SECRET},
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": "a"},
            "spec": {"drivers": [{"name": "csi.example.com", "nodeID": dumps.SECRET, "allocatable": {"count": 5}}]},
        },
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 1000,
            "description": dumps.SECRET,
        },
        {
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "NodeMetrics",
            "metadata": {"name": "a"},
            "timestamp": dumps.NOW,
            "usage": {"cpu": "1", "memory": "1Gi"},
        },
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "shop", "labels": {"team": "x"}, "annotations": {"x": dumps.SECRET}},
        },
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"password": dumps.SECRET}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"password": dumps.SECRET}},
    ]
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "emptyDir": {"medium": dumps.SECRET}},
        {"name": "cache", "emptyDir": {"medium": "Memory", "sizeLimit": dumps.SECRET}},
        {"name": "host", "hostPath": {"path": dumps.SECRET}},
        {"name": "disk", "rbd": {"keyring": dumps.SECRET}},
    ]
    toleration = {"key": "dedicated", "operator": "Exists"}
    marked = {"scheduler.alpha.kubernetes.io/migration-time": "2020-01-01T00:00:00Z", "scheduling-retries": "3"}
    special = [
        dumps.pod("with-volumes", "a", "300m", volumes=volumes),
        dumps.pod("tolerant", "b", tolerations=[toleration], nodeSelector={"disk": "ssd"}, priorityClassName="high"),
        dumps.pod("marked", "a", "200m", annotations=marked),
        dumps.pod("waiting", None, "200m"),
    ]
    return dumps.flat([dumps.hot_cluster(), dumps.pdb("web", 1), special, storage])


def test_nothing_secret_gets_into_a_recording(tmp_path: Path) -> None:
    original = dumps.written(tmp_path / "dump.json", _rich_cluster())
    assert dumps.SECRET in Path(original).read_text()
    ran = succeeded("snapshot", "-f", original)
    assert dumps.SECRET not in ran.out
    assert dumps.SECRET not in ran.said
    for word in ("env", "command", "args", "managedFields", "last-applied", "vault", "image", "secret", "parameters"):
        assert f'"{word}' not in ran.out
    kinds = {item["kind"] for item in ran.data["items"]}
    assert "Secret" not in kinds
    assert "ConfigMap" not in kinds
    annotations = [item["metadata"].get("annotations") for item in ran.data["items"]]
    assert [found for found in annotations if found] == [
        {"scheduler.alpha.kubernetes.io/migration-time": "2020-01-01T00:00:00Z", "scheduling-retries": "3"}
    ]


@pytest.mark.parametrize(
    "flags", [(), ("--strategy", "ResourceOptimization", "--cpu-threshold", "30"), ("--strategy", "LoadBalancing")]
)
def test_a_recording_gives_the_same_plan_byte_for_byte(tmp_path: Path, flags: tuple[str, ...]) -> None:
    original = dumps.written(tmp_path / "dump.json", _rich_cluster())
    recording = tmp_path / "recording.json"
    succeeded("snapshot", "-f", original, "-o", str(recording))
    for form in ("json", "yaml", "table", "wide", "name"):
        runs = [succeeded("plan", "-f", str(file), *NOW, "-o", form, *flags) for file in (original, recording)]
        assert runs[0].out == runs[1].out
        assert runs[0].said == runs[1].said
    again = succeeded("snapshot", "-f", str(recording)).out
    assert again == recording.read_text()


def test_what_cannot_be_read_stays_as_dangerous_as_it_was(tmp_path: Path) -> None:
    broken = dumps.pod("broken", "c")
    broken["spec"]["containers"] = "secret " + dumps.SECRET
    budget = dumps.pdb("web", 1)
    budget["spec"]["selector"] = budget["spec"] = dumps.SECRET
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "d"}, "spec": dumps.SECRET}
    nameless = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": dumps.SECRET}}
    original = dumps.written(tmp_path / "dump.json", dumps.hot_cluster(), broken, budget, node, nameless)
    recording = tmp_path / "recording.json"
    ran = succeeded("snapshot", "-f", original, "-o", str(recording))
    assert "of Pod default/broken only the name is recorded" in ran.said
    assert dumps.SECRET not in recording.read_text() + ran.said
    plans = [succeeded("plan", "-f", str(file), *NOW, "-o", "json").data for file in (original, recording)]
    assert plans[0]["moves"] == plans[1]["moves"]
    assert plans[0]["rejections"] == plans[1]["rejections"]
    assert all(move["to"] not in ("c", "d") for move in plans[1]["moves"])


def test_time_and_kinds_of_a_recording_survive_being_recorded_again(tmp_path: Path) -> None:
    dump = dumps.dump(dumps.node("a"), dumps.pod("p", "a"))
    dump["metadata"] = {TAKEN_AT: dumps.NOW, "rescheduler.io/kinds": ["Node", "Pod", "PodDisruptionBudget", "Job"]}
    file = tmp_path / "c.json"
    file.write_text(json.dumps(dump))
    metadata = succeeded("snapshot", "-f", str(file)).data["metadata"]
    assert metadata == {TAKEN_AT: dumps.NOW, "rescheduler.io/kinds": ["Job", "Node", "Pod", "PodDisruptionBudget"]}
    assert "PodDisruptionBudget" not in succeeded("plan", "-f", str(file)).said


def test_kinds_that_were_not_listed_are_not_claimed(tmp_path: Path) -> None:
    file = dumps.written(tmp_path / "c.json", dumps.node("a"), dumps.pod("p", "a"))
    recording = succeeded("snapshot", "-f", file)
    assert recording.data["metadata"] == {"rescheduler.io/kinds": ["Node", "Pod"]}
    assert "the input has no PodDisruptionBudget" in succeeded("plan", "-f", "-", stdin=recording.out).said


def test_an_object_a_line_and_what_holds_for_all_at_the_end(tmp_path: Path) -> None:
    file = dumps.written(tmp_path / "c.json", dumps.node("a"), dumps.pod("p", "a"))
    lines = succeeded("snapshot", "-f", file).out.splitlines()
    assert lines[0] == '{"apiVersion":"v1","kind":"List","items":['
    assert [json.loads(line.rstrip(","))["kind"] for line in lines[1:-1]] == ["Node", "Pod"]
    assert lines[-1].startswith('],"metadata":')


def test_recordings_go_to_files_gzipped_by_their_name(tmp_path: Path) -> None:
    file = dumps.written(tmp_path / "c.json", dumps.hot_cluster())
    out = succeeded("snapshot", "-f", file).out
    for name, opened in (("r.json", open), ("r.json.gz", gzip.open)):
        ran = succeeded("snapshot", "-f", file, "-o", str(tmp_path / name))
        assert ran.out == ""
        assert ran.said == "note: recorded 2 Deployment, 3 Node, 8 Pod, 2 ReplicaSet\n"
        with opened(tmp_path / name, "rb") as stream:
            assert stream.read().decode() == out
    succeeded("snapshot", "-f", file, "-o", file)
    assert Path(file).read_text() == out


def test_a_failure_on_the_way_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "kept.json"
    target.write_text("kept")
    (tmp_path / "cut.json").write_text('{"kind": "List", "items": [{"kind": "Node"')
    ran = rescheduler("snapshot", "-f", str(tmp_path / "cut.json"), "-o", str(target))
    assert (ran.code, ran.out, target.read_text()) == (1, "", "kept")
    nowhere = rescheduler("snapshot", "-f", str(tmp_path / "cut.json"))
    assert (nowhere.code, nowhere.out) == (1, "")
    file = dumps.written(tmp_path / "c.json", dumps.node("a"))
    unwritable = rescheduler("snapshot", "-f", file, "-o", str(tmp_path / "no" / "such" / "folder"))
    assert unwritable.code == 1
    assert "cannot be written: No such file or directory" in unwritable.said


def test_kubectls_formats_are_no_file_names(tmp_path: Path) -> None:
    ran = rescheduler("snapshot", "-f", "x", "-o", "json")
    assert ran.code == 2
    assert "-o names a file here" in ran.said


def test_the_order_of_objects_in_a_dump_is_kept_but_means_nothing(tmp_path: Path) -> None:
    objects = _rich_cluster()
    outs = set()
    for seed in range(3):
        random.Random(seed).shuffle(objects)
        recording = succeeded("snapshot", "-f", dumps.written(tmp_path / "c.json", objects)).out
        outs.add(succeeded("plan", "-f", "-", *NOW, "-ojson", stdin=recording).out)
    assert len(outs) == 1


def test_a_stripped_dump_can_be_told_when_it_was_taken(tmp_path: Path) -> None:
    file = dumps.written(tmp_path / "c.json", dumps.hot_cluster())
    recording = tmp_path / "recording.json"
    succeeded("snapshot", "-f", file, "--now", dumps.NOW, "-o", str(recording))
    assert "when it was taken" in succeeded("plan", "-f", file).said
    ran = succeeded("plan", "-f", str(recording), "-o", "json")
    assert "when it was taken" not in ran.said
    assert ran.data["moves"] == succeeded("plan", "-f", file, "--now", dumps.NOW, "-o", "json").data["moves"]

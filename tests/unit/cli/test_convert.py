"""`rescheduler convert` as a command, the seed's form, the page about it, and what a converted configuration plans."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from docs.generating.conversion import TABLES

from rescheduler.config.loader import load
from rescheduler.convert.builder import RemarkKind
from rescheduler.convert.convert import convert_text
from tests.support.cli import rescheduler, succeeded
from tests.support.conversions import KNOWN, LOW, policy, remarks

ROOT = Path(__file__).parents[3]


class TestTheCommand:
    example = str(ROOT / "examples" / "descheduler-policy.yaml")

    def test_prints_a_configuration_that_the_check_accepts(self, tmp_path: Path) -> None:
        file = tmp_path / "rescheduler.yaml"
        file.write_text(succeeded("convert", "-f", self.example).out, encoding="utf-8")
        assert "ok (ReschedulerConfiguration, 5 strategies)" in succeeded("config", "check", str(file)).out

    def test_writes_a_file(self, tmp_path: Path) -> None:
        ran = succeeded("convert", "-f", self.example, "-o", str(tmp_path / "made.yaml"))
        assert ran.out == ""
        assert (tmp_path / "made.yaml").read_text(encoding="utf-8") == succeeded("convert", "-f", self.example).out

    def test_tells_every_loss_however_many_there_are(self) -> None:
        args = ", ".join(f"no{index}: 1" for index in range(30))
        ran = rescheduler("convert", "-f", "-", stdin=policy("PodLifeTime", f"{{maxPodLifeTimeSeconds: 5, {args}}}"))
        assert ran.said.count(": is not known: ") == 30

    def test_is_strict_only_on_request(self) -> None:
        assert rescheduler("convert", "-f", self.example).code == 0
        ran = rescheduler("convert", "-f", self.example, "--strict")
        assert ran.code == 4
        assert ran.out
        assert rescheduler("convert", "-f", "-", "--strict", stdin=policy("RemoveDuplicates")).code == 0

    def test_a_configmap_may_carry_the_policy_among_other_documents(self) -> None:
        carried = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "data": {"policy.yaml": policy("RemoveDuplicates"), "x": "y"},
        }
        text = yaml.safe_dump_all([{"apiVersion": "v1", "kind": "ServiceAccount"}, carried])
        ran = succeeded("convert", "-f", "-", stdin=text)
        assert yaml.safe_load(ran.out)["enabledStrategies"] == ["RemoveDuplicates"]
        assert 'note: "ServiceAccount" is no policy' in ran.said
        assert "note: data.x of a ConfigMap is no policy" in ran.said

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (f"{policy()}---\n{policy()}", "holds 2 policies"),
            (policy().replace("v1alpha2", "v1alpha1"), "bring it to descheduler/v1alpha2 first"),
            ("a: [", "broken YAML"),
        ],
    )
    def test_says_what_is_wrong_with_a_file(self, text: str, said: str) -> None:
        ran = rescheduler("convert", "-f", "-", stdin=text)
        assert ran.code == 2
        assert said in ran.said
        assert ran.out == ""

    def test_says_that_a_file_cannot_be_written(self, tmp_path: Path) -> None:
        ran = rescheduler("convert", "-f", self.example, "-o", str(tmp_path / "no" / "where"))
        assert ran.code == 1
        assert "cannot be written" in ran.said


class TestTheSeedsForm:
    example = (ROOT / "examples" / "scheduler-config.yaml").read_text(encoding="utf-8")

    def test_comes_to_the_same_configuration(self) -> None:
        before = load(self.example, "seed", KNOWN)
        after = load(convert_text(self.example, "seed", KNOWN).text, "native", KNOWN)
        assert after == before

    def test_tells_what_is_the_schedulers(self) -> None:
        told = remarks(self.example, RemarkKind.UNNEEDED)
        assert any(each.startswith("profiles[0].schedulerName: needs nothing here") for each in told)

    def test_names_unknown_args_with_their_path(self) -> None:
        text = self.example.replace("cpuThreshold", "cpuTreshold")
        (told,) = remarks(text, RemarkKind.UNKNOWN)
        assert "args.cpuTreshold: is not known" in told
        assert "did you mean cpuThreshold?" in told

    def test_with_wrong_values_is_refused(self) -> None:
        ran = rescheduler("convert", "-f", "-", stdin=self.example.replace("profiles:", "profils:"))
        assert ran.code == 2


def test_the_page_has_every_table_once() -> None:
    page = (ROOT / "docs" / "coming-over.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"made by docs/generate\.py: ([a-z-]+)", page)) == sorted(TABLES)
    for make in TABLES.values():
        for row in make()[1]:
            assert row[0] in page


CLUSTER = ROOT / "examples" / "cluster.yaml"
NOW = "2027-01-01T12:00:00Z"


def moved(text: str, cluster: Path, tmp_path: Path) -> dict[str, tuple[str, str | None]]:
    """By pod, from where and to where it goes."""
    config = tmp_path / "rescheduler.yaml"
    succeeded("convert", "-f", "-", "-o", str(config), stdin=text)
    plan = succeeded("plan", "-f", str(cluster), "--config", str(config), "--now", NOW, "-o", "json").data
    return {each["pod"]: (each["from"], each.get("to")) for each in plan["moves"]}


def failed(name: str, created: str, *, managed: bool = True) -> dict[str, Any]:
    above = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-6d5f9c7b8", "uid": "uid-replicaset-cart"}
    metadata: dict[str, Any] = {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": created}
    metadata |= {"ownerReferences": [above | {"controller": True}]} if managed else {}
    spec = {"nodeName": "worker-1", "containers": [{"name": "main", "image": "hollow"}]}
    status = {"phase": "Failed", "reason": "Evicted"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def test_low_node_utilization_takes_pods_off_the_hot_node_alone_and_to_the_underused_one_alone(tmp_path: Path) -> None:
    args = "{thresholds: {cpu: 20, memory: 20}, targetThresholds: {cpu: 70, memory: 70}}"
    found = moved(policy(LOW, args), CLUSTER, tmp_path)
    assert {*found.values()} == {("worker-1", "worker-3")}


def test_failed_pods_go_when_they_are_an_hour_old_and_those_that_nobody_manages_stay(tmp_path: Path) -> None:
    young, old = "2027-01-01T11:50:00Z", "2027-01-01T10:00:00Z"
    pods = [failed("young", young), failed("old", old), failed("bare", old, managed=False)]
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(CLUSTER.read_text(encoding="utf-8") + "---\n" + yaml.safe_dump_all(pods), encoding="utf-8")
    assert {*moved(policy("RemoveFailedPods"), cluster, tmp_path)} == {"old"}

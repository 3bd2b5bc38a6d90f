"""`rescheduler plan -f`: what it prints in each form, what flags change, and what is shown of it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import yaml

from tests.support import dumps
from tests.support.cli import rescheduler, succeeded

NOW = ("--now", dumps.NOW)


@pytest.fixture
def hot(tmp_path: Path) -> str:
    """A file with three nodes, one of them hot, and headroom for evictions."""
    return dumps.written(tmp_path / "hot.json", dumps.hot_cluster(), dumps.pdb("web", 1))


def test_pools_and_other_resources_are_shown_and_each_node_is_hot_by_its_own_thresholds(tmp_path: Path) -> None:
    file = dumps.written(
        tmp_path / "pools.json",
        dumps.node("a", labels={"pool": "tight"}), dumps.node("b"),
        dumps.pod("p", "a", cpu="2"), dumps.pod("q", "b", cpu="2"),
    )  # fmt: skip
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: rescheduler.io/v1alpha1\nkind: ReschedulerConfiguration\nenabledStrategies: []\n"
        "thresholds: {pods: 90}\npools: [{name: tight, nodeSelector: pool=tight, cpuThreshold: 40}]\n"
    )
    arguments = ("plan", "-f", file, *NOW, "--config", str(config))
    found = succeeded(*arguments, "-o", "json").data
    assert (found["before"]["hotNodes"], found["before"]["hotNodesByPool"]) == (1, {"tight": 1})
    assert found["before"]["others"]["pods"]["max"] > 0
    lines = succeeded(*arguments).out.splitlines()
    rows = {line.split()[0]: line for line in lines if line.split() and line.split()[0] in ("a", "b")}
    assert rows["a"].endswith("yes → yes")
    assert rows["a"].split()[1] == "tight"
    assert not rows["b"].endswith("yes")
    assert any(line.startswith("hot in tight") for line in lines)


def test_yaml_says_the_same_as_json(hot: str) -> None:
    as_json = succeeded("plan", "-f", hot, *NOW, "-o", "json").data
    assert yaml.safe_load(succeeded("plan", "-f", hot, *NOW, "-o", "yaml").out) == as_json


@pytest.mark.parametrize("form", [("-ojson",), ("-o=json",), ("--output=json",)])
def test_all_of_kubectls_ways_to_write_a_flag_parse(hot: str, form: tuple[str, ...]) -> None:
    assert succeeded("plan", f"-f={hot}", *NOW, *form).data["kind"] == "Plan"


def test_names_are_arguments_for_kubectl_and_explain(hot: str) -> None:
    assert succeeded("plan", "-f", hot, *NOW, "-o", "name").out.splitlines() == [
        "pod/web-0 -n default",
        "pod/api-0 -n shop",
        "pod/lonely -n default",
    ]
    assert succeeded("plan", "-f", hot, *NOW, "-o", "name", "-n", "shop").out == "pod/api-0\n"
    for line in succeeded("plan", "-f", hot, *NOW, "-o", "name").out.splitlines():
        assert "moved to" in succeeded("explain", *line.split(), "-f", hot, *NOW).out


def test_exit_code_is_3_only_when_asked_for_and_something_is_to_move(hot: str, tmp_path: Path) -> None:
    calm = dumps.written(tmp_path / "calm.json", dumps.node("a"), dumps.pod("p", "a"))
    assert rescheduler("plan", "-f", hot, *NOW).code == 0
    assert rescheduler("plan", "-f", hot, *NOW, "--exit-code").code == 3
    assert rescheduler("plan", "-f", calm, *NOW, "--exit-code").code == 0
    assert rescheduler("plan", "-f", hot, *NOW, "--exit-code", "-n", "nowhere").code == 3


def test_a_namespace_narrows_what_is_shown_and_not_what_is_planned(hot: str) -> None:
    whole = succeeded("plan", "-f", hot, *NOW, "-o", "json")
    part = succeeded("plan", "-f", hot, *NOW, "-o", "json", "-n", "shop")
    assert part.data["moves"] == [move for move in whole.data["moves"] if move["namespace"] == "shop"]
    assert (part.data["before"], part.data["after"]) == (whole.data["before"], whole.data["after"])
    said = "-n shop shows 1 of 3 moves and 0 of 0 rejections; the plan and its effect are the whole cluster's"
    assert f"note: {said}\n" in part.said
    assert part.data["warnings"][-1] == said
    assert "note:" not in whole.said
    table = succeeded("plan", "-f", hot, *NOW, "-n", "shop").out
    assert "web-0" not in table
    assert table.splitlines()[-1].startswith("3 moves")


def test_labels_narrow_what_is_shown_too_and_all_namespaces_wins(hot: str) -> None:
    names = succeeded("plan", "-f", hot, *NOW, "-o", "name", "-l", "app in (web,api)").out.splitlines()
    assert names == ["pod/web-0 -n default", "pod/api-0 -n shop"]
    both = succeeded("plan", "-f", hot, *NOW, "-o", "name", "-A", "-n", "shop").out.splitlines()
    assert len(both) == 3
    wrong = rescheduler("plan", "-f", hot, "-l", "a in")
    assert (wrong.code, wrong.out) == (2, "")
    assert "-l: 'a in': expected '('" in wrong.said


def test_the_guards_that_hold_running_pods_back_are_counted_with_what_changes_them(hot: str, tmp_path: Path) -> None:
    daemon = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "log", "uid": "1"}}
    file = dumps.written(
        tmp_path / "held.json",
        [*dumps.hot_cluster(), dumps.pod("log-0", "a", owner=daemon), dumps.pod("pending")],
        dumps.pod("cache", "c", namespace="shop", volumes=[{"name": "data", "hostPath": {"path": "/data"}}]),
    )
    excluded = {"guard": "ExcludedNamespace", "pods": 2, "changedBy": "excludedNamespaces"}
    marks = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
    local = {"guard": "LocalStorage", "pods": 1, "changedBy": f"allow.localStorage, the pod's annotation {marks}"}
    everywhere = succeeded("plan", "-f", file, *NOW, "-o", "json").data["heldBack"]
    assert everywhere == [excluded, {"guard": "DaemonSet", "pods": 1, "changedBy": ""}, local]
    assert succeeded("plan", "-f", file, *NOW, "-o", "json", "-n", "shop").data["heldBack"] == [local]
    table = succeeded("plan", "-f", file, *NOW).out
    assert "\nHELD BACK BY        PODS   CHANGED BY\nExcludedNamespace      2   excludedNamespaces\nLocal" in table
    assert "DaemonSet" not in table  # nothing changes it
    assert "\nDaemonSet              1\n" in succeeded("plan", "-f", file, *NOW, "-o", "wide").out


def test_strategies_are_replaced_by_the_flag_and_thresholds_are_set(hot: str) -> None:
    data = succeeded("plan", "-f", hot, *NOW, "-o", "json", "--strategy", "ResourceOptimization").data
    assert {move["strategy"] for move in data["moves"]} == {"ResourceOptimization"}
    assert not succeeded("plan", "-f", hot, *NOW, "-o", "json", "--strategy", "NodeMaintenance").data["moves"]
    warm = succeeded("plan", "-f", hot, *NOW, "-ojson", "--strategy", "ResourceOptimization", "--cpu-threshold", "91")
    assert (warm.data["moves"], warm.data["before"]["hotNodes"]) == ([], 0)
    memory = succeeded("plan", "-f", hot, *NOW, "-ojson", "--cpu-threshold", "100", "--memory-threshold", "4")
    assert memory.data["before"]["hotNodes"] == 1
    wide = succeeded("plan", "-f", hot, *NOW, "-ojson", "--strategy=LoadBalancing", "--imbalance-threshold", "90").data
    assert wide["moves"] == []


def test_limits_method_and_exclusions_are_set_by_flags(hot: str) -> None:
    def plan(*flags: str) -> list[dict[str, str]]:
        moves: list[dict[str, str]] = succeeded("plan", "-f", hot, *NOW, "-ojson", *flags).data["moves"]
        return moves

    assert len(plan("--max-reschedule-pods", "1")) == 1
    assert plan("--max-reschedule-pods", "0") == []
    assert len(plan("--max-reschedule-pods=unlimited")) == 3
    assert {move["method"] for move in plan("--migration-method", "evict") if move["pod"] != "lonely"} == {"evict"}
    assert all(move["namespace"] != "default" for move in plan("--excluded-namespace", "default"))
    assert plan("--excluded-namespace", "default", "--excluded-namespace", "shop", "--cpu-threshold=80")[:1] != []


def test_a_configuration_file_counts_and_flags_are_over_it(hot: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: rescheduler.io/v1alpha1\nkind: ReschedulerConfiguration\n"
        "enabledStrategies: [ResourceOptimization]\ncpuThreshold: 85\nmaxReschedulePods: 5\n"
    )
    from_file = succeeded("plan", "-f", hot, *NOW, "-ojson", "--config", str(config)).data
    assert {move["strategy"] for move in from_file["moves"]} == {"ResourceOptimization"}
    assert "(threshold 85%)" in from_file["moves"][0]["reason"]
    over = succeeded("plan", "-f", hot, *NOW, "-ojson", "--config", str(config), "--cpu-threshold", "70").data
    assert "(threshold 70%)" in over["moves"][0]["reason"]
    piped = succeeded("plan", "-f", hot, *NOW, "-ojson", "--config", "-", stdin=config.read_text()).data
    assert piped == from_file


def test_ages_are_reckoned_from_now_or_from_the_recordings_own_time(hot: str, tmp_path: Path) -> None:
    young = succeeded("plan", "-f", hot, "-ojson", "--now", "2020-01-15T07:00:30Z").data
    assert (young["moves"], "MinPodAge" in {rejection["guard"] for rejection in young["rejections"]}) == ([], True)
    undated = succeeded("plan", "-f", hot, "-ojson")
    assert "the input does not say when it was taken" in undated.said
    recording = dumps.dump(dumps.hot_cluster())
    recording["metadata"] = {"rescheduler.io/taken-at": "2020-01-15T07:00:30Z"}
    dated = tmp_path / "dated.json"
    dated.write_text(json.dumps(recording))
    ran = succeeded("plan", "-f", str(dated), "-ojson")
    assert ran.data["rejections"] == young["rejections"]
    assert "does not say when" not in ran.said
    assert succeeded("plan", "-f", str(dated), "-ojson", *NOW).data["moves"]


def test_the_same_plan_comes_from_stdin_gzip_yaml_and_several_files(hot: str, tmp_path: Path) -> None:
    expected = succeeded("plan", "-f", hot, *NOW, "-ojson").out
    text = Path(hot).read_bytes()
    assert succeeded("plan", "-f", "-", *NOW, "-ojson", stdin=text).out == expected
    (tmp_path / "hot.json.gz").write_bytes(gzip.compress(text))
    assert succeeded("plan", "-f", str(tmp_path / "hot.json.gz"), *NOW, "-ojson").out == expected
    items = json.loads(text)["items"]
    (tmp_path / "hot.yaml").write_text(yaml.safe_dump_all(items))
    assert succeeded("plan", "-f", str(tmp_path / "hot.yaml"), *NOW, "-ojson").out == expected
    parts = [dumps.written(tmp_path / f"{n}.json", items[n::3]) for n in range(3)]
    flags = [flag for part in reversed(parts) for flag in ("-f", part)]
    assert succeeded("plan", *flags, *NOW, "-ojson").out == expected


def test_verbose_says_what_was_read_and_planned(hot: str) -> None:
    quiet, talkative = (succeeded("plan", "-f", hot, *NOW, *flags) for flags in ((), ("-v",)))
    assert "read 3 nodes and 8 pods in" in talkative.said
    assert "planned with LoadBalancing, ResourceOptimization in" in talkative.said
    assert "read 3 nodes" not in quiet.said
    assert quiet.out == talkative.out
    assert "read 3 nodes" in succeeded("-v", "plan", "-f", hot, *NOW).said


def test_many_warnings_are_cut_unless_more_is_wanted(tmp_path: Path) -> None:
    broken = [dumps.pod(f"p-{n:02}", "a", "-1") for n in range(30)]
    file = dumps.written(tmp_path / "broken.json", dumps.node("a"), broken)
    quiet, talkative = (succeeded("plan", "-f", file, *NOW, *flags) for flags in ((), ("-v",)))
    assert len([line for line in quiet.said.splitlines() if line.startswith("warning:")]) == 11
    assert "more (-v shows all)" in quiet.said
    assert len([line for line in talkative.said.splitlines() if line.startswith("warning:")]) > 30


def test_a_maintenance_label_that_no_strategy_heeds_is_pointed_out(tmp_path: Path) -> None:
    labels = {"scheduler.alpha.kubernetes.io/maintenance": "true"}
    file = dumps.written(tmp_path / "c.json", dumps.node("a", labels=labels), dumps.node("b"))
    assert (
        "under maintenance, but NodeMaintenance is not among enabledStrategies: a" in succeeded("plan", "-f", file).said
    )
    assert "enabledStrategies" not in succeeded("plan", "-f", file, "--strategy", "NodeMaintenance").said


def test_a_strategy_that_can_do_nothing_is_pointed_out(tmp_path: Path) -> None:
    file = dumps.written(tmp_path / "c.json", dumps.node("a"), dumps.node("b"))
    said = succeeded("plan", "-f", file, "--strategy", "Topology", "--strategy", "PodLifeTime").said
    assert "Topology moves nothing: it has no groupLabel (strategies.Topology.groupLabel)" in said
    assert "PodLifeTime moves nothing: the input does not say when it was taken" in said
    config = tmp_path / "c.yaml"
    header = "apiVersion: rescheduler.io/v1alpha1\nkind: ReschedulerConfiguration\n"
    pool = "pools: [{name: x, nodeSelector: p=x, strategies: {Topology: {groupLabel: job}}}]"
    config.write_text(f"{header}enabledStrategies: [Topology, PodLifeTime]\n{pool}\n", encoding="utf-8")
    assert "moves nothing" not in succeeded("plan", "-f", file, "--config", str(config), *NOW).said

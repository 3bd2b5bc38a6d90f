"""Copies: what they take over from a template or a pod, what they leave, and what they are called."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from rescheduler.migration.steps.copy import CopyPod, replacement_name
from rescheduler.migration.steps.handoff import CopyTemplate, choose_withheld_labels
from rescheduler.model import labels
from rescheduler.model.plan import Method
from tests.unit.migration.scenes import NOW, budget, migration, pod, replica_set, scene

SERVICE = {"kind": "Service", "spec": {"selector": {"app": "web"}}}


def test_the_template_hash_is_withheld_where_there_is_one() -> None:
    assert choose_withheld_labels(scene(migration())) == {"pod-template-hash": "1"}
    by_hash = {"kind": "Service", "spec": {"selector": {"pod-template-hash": "1"}}}
    assert choose_withheld_labels(scene(migration(), services=(by_hash,))) == {"app": "web"}


def test_without_a_template_hash_a_label_is_withheld_that_nobody_else_goes_by() -> None:
    owner = replica_set()
    pod_labels = {"app": "web", "tier": "front"}
    owner["spec"] |= {"selector": {"matchLabels": pod_labels}}
    owner["spec"]["template"]["metadata"]["labels"] = pod_labels
    assert choose_withheld_labels(scene(migration(), controller=owner, services=(SERVICE,))) == {"tier": "front"}
    by_tier = budget()
    by_tier["spec"]["selector"] = {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}
    assert choose_withheld_labels(scene(migration(), controller=owner, services=(SERVICE,), budgets=(by_tier,))) is None


def test_a_copy_from_the_template_waits_behind_its_gate_without_the_withheld_label() -> None:
    owner = replica_set()
    owner["spec"]["template"]["metadata"]["annotations"] = {"team": "a"}
    original = pod(generateName="web-1-")
    made = CopyTemplate().body(scene(migration(), controller=owner, pod=original), original)
    assert made["metadata"]["generateName"] == "web-1-"  # service meshes go by it
    pod_labels, notes = made["metadata"]["labels"], made["metadata"]["annotations"]
    assert (pod_labels["app"], pod_labels[labels.MIGRATION_ID], pod_labels[labels.MIGRATED_FROM]) == (
        "web",
        "m",
        "one",
    )
    assert "pod-template-hash" not in pod_labels
    assert json.loads(notes[labels.WITHHELD]) == {"pod-template-hash": "1"}
    assert (notes["team"], notes[labels.ORIGINAL_POD], notes[labels.ORIGINAL_POD_NAME]) == ("a", "web-a-uid", "web-a")
    assert made["spec"]["schedulingGates"] == [{"name": labels.GATE}]
    assert [each["uid"] for each in made["metadata"]["ownerReferences"]] == ["m-uid"]
    assert "schedulingGates" not in owner["spec"]["template"]["spec"]


def test_a_copy_of_a_bare_pod_leaves_what_its_node_and_admission_gave_it() -> None:
    original = pod(owner=False)
    token = {"name": "kube-api-access-x"}
    data = {"name": "data"}
    original["spec"] |= {"priority": 5, "preemptionPolicy": "Never", "volumes": [token, data], "hostNetwork": True}
    original["spec"]["containers"][0]["volumeMounts"] = [token, data]
    original["metadata"]["labels"] = {
        "app": "bare",
        "topology.kubernetes.io/zone": "a",
        "topology.kubernetes.io/region": "r",
        labels.MIGRATION_ID: "earlier",
        labels.RESCHEDULING: "enabled",
    }
    original["metadata"]["annotations"] = {
        labels.MIGRATION_METHOD: "auto",
        labels.ORIGINAL_POD_NAME: "earlier",
        "rescheduler.io/marks-before": "{}",
    }
    made = CopyPod().body(scene(migration(Method.COPY), pod=original), original)
    spec, metadata = made["spec"], made["metadata"]
    assert not {"nodeName", "priority", "preemptionPolicy"} & set(spec)
    assert (spec["volumes"], spec["containers"][0]["volumeMounts"], spec["hostNetwork"]) == ([data], [data], True)
    kept = {key for key in metadata["labels"] if not key.startswith(labels.PREFIX + "migrat")}
    assert kept == {"app", labels.RESCHEDULING}
    assert metadata["labels"][labels.MIGRATION_ID] == "m"
    assert metadata["annotations"][labels.MIGRATION_METHOD] == "auto"
    assert metadata["annotations"][labels.ORIGINAL_POD_NAME] == "web-a"
    assert "rescheduler.io/marks-before" not in metadata["annotations"]


def test_a_bare_pod_that_is_moved_takes_along_where_it_failed() -> None:
    original = pod(owner=False)
    original["metadata"]["annotations"] = {labels.FAILURES: '{"count":1}', labels.COST_BEFORE: "3"}
    notes = CopyPod().body(scene(migration(Method.COPY), pod=original), original)["metadata"]["annotations"]
    assert notes[labels.FAILURES] == '{"count":1}'
    assert labels.COST_BEFORE not in notes


def test_a_replacement_is_called_after_its_pod_and_the_time() -> None:
    assert replacement_name("web-a", NOW) == "rescheduled-web-a-1800000000"


def test_a_pod_that_was_moved_before_is_called_by_its_first_name_and_never_by_the_same_twice() -> None:
    again = replacement_name("rescheduled-web-a-1800000000", NOW)
    assert again == "rescheduled-web-a-1800000001"


@given(st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?", fullmatch=True))
def test_names_fit_and_are_names(name: str) -> None:
    made = replacement_name(name, NOW)
    assert len(made) <= 63
    assert made[-1].isdigit()
    assert "--18" not in made


def test_long_names_that_differ_at_their_end_stay_different() -> None:
    start = "a-deployment-with-a-really-long-name-that-goes-on-and-on-5d8f7c"
    assert replacement_name(start + "-aaaaa", NOW) != replacement_name(start + "-bbbbb", NOW)

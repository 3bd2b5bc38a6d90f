"""Stock kubectl at work: what people type must do the same on both clusters, and print the same columns.

kubectl is one of the programs that the real cluster is built of, and the fast tests must not need a build. So both
variants are marked `cluster` and run with the tests of the real cluster.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import (
    UNSCHEDULABLE,
    ClusterUnderTest,
    Space,
    is_discovered,
    is_tainted,
    name_of,
    names,
)
from tests.support.custom_kinds import widgets
from tests.support.manifests import (
    budget,
    daemon_set,
    deployment,
    gated,
    lease,
    on,
    pod,
    replica_set,
    simulated,
    stateful_set,
)
from tests.support.measured_clusters import measured
from tests.testbed.cluster import ControlPlane
from tests.testbed.processes import until

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def programs(control_plane: ControlPlane) -> None:
    """kubectl is built with the rest; where that can't be had, this skips or fails by the same rules."""


@pytest.fixture
def web(space: Space, nodes: list[str]) -> Space:
    """A Deployment of two that is rolled out."""
    space.create(deployment("web", 2))
    space.rolled_out("web")
    return space


@pytest.fixture
def own_node(cluster: ClusterUnderTest) -> Iterator[str]:
    """A node of this test's own, to be drained and cordoned."""
    (name,) = cluster.add_nodes(1, prefix="drained")
    yield name
    cluster.remove_nodes([name])


def kubectl(space: Space, *args: str, stdin: Json | None = None) -> str:
    """In the test's namespace."""
    return space.cluster.kubectl("-n", space.name, *args, stdin=json.dumps(stdin) if stdin else None)


def table(printed: str) -> list[dict[str, str]]:
    """Rows by column, as `kubectl get` lays them out: columns begin where their headings do."""
    heading, *lines = printed.splitlines()
    starts = [found.start() for found in re.finditer(r"(?:^|(?<=\s\s))\S", heading)]
    cuts = [slice(start, end) for start, end in zip(starts, [*starts[1:], None], strict=True)]
    keys = [heading[cut].strip() for cut in cuts]
    return [dict(zip(keys, (line[cut].strip() for cut in cuts), strict=True)) for line in lines if line]


def told(space: Space, name: str, reason: str) -> None:
    """Events come a moment after what they tell of."""
    selector = f"involvedObject.name={name},reason={reason}"
    until(f"{reason} is told", lambda: space.list("Event", fieldSelector=selector))


def section(described: str, title: str) -> str:
    """One line of `kubectl describe`, without its title."""
    found = re.search(rf"^\s*{re.escape(title)}:\s*(.*)$", described, re.MULTILINE)
    assert found, f"no {title} in\n{described}"
    return found[1].strip()


def test_get_pods_shows_how_they_are(web: Space) -> None:
    rows = table(kubectl(web, "get", "pods"))
    assert sorted(row["NAME"] for row in rows) == names(web.pods("web"))
    for row in rows:
        assert list(row) == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
        assert (row["READY"], row["STATUS"], row["RESTARTS"]) == ("1/1", "Running", "0")
        assert re.fullmatch(r"\d+[smh]", row["AGE"])


def test_get_pods_wide_shows_where_they_are(web: Space) -> None:
    for row in table(kubectl(web, "get", "pods", "-o", "wide")):
        found = web.get("Pod", row["NAME"])
        assert list(row)[5:] == ["IP", "NODE", "NOMINATED NODE", "READINESS GATES"]
        assert (row["IP"], row["NODE"]) == (found["status"]["podIP"], found["spec"]["nodeName"])
        assert (row["NOMINATED NODE"], row["READINESS GATES"]) == ("<none>", "<none>")


def test_get_shows_the_columns_of_each_kind(web: Space, nodes: list[str]) -> None:
    web.create(stateful_set("db", 1))
    web.create(daemon_set("agent"))
    web.create(budget("web", "web", minAvailable=1))
    web.create(lease("leader", holderIdentity="me"))
    web.ready("db-0")
    web.reaches("StatefulSet", "db", "is up", lambda found: found["status"].get("readyReplicas") == 1)
    web.reaches("DaemonSet", "agent", "is up", is_up)
    web.reaches("PodDisruptionBudget", "web", "is up", lambda found: found.get("status", {}).get("currentHealthy") == 2)
    shown: list[tuple[str, dict[str, str]]] = [
        ("deployments", {"NAME": "web", "READY": "2/2", "UP-TO-DATE": "2", "AVAILABLE": "2"}),
        ("replicasets", {"DESIRED": "2", "CURRENT": "2", "READY": "2"}),
        ("statefulsets", {"NAME": "db", "READY": "1/1"}),
        ("daemonsets", {"DESIRED": "4", "CURRENT": "4", "READY": "4", "UP-TO-DATE": "4", "NODE SELECTOR": "<none>"}),
        ("poddisruptionbudgets", {"MIN AVAILABLE": "1", "MAX UNAVAILABLE": "N/A", "ALLOWED DISRUPTIONS": "1"}),
        ("leases", {"NAME": "leader", "HOLDER": "me"}),
        (f"nodes/{nodes[0]}", {"STATUS": "Ready", "ROLES": "<none>"}),
        (f"namespaces/{web.name}", {"STATUS": "Active"}),
    ]
    for kind, columns in shown:
        (row,) = table(kubectl(web, "get", kind))
        assert row | columns == row, kind
        assert "AGE" in row, kind


def is_up(daemons: Json) -> bool:
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    return {daemons["status"].get(each) for each in (*counts, "numberAvailable")} == {4}


def test_get_takes_selectors_and_prints_json_yaml_and_names(web: Space) -> None:
    assert kubectl(web, "get", "pods", "-l", "app=other", "-o", "name") == ""
    listed = kubectl(web, "get", "pods", "-l", "app=web", "--field-selector=status.phase=Running", "-o", "name").split()
    assert sorted(listed) == [f"pod/{name}" for name in names(web.pods("web"))]
    found = json.loads(kubectl(web, "get", "deployment/web", "-o", "json"))
    assert found["spec"] == web.get("Deployment", "web")["spec"]
    assert kubectl(web, "get", "deploy", "web", "-o", "jsonpath={.status.readyReplicas}") == "2"
    assert "kind: Deployment" in kubectl(web, "get", "deploy", "web", "-o", "yaml")
    assert "web" in kubectl(web, "get", "deploy,rs,po", "--show-labels")


def test_get_shows_a_gated_and_an_unschedulable_pod(space: Space, nodes: list[str]) -> None:
    space.create(pod("gated", schedulingGates=[{"name": "contract.test/wait"}]))
    space.create(pod("misfit", nodeSelector={"no": "where"}))
    space.refused("misfit")
    space.reaches("Pod", "gated", "says so", lambda found: found["status"].get("conditions"))
    statuses = {row["NAME"]: row["STATUS"] for row in table(kubectl(space, "get", "pods"))}
    assert statuses == {"gated": "SchedulingGated", "misfit": "Pending"}


def test_get_shows_a_pod_that_ends(space: Space, nodes: list[str]) -> None:
    space.runs(simulated(pod("ending", terminationGracePeriodSeconds=600), ends_in="600"))
    kubectl(space, "delete", "pod", "ending", "--wait=false")
    (row,) = table(kubectl(space, "get", "pods"))
    assert (row["READY"], row["STATUS"]) == ("1/1", "Terminating")


def test_get_prints_what_is_not_there_as_an_error(space: Space) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        kubectl(space, "get", "pod", "nobody")
    assert 'Error from server (NotFound): pods "nobody" not found' in failed.value.stderr
    with pytest.raises(subprocess.CalledProcessError) as failed:
        kubectl(space, "get", "doohickeys")
    assert 'the server doesn\'t have a resource type "doohickeys"' in failed.value.stderr


def test_get_watches_until_its_time_is_over(space: Space) -> None:
    space.create(lease("first", holderIdentity="a"))
    printed = kubectl(space, "get", "leases", "--watch", "--output-watch-events", "--request-timeout=3s")
    (row,) = table(printed)
    assert (row["EVENT"], row["NAME"], row["HOLDER"]) == ("ADDED", "first", "a")


def test_top_shows_what_pods_and_nodes_use(space: Space) -> None:
    with measured(space.cluster) as shape:
        (node,) = space.cluster.add_nodes(1, shape, prefix="measured")
        try:
            using = {"metadata": {"annotations": {"simulate.rescheduler.io/cpu-usage": "250m"}}}
            space.runs(pod("busy", nodeSelector=on(node)))
            space.patch("Pod", "busy", using)
            until("it is measured", lambda: top(space, "pod", "busy") == "250m")
            assert top(space, "node", node).endswith("m")
        finally:
            space.cluster.remove_nodes([node])


def top(space: Space, kind: str, name: str) -> str:
    """The CPU that `kubectl top` shows; empty while nothing is measured."""
    try:
        (row,) = table(kubectl(space, "top", kind, name))
    except subprocess.CalledProcessError:
        return ""
    return row["CPU(cores)"]


def test_describe_pod_tells_where_it_runs_and_what_happened(space: Space, nodes: list[str]) -> None:
    found = space.runs(pod("web"))
    told(space, "web", "Scheduled")
    said = kubectl(space, "describe", "pod", "web")
    assert section(said, "Node").startswith(found["spec"]["nodeName"] + "/")
    assert section(said, "Status") == "Running"
    assert section(said, "IP") == found["status"]["podIP"]
    assert section(said, "Image") == "hollow:1"
    assert section(said, "QoS Class") == "Burstable"
    assert re.search(r"Ready\s+True", said)
    assert re.search(r"Normal\s+Scheduled\s+\S+\s+default-scheduler\s+Successfully assigned", said)


def test_describe_node_sums_up_its_pods(space: Space, own_node: str) -> None:
    space.runs(pod("web", cpu="1", nodeSelector=on(own_node)))
    said = kubectl(space, "describe", "node", own_node)
    assert section(said, "Taints") == "<none>"
    assert section(said, "Unschedulable") == "false"
    assert re.search(r"Ready\s+True\s+.*KubeletReady", said)
    assert re.search(rf"{space.name}\s+web\s+1 \(25%\)", said)
    assert re.search(r"cpu\s+1 \(25%\)", said)


def test_describe_deployment_shows_its_replica_set_and_events(web: Space) -> None:
    told(web, "web", "ScalingReplicaSet")
    said = kubectl(web, "describe", "deployment", "web")
    assert section(said, "Replicas") == "2 desired | 2 updated | 2 total | 2 available | 0 unavailable"
    assert section(said, "NewReplicaSet") == f"{name_of(web.replica_set('web'))} (2/2 replicas created)"
    assert section(said, "StrategyType") == "RollingUpdate"
    assert re.search(r"Available\s+True\s+MinimumReplicasAvailable", said)
    assert re.search(r"Normal\s+ScalingReplicaSet\s+\S+\s+deployment-controller\s+Scaled up replica set", said)


def test_describe_works_for_the_other_kinds(web: Space) -> None:
    web.create(budget("web", "web", minAvailable=1))
    web.reaches("PodDisruptionBudget", "web", "is up", lambda found: found.get("status", {}).get("currentHealthy") == 2)
    assert section(kubectl(web, "describe", "pdb", "web"), "Allowed disruptions") == "1"
    said = kubectl(web, "describe", "replicaset", name_of(web.replica_set("web")))
    assert section(said, "Controlled By") == "Deployment/web"
    assert section(kubectl(web, "describe", "namespace", web.name), "Status") == "Active"


def test_delete_waits_until_it_is_gone(web: Space) -> None:
    (first, *_) = names(web.pods("web"))
    assert "deleted" in kubectl(web, "delete", "pod", first)
    assert web.find("Pod", first) is None
    web.exactly("web", 2, "Running")
    for later in (replica_set("later", 0), gated("later")):
        web.dependents_known(later)
    kubectl(web, "delete", "deployment", "web", "--cascade=foreground")
    assert web.find("Deployment", "web") is None
    assert web.list("Pod") == []


def test_label_and_annotate_put_marks_on_and_take_them_off(web: Space) -> None:
    kubectl(web, "label", "deployment/web", "team=a", "color=red")
    kubectl(web, "annotate", "deployment/web", "scheduling-retries=3")
    metadata = web.get("Deployment", "web")["metadata"]
    assert (metadata["labels"]["team"], metadata["annotations"]["scheduling-retries"]) == ("a", "3")
    with pytest.raises(subprocess.CalledProcessError):
        kubectl(web, "label", "deployment/web", "team=b")
    kubectl(web, "label", "deployment/web", "team=b", "--overwrite")
    kubectl(web, "label", "deployment/web", "color-")
    labels = web.get("Deployment", "web")["metadata"]["labels"]
    assert (labels["team"], "color" in labels) == ("b", False)


def test_label_marks_a_node_for_maintenance(space: Space, own_node: str) -> None:
    kubectl(space, "label", "node", own_node, "scheduler.alpha.kubernetes.io/maintenance=true")
    labelled = kubectl(space, "get", "nodes", "-l", "scheduler.alpha.kubernetes.io/maintenance=true", "-o", "name")
    assert labelled.split() == [f"node/{own_node}"]


def test_cordon_closes_a_node_and_uncordon_opens_it(space: Space, own_node: str) -> None:
    assert kubectl(space, "cordon", own_node) == f"node/{own_node} cordoned\n"
    (row,) = table(kubectl(space, "get", "node", own_node))
    assert row["STATUS"] == "Ready,SchedulingDisabled"
    assert kubectl(space, "cordon", own_node) == f"node/{own_node} already cordoned\n"
    assert kubectl(space, "uncordon", own_node) == f"node/{own_node} uncordoned\n"


def test_drain_evicts_all_but_daemons(space: Space, nodes: list[str], own_node: str) -> None:
    space.create(daemon_set("agent"))
    space.runs(pod("bare", nodeSelector=on(own_node)))
    space.reaches("DaemonSet", "agent", "is everywhere", lambda found: found["status"].get("numberReady") == 5)
    with pytest.raises(subprocess.CalledProcessError) as refused:
        kubectl(space, "drain", own_node, "--timeout=60s")
    assert "cannot delete" in refused.value.stderr
    said = kubectl(space, "drain", own_node, "--ignore-daemonsets", "--force", "--timeout=60s")
    assert f"evicting pod {space.name}/bare" in said
    assert f"node/{own_node} drained" in said
    assert space.find("Pod", "bare") is None
    until("it is tainted", lambda: is_tainted(space.api.get(f"/api/v1/nodes/{own_node}"), UNSCHEDULABLE))
    left = space.list("Pod", fieldSelector=f"spec.nodeName={own_node}")
    assert [found["metadata"]["labels"]["app"] for found in left] == ["agent"]


def test_drain_waits_for_a_budget(web: Space) -> None:
    web.create(budget("web", "web", minAvailable=2))
    web.reaches(
        "PodDisruptionBudget", "web", "is full", lambda found: found.get("status", {}).get("currentHealthy") == 2
    )
    where = web.pods("web")[0]["spec"]["nodeName"]
    with web.cordoned(where), pytest.raises(subprocess.CalledProcessError) as refused:
        kubectl(web, "drain", where, "--pod-selector=app=web", "--timeout=10s")
    assert "would violate the pod's disruption budget" in refused.value.stderr


def test_scale_and_rollout_do_as_they_are_told(web: Space) -> None:
    kubectl(web, "scale", "deployment/web", "--replicas=3")
    assert "successfully rolled out" in kubectl(web, "rollout", "status", "deployment/web", "--timeout=60s")
    assert len(web.pods("web")) == 3
    kubectl(web, "rollout", "pause", "deployment/web")
    assert web.get("Deployment", "web")["spec"]["paused"]
    kubectl(web, "rollout", "resume", "deployment/web")
    kubectl(web, "rollout", "restart", "deployment/web")
    kubectl(web, "rollout", "status", "deployment/web", "--timeout=60s")
    history = kubectl(web, "rollout", "history", "deployment/web")
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2"]
    kubectl(web, "rollout", "undo", "deployment/web")
    kubectl(web, "rollout", "status", "deployment/web", "--timeout=60s")
    assert web.get("Deployment", "web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"


def test_apply_creates_configures_and_leaves_unchanged(space: Space, nodes: list[str]) -> None:
    made = deployment("web", 1)
    assert kubectl(space, "apply", "-f", "-", stdin=made) == "deployment.apps/web created\n"
    assert kubectl(space, "apply", "-f", "-", stdin=made) == "deployment.apps/web unchanged\n"
    made["spec"]["minReadySeconds"] = 1
    assert kubectl(space, "apply", "-f", "-", stdin=made) == "deployment.apps/web configured\n"
    del made["spec"]["minReadySeconds"]
    kubectl(space, "apply", "-f", "-", stdin=made)
    assert "minReadySeconds" not in space.get("Deployment", "web")["spec"]
    applied = kubectl(space, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=made)
    assert applied == "deployment.apps/web serverside-applied\n"


def test_wait_ends_with_the_condition_or_the_time(space: Space, nodes: list[str]) -> None:
    space.create(deployment("web", 1))
    assert "condition met" in kubectl(space, "wait", "deployment/web", "--for=condition=Available", "--timeout=60s")
    (first,) = names(space.pods("web"))
    kubectl(space, "wait", f"pod/{first}", "--for=jsonpath={.status.phase}=Running", "--timeout=60s")
    kubectl(space, "delete", "deployment", "web", "--wait=false")
    kubectl(space, "wait", f"pod/{first}", "--for=delete", "--timeout=60s")
    with pytest.raises(subprocess.CalledProcessError):
        kubectl(space, "wait", "pod", "--all", "--for=condition=Ready", "--timeout=1s")


def test_events_tell_the_story(web: Space) -> None:
    told(web, "web", "ScalingReplicaSet")
    said = table(kubectl(web, "events", "--for=deployment/web"))
    assert [(row["TYPE"], row["REASON"], row["OBJECT"]) for row in said] == [
        ("Normal", "ScalingReplicaSet", "Deployment/web")
    ]
    rows = table(kubectl(web, "get", "events"))
    assert {"LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"} == set(rows[0])


def test_custom_kinds_are_at_hand(space: Space) -> None:
    with widgets(space.cluster) as kind:
        until("it is discovered", lambda: is_discovered(space.cluster, kind.group))
        body = kind.widget("first", size="large")
        assert kubectl(space, "apply", "-f", "-", stdin=body) == f"widget.{kind.group}/first created\n"
        (row,) = table(kubectl(space, "get", f"widgets.{kind.group}"))
        assert list(row) == ["NAME", "SIZE", "PHASE", "AGE"]
        assert (row["NAME"], row["SIZE"]) == ("first", "large")
        wide = table(kubectl(space, "get", f"widgets.{kind.group}", "-o", "wide"))
        assert wide[0]["COUNT"] == "1"
        kubectl(space, "delete", f"widgets.{kind.group}", "first")


def test_version_and_readiness_can_be_asked(space: Space) -> None:
    said = json.loads(kubectl(space, "version", "-o", "json"))
    assert said["serverVersion"]["gitVersion"].startswith("v1.")
    assert kubectl(space, "get", "--raw", "/readyz") == "ok"
    assert kubectl(space, "auth", "can-i", "create", "pods/eviction") == "yes\n"
    kinds = kubectl(space, "api-resources", "--api-group=apps", "-o", "name").split()
    assert {"deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps"} <= set(kinds)

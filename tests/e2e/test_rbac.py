"""Scenario: the controller as a service account with exactly the rights of deploy/rbac.yaml does all of its work.

The API server's audit log is the judge: nothing that it asked for was refused, and there is nothing among its rights
that it never used.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import yaml

from rescheduler.model.json import Json
from tests.support.audit_log import Right, entries
from tests.support.both_clusters import ClusterUnderTest, Space, is_ready, name_of, names
from tests.support.controller_process import Controller, write_config
from tests.support.failure_records import record, retried
from tests.support.manifests import budget, daemon_set, deployment, job, on
from tests.support.measured_clusters import measured
from tests.support.migrations import MIGRATIONS
from tests.support.misbehaviour import Misbehaviour
from tests.support.pod_record import Lowest, recorded
from tests.support.recovering import QUICK, is_in_force
from tests.support.skewed_cluster import SMALL, SkewedCluster, active, migrations, skewed_cluster
from tests.testbed.cluster import ControlPlane
from tests.testbed.processes import free_port, until

pytestmark = [pytest.mark.cluster, pytest.mark.parametrize("any_cluster", ["real"], indirect=True)]

MANIFEST = Path(__file__).parents[2] / "deploy" / "rbac.yaml"
HOME = "kube-rescheduler"
ACCOUNT = f"system:serviceaccount:{HOME}:rescheduler"
REGISTERED = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kube-rescheduler"
MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"
STRATEGIES = ["LoadBalancing", "NodeMaintenance", "ResourceOptimization"]
APPLIED = {
    Right("apiextensions.k8s.io", "customresourcedefinitions", "create"),
}
"""Needed, and not to be seen: applying what is not there yet is recorded as a patch."""


@pytest.fixture
def kubeconfig(cluster: ClusterUnderTest, tmp_path: Path) -> Iterator[Path]:
    """Of a service account that has what deploy/rbac.yaml gives it."""
    api = cluster.api
    api.post("/api/v1/namespaces", {"metadata": {"name": HOME}})
    cluster.kubectl("apply", "-f", str(MANIFEST))
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    granted = api.post(f"/api/v1/namespaces/{HOME}/serviceaccounts/rescheduler/token", asked)
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    content["users"][0]["user"] = {"token": granted["status"]["token"]}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    yield path
    cluster.kubectl("delete", "-f", str(MANIFEST))
    api.delete(f"/api/v1/namespaces/{HOME}")
    until(f"{HOME} is gone", lambda: HOME not in names(api.get("/api/v1/namespaces")["items"]))


@pytest.fixture
def skewed(space: Space) -> Iterator[SkewedCluster]:
    with skewed_cluster(space, SMALL) as made:
        yield made


def is_replaced_by_a_watch(right: Right, used: set[Right]) -> bool:
    """The right to list what this API server's watches bring along: an older one cannot do that."""
    return right.verb == "list" and Right(right.group, right.resource, "watch") in used


def rights() -> set[Right]:
    """All that the roles of the manifest grant."""
    roles = [each for each in yaml.safe_load_all(MANIFEST.read_text()) if "rules" in each]
    return {
        Right(group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def order(space: Space, name: str, pod: str, **spec: object) -> None:
    """A migration made by hand."""
    body = {
        "apiVersion": "rescheduler.io/v1alpha1",
        "kind": "PodMigration",
        "metadata": {"name": name},
        "spec": {"pod": {"name": pod}, **spec},
    }
    space.api.post(MIGRATIONS.format(space.name), body)


def outcome(space: Space, name: str, controller: Controller) -> tuple[str, str]:
    """Phase and method of a migration, when it is over."""

    def over() -> tuple[str, str] | None:
        (found,) = (each for each in migrations(space) if name_of(each) == name)
        status = found.get("status", {})
        return (status["phase"], status.get("method", "")) if status.get("completionTime") else None

    return until(f"migration {name} is over", over, [controller])


def label(space: Space, node: str, value: str | None) -> None:
    space.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {MAINTENANCE: value}}})


def is_emptied(space: Space, node: str) -> bool:
    """But for the DaemonSet's pod; and all pods are Ready."""
    found = space.list("Pod")
    left = {each["metadata"]["labels"]["app"] for each in found if each["spec"].get("nodeName") == node}
    return left == {"agent"} and all(is_ready(each) for each in found)


def only(space: Space, app: str) -> str:
    """The name of an app's only pod, when it is Ready."""
    (found,) = space.exactly(app, 1, "Running")
    return name_of(space.ready(name_of(found)))


class Work:
    """What the controller is given to do, and how it is seen that it did."""

    def __init__(self, skewed: SkewedCluster, controller: Controller) -> None:
        self.skewed, self.space, self.controller = skewed, skewed.space, controller

    def hands_off_the_only_replica(self) -> None:
        self.space.create(budget("one", "one", minAvailable=1))
        self.space.create(deployment("one", 1))
        self.space.rolled_out("one")
        with recorded(self.space) as kept:
            order(self.space, "one", only(self.space, "one"))
            assert outcome(self.space, "one", self.controller) == ("Completed", "handoff")
        assert kept.lowest()["one"] == Lowest(1)

    def evicts_and_steers(self) -> None:
        """A pod of a Deployment that has no budget, and wants no old and new pods side by side."""
        self.space.create(deployment("steered", 3, strategy={"type": "Recreate"}))
        self.space.rolled_out("steered")
        order(self.space, "steered", name_of(self.space.pods("steered")[0]))
        assert outcome(self.space, "steered", self.controller) == ("Completed", "evict")
        (migration,) = (each for each in migrations(self.space) if name_of(each) == "steered")
        rebuilt = self.space.get("Pod", migration["status"]["replacement"]["name"])
        assert rebuilt["spec"]["nodeName"] == migration["status"]["target"]

    def moves_a_job(self) -> None:
        body = job("work")
        body["spec"]["template"]["metadata"]["annotations"] = {"simulate.rescheduler.io/completes-in": "600"}
        self.space.create(body)
        order(self.space, "work", only(self.space, "work"))
        assert outcome(self.space, "work", self.controller) == ("Completed", "evict")

    def rolls_back(self) -> None:
        """A copy that never gets Ready."""
        late = self.skewed.nodes[-1]
        body = deployment("unlucky", 1)
        ways = {"simulate.rescheduler.io/fails": "NeverReady", "simulate.rescheduler.io/fails-on": late}
        body["spec"]["template"]["metadata"]["annotations"] = ways
        with self.space.cordoned(late):
            self.space.create(body)
            self.space.rolled_out("unlucky")
        order(self.space, "unlucky", only(self.space, "unlucky"), target=late, method="handoff", timeout="3s")
        assert outcome(self.space, "unlucky", self.controller)[0] == "Failed"
        self.space.exactly("unlucky", 1, "Running")

    def recovers(self) -> None:
        """Failed pods of a DaemonSet, which are restarted, and of a CronJob."""
        bad, crashes = self.skewed.nodes[-1], Misbehaviour("CrashLoopBackOff", restarts_every=0.2)
        self.space.create(crashes.of(retried(daemon_set("watcher"), "1")))
        run = job("nightly", backoffLimit=1000)
        run["spec"]["template"]["spec"] |= {"restartPolicy": "OnFailure", "nodeSelector": on(bad)}
        template = {"spec": crashes.of(run)["spec"]}
        body = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}}
        self.space.create(retried(body | {"spec": {"schedule": "0 3 1 1 *", "jobTemplate": template}}, "1"))
        self.space.cluster.kubectl("-n", self.space.name, "create", "job", "by-hand", "--from=cronjob/nightly")
        for kind, name in (("DaemonSet", "watcher"), ("CronJob", "nightly")):
            until(f"{kind} {name} has a record", lambda: record(self.space, kind, name), [self.controller])  # noqa: B023
        for kind, name in (("DaemonSet", "watcher"), ("CronJob", "nightly"), ("Job", "by-hand")):
            self.space.delete(kind, name, propagationPolicy="Background")

    def mends_its_certificates(self) -> None:
        path = f"/api/v1/namespaces/{HOME}/secrets/kube-rescheduler-webhook"
        nothing = base64.b64encode(b"nothing").decode()
        self.space.api.patch(path, {"data": {"tls.crt": nothing}})
        # A new authority is announced for half a minute before anything is signed by it.
        until("it is mended", lambda: self.space.api.get(path)["data"]["tls.crt"] != nothing, [self.controller], 120)

    def does_what_people_ask_for_on_the_page(self, page: str, token: str) -> None:
        self.space.create(deployment("asked", 2))
        self.space.rolled_out("asked")
        order(self.space, "asked", name_of(self.space.pods("asked")[0]), approvalRequired=True)
        until("it waits", lambda: self._says("asked", "waits for approval"), [self.controller])
        key = {"namespace": self.space.name, "name": "asked"}
        for action, demand in (("pause", {"reason": "a try"}), ("resume", {}), ("approve", {"migrations": [key]})):
            assert "done" in press(page, action, demand, token)
        assert outcome(self.space, "asked", self.controller) == ("Completed", "handoff")

    def _says(self, name: str, text: str) -> bool:
        found = next(each for each in migrations(self.space) if name_of(each) == name)
        return text in found.get("status", {}).get("message", "")

    def opens_the_node_again(self, node: str) -> None:
        label(self.space, node, None)
        path = f"/api/v1/nodes/{node}"
        until(f"{node} is open", lambda: not self.space.api.get(path)["spec"].get("unschedulable"), [self.controller])


def press(page: str, action: str, demand: object, token: str) -> Json:
    """What the page answers to a button."""
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "X-Rescheduler-Action": action,
    }
    request = Request(f"{page}/api/actions/{action}", json.dumps(demand).encode(), headers, method="POST")
    with urlopen(request, timeout=30) as answer:
        found: Json = json.load(answer)
    return found


def token_of_somebody_who_may_everything(cluster: ClusterUnderTest) -> str:
    """Of an account in our namespace, which goes with it; and so does its binding, whose subject is then gone."""
    cluster.kubectl("-n", HOME, "create", "serviceaccount", "boss")
    cluster.kubectl(
        "create", "clusterrolebinding", "boss", "--clusterrole=cluster-admin", f"--serviceaccount={HOME}:boss"
    )
    return cluster.kubectl("-n", HOME, "create", "token", "boss").strip()


def outdated_definition(control_plane: ControlPlane) -> None:
    """As an older version of the controller would have left it."""
    name = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podmigrations.rescheduler.io"
    columns = [{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns/0"}]
    control_plane.api.patch(name, columns, "json")


def test_all_work_is_done_with_exactly_our_rights(
    skewed: SkewedCluster, control_plane: ControlPlane, kubeconfig: Path, tmp_path: Path
) -> None:
    space, log = skewed.space, tmp_path / "controller.log"
    seen = len(entries(control_plane.audit_log, ACCOUNT))
    wanted = {"enabledStrategies": STRATEGIES, "allow": {"jobs": True, "singleReplica": True}}
    config = write_config(tmp_path / "config.yaml", HOME, **wanted)
    with recorded(space) as before, Controller(kubeconfig, config, log) as controller:
        plan = skewed.reaches_balance(controller, config)
        skewed.assert_within_thresholds(plan)
        skewed.assert_all_ready()
        label(space, skewed.nodes[0], "true")
        until("moves are under way", lambda: active(migrations(space)), [controller])
        controller.kill()
    outdated_definition(control_plane)
    quick = {"evictionGracePeriod": "1s", "retryDelay": "1s", "maxRetryDelay": "2s", "attempts": 1}
    config = write_config(tmp_path / "config.yaml", HOME, **wanted, migration=quick)
    with recorded(space) as after, Controller(kubeconfig, config, log) as controller:
        until("the node is empty", lambda: is_emptied(space, skewed.nodes[0]), [controller], 120)
        skewed.assert_all_ready()
        work = Work(skewed, controller)
        work.opens_the_node_again(skewed.nodes[0])
        work.hands_off_the_only_replica()
        work.evicts_and_steers()
        work.moves_a_job()
        work.rolls_back()
        assert controller.stop() == 0
    skewed.assert_never_below(before)
    skewed.assert_never_below(after)
    port = free_port()
    webhook = {"enabled": True, "port": port, "bindAddress": "127.0.0.1", "url": f"https://127.0.0.1:{port}"}
    web = {"port": free_port(), "bindAddress": "127.0.0.1"}
    config = write_config(
        tmp_path / "config.yaml",
        HOME,
        enabledStrategies=[],
        webhook=webhook,
        recovery=QUICK,
        web=web,
        utilization="usage",
    )
    boss = token_of_somebody_who_may_everything(space.cluster)
    with measured(space.cluster), Controller(kubeconfig, config, tmp_path / "recovering.log") as controller:
        until("the webhook is asked", lambda: is_in_force(controller), [controller])
        work = Work(skewed, controller)
        work.recovers()
        work.mends_its_certificates()
        work.does_what_people_ask_for_on_the_page(f"http://127.0.0.1:{web['port']}", boss)
        assert controller.stop() == 0
    config = write_config(
        tmp_path / "config.yaml",
        HOME,
        enabledStrategies=[],
        migration={"keepFinished": "0s"},
        outcomes={"assessAfter": "1s"},
    )
    space.cluster.kubectl("delete", "clusterrolebinding", "boss")
    with Controller(kubeconfig, config, log) as controller:
        until("finished migrations are forgotten", lambda: not migrations(space), [controller])
        until("no webhook is registered", lambda: not space.api.get(REGISTERED).get("webhooks"), [controller])
        until(
            "no certificate is kept",
            lambda: not space.api.get(f"/api/v1/namespaces/{HOME}/secrets")["items"],
            [controller],
        )
        assert controller.stop() == 0

    asked = entries(control_plane.audit_log, ACCOUNT)[seen:]
    assert not [each for each in asked if each.code == 403]
    used = {each.right for each in asked if each.code < 400}
    assert rights() - used - APPLIED == {each for each in rights() - used if is_replaced_by_a_watch(each, used)}
    assert used <= rights()

"""What `rescheduler scheduler-config` prints, given to the real kube-scheduler: it starts, and asks, and believes us.

The extender is a script on loopback that lets every node pass and scores one of them. Each test runs the scheduler with
the printed file as it is, and puts it back.
"""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from rescheduler.admission.certificates import KeyPair as Signed
from rescheduler.admission.certificates import new_authority, new_serving
from rescheduler.model.json import Json
from rescheduler.model.labels import MANAGED_BY, MANAGER
from tests.support.both_clusters import Space
from tests.support.cli import succeeded
from tests.support.loopback import Loopback, answering
from tests.support.manifests import pod
from tests.testbed.cluster import ControlPlane
from tests.testbed.hollow import NodeShape
from tests.testbed.namespaces import own_namespace
from tests.testbed.pki import Pair
from tests.testbed.processes import ProgramEnded

pytestmark = pytest.mark.cluster

PROFILES = ("default-scheduler", "rescheduler-scheduler")
SEED = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
    "profiles": [
        {
            "schedulerName": "rescheduler-scheduler",
            "pluginConfig": [{"name": "Rescheduler", "args": {"reschedulingInterval": "30s"}}],
        }
    ],
}


@pytest.fixture(scope="module")
def nodes(control_plane: ControlPlane) -> Iterator[list[str]]:
    names = control_plane.add_nodes(3, NodeShape(), prefix="asked")
    yield names
    control_plane.remove_nodes(names)


@pytest.fixture
def space(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Iterator[Space]:
    with own_namespace(control_plane.api, request.node.name) as name:
        yield Space(control_plane, name)


class Stage:
    """A scheduler that runs with what we print."""

    def __init__(self, cluster: ControlPlane, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder

    def printed(self, *args: str, stdin: str = "") -> Path:
        """The file; without a cluster to ask, unless the arguments name one."""
        known = ("--scheduler-kubeconfig", str(self._cluster.kubeconfig_as("system:kube-scheduler")))
        patient = ("--timeout", "30s")  # whoever answers late is not waited for, and the pod goes elsewhere
        path = self._folder / "scheduler.yaml"
        nowhere = {"KUBECONFIG": str(self._folder / "none"), "KUBERNETES_SERVICE_HOST": None}
        path.write_text(succeeded("scheduler-config", *known, *patient, *args, stdin=stdin, env=nowhere).out)
        return path

    @contextlib.contextmanager
    def scheduling(self, config: Path) -> Iterator[None]:
        try:
            self._cluster.run_scheduler_with(config)
            yield
        finally:
            self._cluster.configure_scheduler()


@pytest.fixture
def stage(control_plane: ControlPlane, tmp_path: Path) -> Stage:
    return Stage(control_plane, tmp_path)


@contextlib.contextmanager
def extender(best: str, serving: Pair | None = None) -> Iterator[Loopback]:
    """Lets every node pass, and gives our highest score to one, and our middle one to the others."""

    def answer(path: str, asked: Json) -> object:
        if path == "/extender/prioritize":
            return [{"Host": name, "Score": 10 if name == best else 5} for name in asked["NodeNames"]]
        return {"NodeNames": asked["NodeNames"]}

    with answering(answer, serving) as server:
        yield server


class Identity:
    """A CA, and a certificate that it has signed for these names."""

    def __init__(self, folder: Path, *names: str) -> None:
        now = time.time()
        self.authority: Signed = new_authority("an extender's CA", now)
        self.signed = new_serving(self.authority, names, now)
        self.ca = folder / "ca.crt"
        self.ca.write_bytes(self.authority.certificate)
        self.serving = Pair(folder / "tls.crt", folder / "tls.key")
        self.serving.certificate.write_bytes(self.signed.certificate)
        self.serving.key.write_bytes(self.signed.key)


def each_profile_is_asked_about(space: Space, server: Loopback, best: str) -> None:
    """A pod of each profile goes where the extender wants it, after it was asked to filter and to prioritize."""
    for name in PROFILES:
        space.create(pod(name, schedulerName=name))
        assert space.bound(name) == best
    for verb in ("filter", "prioritize"):
        bodies = server.bodies(f"/extender/{verb}")
        asked = {
            body["Pod"]["metadata"]["name"] for body in bodies if body["Pod"]["metadata"]["namespace"] == space.name
        }
        assert asked == {*PROFILES}  # at least once: a pod may be tried again
        assert all(body["Nodes"] is None for body in bodies), "it is told names alone: nodeCacheCapable"


def test_both_profiles_ask_over_https_with_the_ca_of_our_secret(
    space: Space, stage: Stage, nodes: list[str], tmp_path: Path
) -> None:
    """As in a cluster: the certificate names the Service, the scheduler has its address. With leader election."""
    service = f"kube-rescheduler-webhook.{space.name}.svc"
    known = Identity(tmp_path, service)
    data = {"ca.crt": known.authority.certificate, "tls.crt": known.signed.certificate}
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    metadata = {"name": "kube-rescheduler-webhook", "labels": {MANAGED_BY: MANAGER}}
    space.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded})
    where = ("--kubeconfig", str(space.cluster.kubeconfig), "-n", space.name)
    with extender(nodes[1], known.serving) as server:
        config = stage.printed("--url", server.url, *where)
        (written,) = yaml.safe_load(config.read_text())["extenders"]
        assert written["tlsConfig"] == {"caData": encoded["ca.crt"], "serverName": service}
        with stage.scheduling(config):
            each_profile_is_asked_about(space, server, nodes[1])


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_ca_file_is_carried_along(space: Space, stage: Stage, nodes: list[str], tmp_path: Path, form: str) -> None:
    known = Identity(tmp_path, "127.0.0.1")
    with extender(nodes[2], known.serving) as server:
        config = stage.printed("--url", server.url, "--ca-file", str(known.ca), "--no-leader-elect", "-o", form)
        known.ca.unlink()
        with stage.scheduling(config):
            each_profile_is_asked_about(space, server, nodes[2])


def test_a_ca_file_of_the_scheduler_is_read_by_it(space: Space, stage: Stage, nodes: list[str], tmp_path: Path) -> None:
    known = Identity(tmp_path, "127.0.0.1")
    with extender(nodes[0], known.serving) as server:
        trusting = ("--scheduler-ca-file", str(known.ca), "--no-leader-elect")
        with stage.scheduling(stage.printed("--url", server.url, *trusting)):
            each_profile_is_asked_about(space, server, nodes[0])


def test_whoever_is_not_trusted_is_not_asked_and_pods_go_on(
    space: Space, stage: Stage, nodes: list[str], tmp_path: Path
) -> None:
    """No CA at all: kube-scheduler must not believe just anybody, as it would with enableHTTPS and no CA."""
    known = Identity(tmp_path, "127.0.0.1")
    with extender(nodes[0], known.serving) as server:
        with stage.scheduling(stage.printed("--url", server.url, "--no-leader-elect")):
            space.create(pod("plain"))
            space.bound("plain")
        assert server.asked == []


def test_an_operator_may_say_that_anybody_is_trusted(
    space: Space, stage: Stage, nodes: list[str], tmp_path: Path
) -> None:
    known = Identity(tmp_path, "elsewhere.example")
    with extender(nodes[0], known.serving) as server:
        config = stage.printed("--url", server.url, "--insecure-skip-tls-verify", "--no-leader-elect")
        with stage.scheduling(config):
            each_profile_is_asked_about(space, server, nodes[0])


def test_our_score_outdoes_what_the_scheduler_prefers_itself(space: Space, stage: Stage, nodes: list[str]) -> None:
    """Over plain HTTP. The pod prefers another node by all its weight, and ours is the fullest."""
    space.runs(pod("large", cpu="3", nodeName=nodes[0]))
    other = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [nodes[1]]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": other}]}
    with extender(nodes[0]) as server, stage.scheduling(stage.printed("--url", server.url, "--no-leader-elect")):
        space.create(pod("steered", affinity={"nodeAffinity": preferred}))
        assert space.bound("steered") == nodes[0]


def test_a_file_that_is_there_goes_on_doing_what_it_did(space: Space, stage: Stage, nodes: list[str]) -> None:
    """A profile that scores nothing by itself, and a connection of its own, get the extender and another profile."""
    silent = {"score": {"disabled": [{"name": "*"}]}}
    there = SEED | {"parallelism": 4, "profiles": [{"schedulerName": "rescheduler-scheduler", "plugins": silent}]}
    with extender(nodes[2]) as server:
        added = ("--merge", "-", "--scheduler-name", "default-scheduler", "--url", server.url)
        with stage.scheduling(stage.printed(*added, stdin=yaml.safe_dump(there))):
            each_profile_is_asked_about(space, server, nodes[2])


def test_the_seeds_own_file_serves_the_scheduler_as_well_as_us(space: Space, stage: Stage, nodes: list[str]) -> None:
    """Settings of a plugin that it lacks are no matter to kube-scheduler."""
    with extender(nodes[1]) as server:
        added = ("--merge", "-", "--scheduler-name", "default-scheduler", "--url", server.url)
        with stage.scheduling(stage.printed(*added, stdin=yaml.safe_dump(SEED))):
            each_profile_is_asked_about(space, server, nodes[1])


def test_where_the_seeds_plugin_is_enabled_the_scheduler_does_not_start(space: Space, stage: Stage) -> None:
    """Which is why we warn of it."""
    enabled = {"multiPoint": {"enabled": [{"name": "Rescheduler"}]}}
    profile = {"schedulerName": "rescheduler-scheduler", "plugins": enabled}
    config = stage.printed(
        "--merge", "-", "--url", "http://127.0.0.1:9", stdin=yaml.safe_dump(SEED | {"profiles": [profile]})
    )
    with pytest.raises(ProgramEnded, match="Rescheduler"), stage.scheduling(config):
        raise AssertionError("it runs")

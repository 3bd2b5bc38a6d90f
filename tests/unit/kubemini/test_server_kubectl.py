"""Stock kubectl on the embedded API server: it works, and prints what it prints on the real one.

They need kubectl, which `make testbed` builds, and so run with the tests of the real control plane. No controllers are
at work on the embedded side: what is looked at are the server's answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from kubemini.api import Target
from kubemini.controllers.base import Runner
from kubemini.definitions import Definitions
from kubemini.kinds import NODE
from tests.testbed.binaries import binaries
from tests.testbed.cluster import ControlPlane
from tests.unit.kubemini.served import Client, Json, served

pytestmark = pytest.mark.cluster

DURATION = re.compile(r"\b(\d+[smhdy])+\b")


class Kubectl:
    """kubectl as a client of the embedded server."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self._options = [f"--kubeconfig={folder / 'kubeconfig'}", f"--cache-dir={folder / 'cache'}"]
        context = {"cluster": "c", "user": "u", "namespace": "default"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": client.server.private_url}}],
            "contexts": [{"name": "x", "context": context}],
            "current-context": "x",
        }
        (folder / "kubeconfig").write_text(json.dumps(config))

    async def __call__(self, *arguments: str, stdin: str = "") -> str:
        """What it prints, complaints included."""
        process = await self._start(*arguments)
        printed, _ = await process.communicate(stdin.encode())
        return printed.decode()

    @contextlib.asynccontextmanager
    async def printing(self, *arguments: str) -> AsyncIterator[asyncio.StreamReader]:
        """The lines that it prints until the block is left, which ends it."""
        process = await self._start(*arguments)
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()

    async def _start(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            str(binaries()["kubectl"]),
            *self._options,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )


@pytest_asyncio.fixture
async def kubectl(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Kubectl]:
    """It asks for the real cluster, too, so that it is skipped or fails with the same reason as the others."""
    async with served() as client:
        runner = Runner(client.api.store, Definitions(client.api))
        task = asyncio.create_task(runner.run())
        try:
            yield Kubectl(client, tmp_path)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_objects_are_made_shown_changed_and_deleted(kubectl: Kubectl) -> None:
    web = yaml.safe_dump(deployment("web"))
    assert await kubectl("create", "namespace", "other") == "namespace/other created\n"
    assert await kubectl("apply", "-f", "-", stdin=web) == "deployment.apps/web created\n"
    assert await kubectl("apply", "-f", "-", stdin=web) == "deployment.apps/web unchanged\n"
    more = web.replace("replicas: 0", "replicas: 2")
    assert await kubectl("apply", "-f", "-", stdin=more) == "deployment.apps/web configured\n"
    assert await kubectl("scale", "deploy", "web", "--replicas=0") == "deployment.apps/web scaled\n"
    assert await kubectl("label", "deploy/web", "a=b") == "deployment.apps/web labeled\n"
    assert await kubectl("annotate", "deploy/web", "a=b") == "deployment.apps/web annotated\n"
    assert await kubectl("set", "image", "deploy/web", "main=other") == "deployment.apps/web image updated\n"
    assert await kubectl("rollout", "pause", "deploy/web") == "deployment.apps/web paused\n"
    patch = '{"spec":{"minReadySeconds":3}}'
    for sort in ("merge", "strategic"):
        assert (await kubectl("patch", "deploy", "web", f"--type={sort}", "-p", patch)).startswith(
            "deployment.apps/web patched"
        )
    assert "misspelt" in await kubectl("apply", "-f", "-", stdin=web.replace("replicas: 0", "misspelt: 0"))
    shown = await kubectl("describe", "deploy", "web")
    assert re.search(r"Replicas: +0 desired", shown)
    assert re.search(r"MinReadySeconds: +3", shown)
    assert re.search(r"Image: +other", shown)
    assert await kubectl("delete", "deploy", "web") == 'deployment.apps "web" deleted from default namespace\n'
    assert "NotFound" in await kubectl("get", "deploy", "web")


async def test_objects_that_kubectl_makes_by_itself_are_made(kubectl: Kubectl) -> None:
    for words in (
        ("namespace", "n"),
        ("configmap", "m", "--from-literal=a=b"),
        ("secret", "generic", "s", "--from-literal=a=b"),
        ("serviceaccount", "a"),
        ("deployment", "d", "--image=i:1", "--replicas=0", "--port=80"),
        ("job", "j", "--image=i:1", "--", "sh", "-c", "true"),
        ("quota", "q", "--hard=cpu=1500m,pods=2"),
        ("poddisruptionbudget", "p", "--selector=a=b", "--min-available=50%"),
        ("priorityclass", "c", "--value=-5", "--description=low"),
        ("service", "clusterip", "v", "--tcp=80:8080"),
    ):
        assert (await kubectl("create", *words)).endswith(" created\n"), words
    assert json.loads(await kubectl("get", "secret", "s", "-o", "json"))["data"] == {"a": "Yg=="}
    container = json.loads(await kubectl("get", "job", "j", "-o", "json"))["spec"]["template"]["spec"]["containers"][0]
    assert (container["image"], container["command"]) == ("i:1", ["sh", "-c", "true"])
    spec = json.loads(await kubectl("get", "deploy", "d", "-o", "json"))["spec"]
    assert spec["replicas"] == 0
    assert spec["template"]["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert json.loads(await kubectl("get", "quota", "q", "-o", "json"))["spec"]["hard"] == {"cpu": "1500m", "pods": "2"}


async def test_a_node_is_cordoned_and_drained(kubectl: Kubectl) -> None:
    api = kubectl.client.api
    await api.create(Target(NODE), {"metadata": {"name": "n"}})
    assert await kubectl("cordon", "n") == "node/n cordoned\n"
    assert "SchedulingDisabled" in await kubectl("get", "nodes")
    assert "Unschedulable:      true" in await kubectl("describe", "node", "n")
    body = pod_in("leaving", {"phase": "Running"})
    body["spec"] |= {"nodeName": "n", "terminationGracePeriodSeconds": 0}
    await kubectl.client.post("/api/v1/namespaces/default/pods", body)
    drained = await kubectl("drain", "n", "--force", "--timeout=60s")
    assert "evicting pod default/leaving" in drained
    assert drained.endswith("node/n drained\n")
    assert await kubectl("uncordon", "n") == "node/n uncordoned\n"
    assert await kubectl("taint", "node", "n", "a=b:NoSchedule") == "node/n tainted\n"


async def test_changes_are_waited_for_and_watched(kubectl: Kubectl) -> None:
    client = kubectl.client
    await client.make("a", data={"x": "1"})
    await client.make("b")
    async with kubectl.printing("get", "configmaps", "--watch") as printed:
        waiting = asyncio.create_task(kubectl("wait", "--for=jsonpath={.data.x}=2", "configmap/a", "--timeout=60s"))
        gone = asyncio.create_task(kubectl("wait", "--for=delete", "configmap/b", "--timeout=60s"))
        while len(client.server._watches) < 3 and not (waiting.done() or gone.done() or printed.at_eof()):  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.02)
        await client.change("a", data={"x": "2", "y": "3"})
        await client.drop("b")
        assert await waiting == "configmap/a condition met\n"
        assert "error" not in await gone
        rows: list[list[str]] = []
        while ["a", "2"] not in rows and (line := await printed.readline()):
            rows.append(line.decode().split()[:2])
    assert rows[:3] == [["NAME", "DATA"], ["a", "1"], ["b", "0"]]
    assert rows[-1] == ["a", "2"]


async def test_custom_resources_are_as_good_as_others(kubectl: Kubectl) -> None:
    assert (await kubectl("apply", "-f", "-", stdin=yaml.safe_dump(DEFINITION))).endswith(" created\n")
    waited = await kubectl(
        "wait", "--for=condition=Established", f"crd/{DEFINITION['metadata']['name']}", "--timeout=60s"
    )
    assert waited.endswith(" condition met\n")
    assert (await kubectl("apply", "-f", "-", stdin=yaml.safe_dump(thing("one")))).endswith("/one created\n")
    assert (await kubectl("apply", "-f", "-", stdin=yaml.safe_dump(thing("one")))).endswith("/one unchanged\n")
    assert (await kubectl("get", "th")).splitlines()[1].split() == ["one", "3", "a", "true"]
    assert (await kubectl("delete", "thing", "one")) == 'thing.example.io "one" deleted from default namespace\n'


async def test_kubectl_prints_the_same_on_both_clusters(
    kubectl: Kubectl, control_plane: ControlPlane, namespace: str
) -> None:
    embedded, real = kubectl.client, control_plane
    try:
        for ours, theirs in zip(objects("default"), objects(namespace), strict=True):
            made = real.api.post(theirs.path, theirs.body)
            answer = await embedded.post(ours.path, ours.body)
            assert answer.status == 201, answer.raw
            if "status" in ours.body:
                path, status = f"/{made['metadata']['name']}/status", {"status": ours.body["status"]}
                real.api.patch(theirs.path + path, status)
                answer = await embedded.patch(ours.path + path, status)
                assert answer.status == 200, answer.raw
        for words in (
            *(("get", kind, "-o", "wide") for kind in ("pods", "deploy", "sts", "ds", "svc", "leases", "pdb")),
            *(("get", kind, "compared", "-o", "wide") for kind in ("rs", "controllerrevision", "secret", "event")),
            *(("get", kind, "compared", "-o", "wide") for kind in ("sc", "pc")),
            ("get", "pods", "--show-labels"),
            ("get", "pod", "crashing"),
            ("get", "pods", "-o", "name"),
            ("get", "pods", "-l", "no=body"),
            ("get", "pods", "--field-selector=metadata.name=crashing"),
            ("get", "pods", "--field-selector=foo=bar"),
            ("get", "pods", "nobody"),
            ("get", "nothing"),
            ("get", "pods", "-o", "jsonpath={.items[*].status.phase}"),
            ("get", "deploy", "web", "--subresource=scale"),
            ("get", "deploy/web", "rs/compared"),
        ):
            printed = await kubectl(*words)
            expected = await _on(control_plane, "-n", namespace, *words)
            assert normal(printed, "default") == normal(expected, namespace), words
    finally:
        for kind in ("sc", "pc"):
            await _on(control_plane, "delete", kind, "compared", "--ignore-not-found", "--wait=false")


async def _on(cluster: ControlPlane, *words: str) -> str:
    process = await asyncio.create_subprocess_exec(
        str(binaries()["kubectl"]),
        f"--kubeconfig={cluster.kubeconfig}",
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    return printed.decode()


def normal(printed: str, namespace: str) -> list[list[str]]:
    """Words line by line, whatever the width of columns, the time and the namespace."""
    lines = printed.replace(namespace, "NAMESPACE").splitlines()
    return [[DURATION.sub("AGE", word) for word in line.split()] for line in lines]


def pod_in(name: str, status: Json, **spec: Any) -> Json:
    """A pod that no scheduler cares for, so that its status is ours to write."""
    containers = [{"name": "main", "image": "hollow:1"}]
    spec = {"schedulerName": "nobody", "containers": containers} | spec
    return {"metadata": {"name": name, "labels": {"name": name}}, "spec": spec, "status": status}


def deployment(name: str) -> Json:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "hollow:1"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


def container(name: str, state: Json, **fields: Any) -> Json:
    defaults = {"ready": False, "restartCount": 0, "image": "hollow:1", "imageID": ""}
    return {"name": name, "state": state} | defaults | fields


@dataclass(frozen=True)
class Wanted:
    """An object, and where it is made."""

    path: str
    body: Json


def objects(namespace: str) -> list[Wanted]:
    """What is made on both clusters."""
    ended = {
        "exitCode": 1,
        "reason": "Error",
        "finishedAt": "2026-01-01T00:00:00Z",
        "startedAt": "2026-01-01T00:00:00Z",
    }
    waiting = {"waiting": {"reason": "PodInitializing"}}
    sidecar = {"name": "sidecar", "image": "hollow:1", "restartPolicy": "Always"}
    init = {"name": "init", "image": "hollow:1"}
    two = [{"name": "main", "image": "hollow:1"}, {"name": "second", "image": "hollow:2"}]
    crash = container(
        "main", {"waiting": {"reason": "CrashLoopBackOff"}}, restartCount=3, lastState={"terminated": ended}
    )
    pods = [
        pod_in("pending", {"phase": "Pending"}),
        pod_in("gated", {"phase": "Pending"}, schedulingGates=[{"name": "example.io/wait"}]),
        pod_in("crashing", {"phase": "Running", "containerStatuses": [crash]}),
        pod_in("failed", {"phase": "Failed", "reason": "OutOfcpu"}),
        pod_in(
            "completed",
            {
                "phase": "Succeeded",
                "containerStatuses": [container("main", {"terminated": {"exitCode": 0, "reason": "Completed"}})],
            },
        ),
        pod_in(
            "half",
            {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "False"}],
                "podIPs": [{"ip": "10.1.2.3"}],
                "podIP": "10.1.2.3",
                "containerStatuses": [
                    container("main", {"terminated": {"exitCode": 0, "reason": "Completed"}}),
                    container("second", {"running": {}}, ready=True),
                ],
            },
            containers=two,
        ),
        pod_in(
            "initializing",
            {
                "phase": "Pending",
                "nominatedNodeName": "somewhere",
                "initContainerStatuses": [
                    container("sidecar", {"running": {}}, ready=True, started=True, restartCount=2),
                    container("init", {"running": {}}),
                ],
                "containerStatuses": [container("main", waiting)],
            },
            initContainers=[sidecar, init],
            readinessGates=[{"conditionType": "example.io/a"}],
        ),
    ]
    inside = f"namespaces/{namespace}"
    core, apps = f"/api/v1/{inside}", f"/apis/apps/v1/{inside}"
    template = deployment("x")["spec"]["template"]
    workload = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
    event = {
        "involvedObject": {"kind": "Pod", "name": "pending", "namespace": namespace},
        "reason": "Waits",
        "message": "a while",
        "type": "Normal",
    }
    named = {
        f"{apps}/deployments": deployment("web"),
        f"{apps}/replicasets": {"spec": {"replicas": 0} | workload},
        f"{apps}/statefulsets": {"spec": {"replicas": 0, "serviceName": "x"} | workload},
        f"{apps}/controllerrevisions": {"revision": 3, "data": {}},
        f"{core}/services": {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
        f"{core}/secrets": {"stringData": {"a": "b"}},
        f"{core}/events": event,
        f"/apis/coordination.k8s.io/v1/{inside}/leases": {"spec": {"holderIdentity": "me"}},
        f"/apis/policy/v1/{inside}/poddisruptionbudgets": {
            "spec": {"maxUnavailable": "30%", "selector": {"matchLabels": {"a": "b"}}}
        },
        "/apis/storage.k8s.io/v1/storageclasses": {"provisioner": "x.io/y"},
        "/apis/scheduling.k8s.io/v1/priorityclasses": {"value": 5},
    }
    others = [Wanted(path, {"metadata": {"name": "compared"}} | body) for path, body in named.items()]
    return [*(Wanted(f"{core}/pods", body) for body in pods), *others]


def thing(name: str) -> Json:
    return {
        "apiVersion": "example.io/v1",
        "kind": "Thing",
        "metadata": {"name": name},
        "spec": {"size": 3, "list": [{"name": "a"}, {"name": "b"}], "ok": True},
    }


DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.io"},
    "spec": {
        "group": "example.io",
        "scope": "Namespaced",
        "names": {"kind": "Thing", "plural": "things", "shortNames": ["th"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "First", "type": "string", "jsonPath": ".spec.list[*].name"},
                    {"name": "Ok", "type": "string", "jsonPath": ".spec.ok"},
                    {"name": "When", "type": "date", "jsonPath": ".spec.when", "priority": 1},
                ],
            }
        ],
    },
}

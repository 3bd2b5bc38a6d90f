"""What a running controller shows: its metrics, the page's API, its Events, and the commands that talk to it.

A controller works on a small embedded cluster: three pods are moved, a fourth move fails, rescheduling is paused and
resumed, a node is put under maintenance, and the configuration changes. Values that depend on time and chance are left
out or replaced. So the pins hold the form: names, labels and types, and the sentences of Events and commands.
"""

from __future__ import annotations

import functools
import json
import re
import tempfile
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rescheduler.model.json import Json
from tests.pins.transcript import transcript
from tests.support import manifests
from tests.support.controller_process import Controller, write_config
from tests.support.embedded import EmbeddedControlPlane
from tests.support.page_answers import answer, is_served
from tests.testbed.processes import free_port, until

_SPACE = "shop"
_EVENTS = "/apis/events.k8s.io/v1/events"
_EXPECTED = {
    *("MigrationStarted", "MigrationCompleted", "MigrationFailed", "ReschedulingPaused", "ReschedulingResumed"),
    *("ConfigurationChanged", "ConfigurationRefused", "ConfigurationAwaitsRestart"),
    *("MaintenanceRequested", "MaintenanceEnded"),
}
_METHOD = "scheduler.alpha.kubernetes.io/migration-method"
_IDLE = ["NodeAffinity"]
"""Enabled strategies that find nothing to do here."""
_CHANCE = (
    (re.compile(r"^shop/\S+: .*\n", re.MULTILINE), ""),  # which steps a follower sees depends on the time
    (re.compile(r"\b(web|cart)-[a-z0-9]{8,10}-[a-z0-9]{5}"), r"\1-POD"),
    (re.compile(r"\b(rescheduled-[a-z]+(?:-POD)?)-\d+"), r"\1-NUMBER"),
    (re.compile(r"\b(web-POD|cart-POD|bare)-[0-9a-f]{8}\b"), r"\1-HASH"),
    (re.compile(r" {2,}"), "  "),  # columns of tables are as wide as the names in them
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
)


@dataclass(frozen=True)
class _Scene:
    """A cluster of two nodes: all pods are on the first, which is cordoned, so they can only go to the second."""

    plane: EmbeddedControlPlane
    controller: Controller
    config: Path
    address: str
    source: str
    target: str

    def act(self, action: str, body: Json) -> None:
        """Press a button of the page."""
        headers = {"Content-Type": "application/json", "X-Rescheduler-Action": action}
        request = urllib.request.Request(
            f"{self.address}/api/actions/{action}", json.dumps(body).encode(), headers, method="POST"
        )
        with urllib.request.urlopen(request, timeout=60) as answered:
            answered.read()

    def events(self) -> list[Json]:
        """The controller's own Events; others tell of pods that start and stop."""
        found: list[Json] = self.plane.api.get(_EVENTS)["items"]
        return [each for each in found if each.get("reportingController") == "rescheduler.io/rescheduler"]

    def has_told(self, *reasons: str) -> Callable[[], bool]:
        """Whether there is an Event for each of these reasons."""
        return lambda: {*reasons} <= {each["reason"] for each in self.events()}


@functools.cache
def _shown() -> dict[str, str]:
    """By pin: its text. All of them come from one run."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pins-")))
        plane = stack.enter_context(EmbeddedControlPlane())
        scene = _prepare(plane, folder, stack)
        commands = _play(scene)
        until("all Events are told", scene.has_told(*_EXPECTED), [scene.controller])
        with urllib.request.urlopen(f"{scene.address}/metrics", timeout=30) as scraped:
            metrics = scraped.read().decode()
        events = {_without_chance(_event_line(each), scene) for each in scene.events()}
        return {
            "live/commands": _without_chance(commands, scene),
            "live/events": "".join(f"{line}\n" for line in sorted(events)),
            "live/metrics": _metric_forms(metrics),
            "live/page": "\n".join(_page_forms(scene)),
        }


def _prepare(plane: EmbeddedControlPlane, folder: Path, stack: ExitStack) -> _Scene:
    api = plane.api
    (source,) = plane.add_nodes(1, prefix="source")
    api.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _SPACE}})
    for body in (manifests.deployment("web", 2), manifests.deployment("cart", 2)):
        if body["metadata"]["name"] == "cart":
            body["metadata"]["annotations"] = {_METHOD: "evict"}
        api.post(f"/apis/apps/v1/namespaces/{_SPACE}/deployments", body)
    api.post(f"/api/v1/namespaces/{_SPACE}/pods", manifests.pod("bare"))
    until("all pods run", lambda: _ready_pods(plane) == 5)
    (target,) = plane.add_nodes(1, prefix="target")
    api.patch(f"/api/v1/nodes/{source}", {"spec": {"unschedulable": True}})
    port = free_port()
    serving = {"port": port, "bindAddress": "127.0.0.1"}
    config = write_config(folder / "config.yaml", _SPACE, enabledStrategies=_IDLE, web=serving)
    controller = Controller(plane.kubeconfig, config, folder / "controller.log", "--ui-insecure-local")
    stack.enter_context(controller)
    address = f"http://127.0.0.1:{port}"
    until("the page is served", lambda: is_served(address, 2), [controller])
    return _Scene(plane, controller, config, address, source, target)


def _ready_pods(plane: EmbeddedControlPlane) -> int:
    pods = plane.api.get(f"/api/v1/namespaces/{_SPACE}/pods")["items"]
    conditions = [each for pod in pods for each in pod.get("status", {}).get("conditions", [])]
    return sum(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _pod_of(scene: _Scene, app: str) -> str:
    """A pod of the app on the first node."""
    pods = scene.plane.api.get(f"/api/v1/namespaces/{_SPACE}/pods?labelSelector=app%3D{app}")["items"]
    return min(str(each["metadata"]["name"]) for each in pods if each["spec"].get("nodeName") == scene.source)


def _play(scene: _Scene) -> str:
    """Everything that happens, in order; the transcript of the commands."""
    said: list[str] = []

    def run(*lines: str) -> None:
        access = f"--kubeconfig {scene.plane.kubeconfig}"
        said.append(transcript([f"rescheduler {line} {access}" for line in lines]))

    web, cart = _pod_of(scene, "web"), _pod_of(scene, "cart")
    run(
        f"move {web} -n {_SPACE} --to {scene.target} --dry-run",
        f"move {web} -n {_SPACE} --to {scene.target} --reason noisy",
        f"move {cart} -n {_SPACE} --to {scene.target}",
        f"move bare -n {_SPACE}",
        f"move gone -n {_SPACE}",
    )
    run(f"move {_pod_of(scene, 'web')} -n {_SPACE} --to nowhere")
    order = {
        "apiVersion": "rescheduler.io/v1alpha1",
        "kind": "PodMigration",
        "metadata": {"name": "in-vain"},
        "spec": {"pod": {"name": "gone"}, "target": scene.target},
    }
    scene.plane.api.post(f"/apis/rescheduler.io/v1alpha1/namespaces/{_SPACE}/podmigrations", order)
    until("it has failed", scene.has_told("MigrationFailed"), [scene.controller])
    run(f"pause --reason lunch -n {_SPACE}", f"pause -n {_SPACE}", f"pause --dry-run -n {_SPACE}")
    until("the pause is seen", scene.has_told("ReschedulingPaused"), [scene.controller])
    run(f"resume -n {_SPACE}", f"resume -n {_SPACE}")
    scene.act("maintenance", {"node": scene.target, "on": True})
    run("maintenance status")
    scene.act("maintenance", {"node": scene.target, "on": False})
    _reconfigure(scene)
    run(f"migrations -n {_SPACE} --no-headers -o name", "migrations -n elsewhere", "approve -n elsewhere")
    return "\n".join(said)


def _reconfigure(scene: _Scene) -> None:
    """A change that holds at once, one that waits for a restart, and one that is refused."""
    port = int(scene.address.rpartition(":")[2])
    serving = {"port": port, "bindAddress": "127.0.0.1"}
    write_config(scene.config, _SPACE, enabledStrategies=_IDLE, web=serving, cpuThreshold=70)
    until("it is changed", scene.has_told("ConfigurationChanged"), [scene.controller])
    write_config(scene.config, _SPACE, enabledStrategies=_IDLE, memoryThreshold=60, web={**serving, "port": port + 1})
    until("it awaits a restart", scene.has_told("ConfigurationAwaitsRestart"), [scene.controller])
    write_config(scene.config, _SPACE, enabledStrategies=["LoadBalance"], cpuThreshold=170)
    until("it is refused", scene.has_told("ConfigurationRefused"), [scene.controller])


def _event_line(event: Json) -> str:
    about, other = event["regarding"]["kind"], event.get("related", {}).get("kind", "")
    return f"{event['type']} {event['reason']} {event['action']} of {about} about {other}: {event['note']}"


def _without_chance(text: str, scene: _Scene) -> str:
    names = ((scene.plane.kubeconfig, "KUBECONFIG"), (scene.config, "CONFIG"))
    for path, stands_for in names:
        text = text.replace(str(path), stands_for)
    for name, stands_for in ((scene.source, "SOURCE"), (scene.target, "TARGET")):
        text = re.sub(rf"\b{re.escape(name)}\b", stands_for, text)
    for pattern, stands_for in _CHANCE:
        text = pattern.sub(stands_for, text)
    return text.replace("[stderr]\n\n", "\n")


def _metric_forms(text: str) -> str:
    """Each metric's help and type, and its series with the names of their labels; what is Python's own is left out."""
    found: dict[str, None] = {}
    for line in text.splitlines():
        if re.match(r"(# (HELP|TYPE) )?(python|process)_", line):
            continue
        series = re.match(r"(\w+)(?:\{(.*)\})? ", line)
        if line.startswith("#") or series is None:
            found[line] = None
            continue
        labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', series[2] or ""))
        shown = [f"le={value}" if name == "le" else name for name, value in sorted(labels.items())]
        found[f"{series[1]}{{{','.join(shown)}}}"] = None
    return "".join(f"{line}\n" for line in found)


def _page_forms(scene: _Scene) -> Iterable[str]:
    """Each document of the page's API: which fields it has, and of which types."""
    pod = _pod_of(scene, "web")
    paths = ("overview", "nodes", f"nodes/{scene.target}", "spread", "plan", "migrations", "config", "outcomes")
    for path in (*paths, f"pods/{_SPACE}/{pod}", "search?q=web", "whoami"):
        found = set(_fields(answer(scene.address, path), ""))
        fields = sorted(field for field in found if not _is_known_otherwise(field, found))
        title = path.replace(pod, "POD").replace(scene.target, "NODE")
        yield "".join([f"GET /api/{title}\n", *(f"  {field}\n" for field in fields)])


def _is_known_otherwise(field: str, found: set[str]) -> bool:
    """Whether it is null here and has a type elsewhere in the document."""
    path, _, kind = field.rpartition(": ")
    return kind == "NoneType" and any(each.startswith((f"{path}: ", f"{path}.")) for each in found - {field})


def _fields(value: Any, path: str) -> Iterable[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if path == ".labels":  # of a node
                key = "LABEL"
            yield from _fields(inner, f"{path}.{key}")
    elif isinstance(value, list):
        yield f"{path}[]"
        for inner in value:
            yield from _fields(inner, f"{path}[]")
    else:
        yield f"{path}: {type(value).__name__}"


def _one(name: str) -> str:
    return _shown()[name]


LIVE: dict[str, Callable[[], str]] = {
    name: functools.partial(_one, name) for name in ("live/commands", "live/events", "live/metrics", "live/page")
}

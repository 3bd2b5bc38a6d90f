"""Pods that misbehave on demand look on both clusters as a real kubelet describes them: the product detects by this.

Words and fields are those of the kubelet of v1.37 (pkg/kubelet: status/generate.go, kubelet_pods.go, eviction, images,
lifecycle/predicate.go).
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import Space, condition, is_ready, name_of
from tests.support.manifests import deployment, on, pod
from tests.support.misbehaviour import Misbehaviour, Mode, behaves, misbehaves
from tests.testbed.processes import until

CRASHED = {"exitCode": 1, "reason": "Error"}


def container(found: Json, name: str = "main") -> Json:
    """One container's status, empty before there is one."""
    statuses = found["status"].get("containerStatuses", ()), found["status"].get("initContainerStatuses", ())
    return next((each for listed in statuses for each in listed if each["name"] == name), {})


def waits_for(found: Json, name: str = "main") -> str | None:
    """The reason for which a container is not running."""
    reason: str | None = container(found, name).get("state", {}).get("waiting", {}).get("reason")
    return reason


def backs_off(restarts: int) -> Callable[[Json], bool]:
    return lambda found: waits_for(found) == "CrashLoopBackOff" and container(found)["restartCount"] >= restarts


def part(whole: Json, *keys: str) -> Json:
    return {key: whole.get(key) for key in keys}


def not_ready(found: Json) -> tuple[str, str, str]:
    """Reason and message of a pod that is not Ready because its containers aren't; both conditions say the same."""
    ready, containers = condition(found, "Ready"), condition(found, "ContainersReady")
    assert part(ready, "status", "reason", "message") == part(containers, "status", "reason", "message")
    return ready["status"], ready["reason"], ready.get("message", "")


def unready(*names: str) -> tuple[str, str, str]:
    return "False", "ContainersNotReady", f"containers with unready status: [{' '.join(names)}]"


def history(space: Space, since: str, name: str, last: Callable[[Json], bool]) -> list[Json]:
    """Every version of a pod after a resource version, up to the first that is the last."""
    seen = space.events("Pod", since, lambda event: last(event["object"]), fieldSelector=f"metadata.name={name}")
    return [event["object"] for event in seen]


def one_per_node(body: Json) -> Json:
    term = {"labelSelector": body["spec"]["selector"], "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    body["spec"]["template"]["spec"]["affinity"] = affinity
    return body


def placed(space: Space, nodes: list[str]) -> dict[str, str]:
    """The names of web's pods by their nodes; empty until each node has one."""
    by_node = {str(each["spec"].get("nodeName")): name_of(each) for each in space.pods("web")}
    return by_node if sorted(by_node) == sorted(nodes) else {}


def test_a_workload_crashes_on_one_node_and_runs_on_the_others(space: Space, nodes: list[str]) -> None:
    sick = Misbehaviour("CrashLoopBackOff", on=nodes[1:2], restarts_every=0.5)
    space.create(sick.of(one_per_node(deployment("web", len(nodes)))))
    by_node = until("there is one on each node", lambda: placed(space, nodes))
    crashing = by_node.pop(nodes[1])
    for healthy in by_node.values():
        assert container(space.ready(healthy))["restartCount"] == 0
    found = space.reaches("Pod", crashing, "has crashed three times", backs_off(2))
    status = container(found)
    assert found["status"]["phase"] == "Running"
    assert part(status, "ready", "started") == {"ready": False, "started": False}
    assert part(status["lastState"]["terminated"], "exitCode", "reason") == CRASHED
    whole = f"{crashing}_{space.name}({found['metadata']['uid']})"
    message = status["state"]["waiting"]["message"]
    assert re.fullmatch(rf"back-off \S+ restarting failed container=main pod={re.escape(whole)}", message)
    assert not_ready(found) == unready("main")
    assert condition(found, "Initialized")["status"] == "True"
    space.reaches("Deployment", "web", "has three ready", lambda web: web["status"].get("readyReplicas") == 3)


def test_a_pod_that_crashes_is_never_ready_in_between(space: Space, nodes: list[str]) -> None:
    since = space.version("Pod")
    space.create(Misbehaviour("CrashLoopBackOff", restarts_every=0.2).of(pod("web")))
    seen = history(space, since, "web", backs_off(2))
    assert not any(map(is_ready, seen))
    running = [container(found) for found in seen if container(found).get("state", {}).get("running")]
    assert {(each["ready"], each["started"]) for each in running} == {(False, True)}
    assert {each["restartCount"] for each in running} == {0, 1, 2}


def test_a_pod_that_must_not_be_restarted_fails_when_it_crashes(space: Space, nodes: list[str]) -> None:
    space.create(Misbehaviour("CrashLoopBackOff").of(pod("once", restartPolicy="Never")))
    found = space.reaches("Pod", "once", "has failed", lambda found: found["status"]["phase"] == "Failed")
    status = container(found)
    assert part(status["state"]["terminated"], "exitCode", "reason") == CRASHED
    assert part(status, "ready", "restartCount") == {"ready": False, "restartCount": 0}
    assert not_ready(found) == ("False", "PodFailed", "")
    assert "reason" not in found["status"]


def test_a_pod_that_the_kubelet_evicts_is_failed_and_replaced(space: Space, nodes: list[str]) -> None:
    body = Misbehaviour("Failed", on=nodes[:1], starts_in=0.5).of(deployment("web", 1))
    body["spec"]["template"]["spec"]["nodeSelector"] = on(nodes[0])
    space.create(body)
    failed = until("one has failed", lambda: space.list("Pod", fieldSelector="status.phase=Failed"))[0]
    status = failed["status"]
    assert status["reason"] == "Evicted"
    disruption = condition(failed, "DisruptionTarget")
    assert part(disruption, "status", "reason") == {"status": "True", "reason": "TerminationByKubelet"}
    assert not_ready(failed) == ("False", "PodFailed", "")
    assert part(container(failed)["state"]["terminated"], "exitCode", "reason") == {"exitCode": 137, "reason": "Error"}
    until("another was made in its place", lambda: len(space.list("Pod")) > 1)
    assert space.find("Pod", name_of(failed))


def test_a_pod_that_is_never_ready_runs_all_the_same(space: Space, nodes: list[str]) -> None:
    space.create(Misbehaviour("NeverReady").of(pod("shy")))
    found = space.reaches("Pod", "shy", "runs", lambda found: found["status"]["phase"] == "Running")
    status = container(found)
    assert part(status, "ready", "started", "restartCount") == {"ready": False, "started": True, "restartCount": 0}
    assert status["state"]["running"]
    assert not_ready(found) == unready("main")


def test_a_pod_whose_image_cannot_be_pulled_waits_and_names_it(space: Space, nodes: list[str]) -> None:
    since = space.version("Pod")
    body = pod("web")
    body["spec"]["containers"][0]["image"] = "registry.example/no-such:1"
    space.create(Misbehaviour("ImagePullBackOff").of(body))
    *before, found = history(space, since, "web", lambda found: waits_for(found) == "ImagePullBackOff")
    assert {waits_for(each) for each in before} <= {None, "ContainerCreating", "ErrImagePull"}
    assert found["status"]["phase"] == "Pending"
    status = container(found)
    assert part(status, "ready", "started", "restartCount") == {"ready": False, "started": False, "restartCount": 0}
    message = status["state"]["waiting"]["message"]
    assert message.startswith('Back-off pulling image "registry.example/no-such:1": ErrImagePull: ')
    assert not_ready(found) == unready("main")
    assert found["status"]["podIP"]


def test_a_pod_that_the_kubelet_rejects_has_failed_without_a_container(space: Space, nodes: list[str]) -> None:
    since = space.version("Pod")
    space.create(Misbehaviour("OutOfcpu", on=nodes[:1]).of(pod("web", cpu="250m", nodeSelector=on(nodes[0]))))
    seen = history(space, since, "web", lambda found: found["status"]["phase"] != "Pending")
    status = seen[-1]["status"]
    assert part(status, "phase", "reason") == {"phase": "Failed", "reason": "OutOfcpu"}
    assert status["message"].startswith("Pod was rejected: Node didn't have enough resource: cpu")
    assert not {"containerStatuses", "initContainerStatuses", "conditions", "podIP"} & status.keys()
    assert status["startTime"]


@pytest.mark.parametrize("kind", ["container", "restartable init container"])
def test_a_sidecar_keeps_running_while_the_main_container_crashes(space: Space, nodes: list[str], kind: str) -> None:
    body = pod("web")
    sidecar = {"name": "agent", "image": "hollow:2"}  # before `main` in the alphabet, which is how statuses are sorted
    if kind == "container":
        body["spec"]["containers"].append(sidecar)
    else:
        setup = {"name": "setup", "image": "hollow:3"}
        body["spec"]["initContainers"] = [setup, sidecar | {"restartPolicy": "Always"}]
    since = space.version("Pod")
    space.create(Misbehaviour("SidecarRuns", restarts_every=0.2).of(body))
    seen = history(space, since, "web", backs_off(2))
    assert not any(map(is_ready, seen))
    found = seen[-1]
    assert found["status"]["phase"] == "Running"
    agent = container(found, "agent")
    assert part(agent, "ready", "started", "restartCount") == {"ready": True, "started": True, "restartCount": 0}
    assert agent["state"]["running"]
    assert part(container(found)["lastState"]["terminated"], "exitCode", "reason") == CRASHED
    assert not_ready(found) == unready("main")
    assert [each["name"] for each in found["status"]["containerStatuses"]] == sorted(
        each["name"] for each in body["spec"]["containers"]
    )


def test_a_slow_start_says_that_containers_are_being_created(space: Space, nodes: list[str]) -> None:
    space.create(Misbehaviour(starts_in=600).of(pod("slow")))
    found = space.reaches("Pod", "slow", "is being created", lambda found: waits_for(found) == "ContainerCreating")
    assert found["status"]["phase"] == "Pending"
    assert found["status"]["startTime"]
    assert not_ready(found) == unready("main")
    misbehaves(space.api, space.path("Pod", "slow"), Misbehaviour(starts_in=0))
    found = space.ready("slow")
    assert found["status"]["podIP"]


def test_a_slow_end_keeps_the_pod_running_for_as_long_as_its_grace(space: Space, nodes: list[str]) -> None:
    space.runs(Misbehaviour(ends_in=600).of(pod("slow")))
    deleted = space.delete("Pod", "slow", gracePeriodSeconds=600)
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 600
    assert condition(deleted, "Ready")["status"] == "True"  # only Services take no notice of it any more
    assert container(space.get("Pod", "slow"))["state"]["running"]
    since = space.version("Pod")
    space.delete("Pod", "slow", gracePeriodSeconds=1)
    seen = space.events("Pod", since, lambda event: event["type"] == "DELETED", fieldSelector="metadata.name=slow")
    last = seen[-1]["object"]
    assert part(container(last)["state"]["terminated"], "exitCode", "reason") == {"exitCode": 0, "reason": "Completed"}
    assert last["status"]["phase"] == "Succeeded"
    assert condition(last, "Ready")["status"] == "False"


@pytest.mark.parametrize(
    ("mode", "phase", "reason"),
    [
        ("CrashLoopBackOff", "Running", "CrashLoopBackOff"),
        ("SidecarRuns", "Running", "CrashLoopBackOff"),
        ("ImagePullBackOff", "Running", "ImagePullBackOff"),
        ("NeverReady", "Running", None),
    ],
)
def test_a_running_pod_starts_to_misbehave_and_recovers(
    space: Space, nodes: list[str], mode: Mode, phase: str, reason: str | None
) -> None:
    space.runs(pod("web"))
    path = space.path("Pod", "web")
    misbehaves(space.api, path, Misbehaviour(mode, restarts_every=0.5))
    found = space.reaches(
        "Pod", "web", "misbehaves", lambda found: not is_ready(found) and (not reason or waits_for(found) == reason)
    )
    assert found["status"]["phase"] == phase
    assert not_ready(found) == unready("main")
    behaves(space.api, path)
    found = space.ready("web")
    assert bool(container(found)["restartCount"]) == bool(reason)

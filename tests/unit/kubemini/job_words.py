"""What the tests of Jobs say: make one, see how it stands, have its pods bound and ended."""

from typing import Any

from kubemini import clock
from kubemini.kinds import JOB, POD
from kubemini.refusals import Json
from tests.unit.kubemini.controllers_at_work import IMAGE, Cluster

INDEX = "batch.kubernetes.io/job-completion-index"


async def job(cluster: Cluster, restart: str = "Never", **spec: Any) -> Json:
    template = {"spec": {"containers": [{"name": "main", "image": IMAGE}], "restartPolicy": restart}}
    made = await cluster.make(JOB, "work", {"spec": {"template": template} | spec})
    await cluster.settled()
    return made


def pods(cluster: Cluster, *phases: str) -> list[str]:
    """The names of pods that stay, in these phases; by default those at work."""
    wanted = phases or ("Pending", "Running")
    found = [pod for pod in cluster.all(POD) if "deletionTimestamp" not in pod["metadata"]]
    return [pod["metadata"]["name"] for pod in found if pod["status"]["phase"] in wanted]


async def bind_all(cluster: Cluster) -> None:
    for entry in cluster.store.entries(POD):
        body = entry.object()
        if not body["spec"].get("nodeName") and not entry.deleting:
            body["spec"]["nodeName"] = "a"
            cluster.store.replace(POD, body, entry.version)
    await cluster.settled()


async def end(cluster: Cluster, name: str, phase: str = "Succeeded", code: int | None = None) -> None:
    """A pod runs to its end."""
    finished = clock.stamp(clock.now())
    code = (0 if phase == "Succeeded" else 1) if code is None else code
    state = {"terminated": {"exitCode": code, "finishedAt": finished}}
    container = {"name": "main", "image": IMAGE, "imageID": "", "ready": False, "restartCount": 0, "state": state}
    await cluster.says(POD, name, phase=phase, containerStatuses=[container])
    await cluster.settled()


def status(cluster: Cluster) -> Json:
    found: Json = cluster.get(JOB, "work")["status"]
    return found


def conditions(cluster: Cluster) -> dict[str, str]:
    """Those that hold, and why."""
    return {each["type"]: each["reason"] for each in status(cluster).get("conditions", ()) if each["status"] == "True"}


def counts(cluster: Cluster) -> tuple[int, int, int]:
    """Active, succeeded, failed."""
    found = status(cluster)
    return (found.get("active", 0), found.get("succeeded", 0), found.get("failed", 0))

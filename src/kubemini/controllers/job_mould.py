"""The pods that a Job makes: from its template, with the finalizer that has them counted, some with an index."""

from __future__ import annotations

from kubemini.controllers.job_indexes import COMPLETION_INDEX
from kubemini.controllers.job_pods import TRACKING
from kubemini.controllers.templates import PodMould, name_prefix
from kubemini.refusals import Json

_ENVIRONMENT = "JOB_COMPLETION_INDEX"
_LONGEST_PREFIX = 58  # of a generated name


class JobMould:
    """Makes pods of one Job."""

    def __init__(self, job: Json) -> None:
        self._job: str = job["metadata"]["name"]
        self._mould = PodMould(job["spec"]["template"], job)

    def pod(self, index: int | None) -> Json:
        """One more."""
        pod = self._mould.pod()
        metadata = pod["metadata"]
        metadata["generateName"] = name_prefix(self._job)
        finalizers = metadata.setdefault("finalizers", [])
        if TRACKING not in finalizers:
            finalizers.append(TRACKING)
        if index is None:
            return pod
        metadata.setdefault("annotations", {})[COMPLETION_INDEX] = str(index)
        metadata.setdefault("labels", {})[COMPLETION_INDEX] = str(index)
        ending = f"-{index}-"
        whole = self._job + ending
        fits = len(whole) <= _LONGEST_PREFIX
        metadata["generateName"] = whole if fits else whole[: _LONGEST_PREFIX - len(ending)] + ending
        pod["spec"]["hostname"] = f"{self._job}-{index}"
        for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
            _tell_index(container)
        return pod


def _tell_index(container: Json) -> None:
    environment: list[Json] = container.setdefault("env", [])
    if all(each["name"] != _ENVIRONMENT for each in environment):
        path = f"metadata.labels['{COMPLETION_INDEX}']"
        environment.append({"name": _ENVIRONMENT, "valueFrom": {"fieldRef": {"fieldPath": path}}})

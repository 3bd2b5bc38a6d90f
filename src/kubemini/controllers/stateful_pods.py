"""The pods of StatefulSets: their ordinals, names and labels, their volumes, and how one is made.

`stateful_set` decides which are created, kept and deleted. A pod's ordinal is the number at the end of its name, and
all that is its own follows from it: host name, index label, the names of its claims.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass

from kubemini.controllers.pod_state import PodState
from kubemini.controllers.templates import PodMould, name_prefix
from kubemini.refusals import Json
from kubemini.store import Entry

REVISION_LABEL = "controller-revision-hash"
NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"
_NAME = re.compile(r"(?P<set>.*)-(?P<ordinal>[0-9]+)")
_LARGEST_ORDINAL = 2**31 - 1


def is_member(set_name: str, pod_name: str) -> bool:
    """Whether a pod has the name of one of a set's pods."""
    found = _NAME.fullmatch(pod_name)
    return found is not None and found["set"] == set_name


def ordinal_of(pod_name: str) -> int | None:
    """The number at the end of a name."""
    found = _NAME.fullmatch(pod_name)
    ordinal = int(found["ordinal"]) if found else -1
    return ordinal if 0 <= ordinal <= _LARGEST_ORDINAL else None


@dataclass(frozen=True, eq=False)
class Member:
    """One place of a set: the pod that has it, or only its name while there is none."""

    ordinal: int
    name: str
    entry: Entry | None = None
    state: PodState | None = None

    @property
    def revision(self) -> str:
        """The name of the ControllerRevision that its pod was made from."""
        return self.entry.labels.get(REVISION_LABEL, "") if self.entry else ""

    @property
    def deleting(self) -> bool:
        return self.state is not None and self.state.deleting

    @property
    def finished(self) -> bool:
        return self.state is not None and self.state.finished

    @property
    def pending(self) -> bool:
        return self.state is not None and self.state.phase in ("", "Pending")

    @property
    def running_and_ready(self) -> bool:
        return self.state is not None and self.state.phase == "Running" and self.state.ready

    def available(self, min_ready: int, now: float) -> bool:
        return self.state is not None and self.state.available(min_ready, now)


@dataclass(frozen=True)
class Shape:
    """What a StatefulSet wants its pods to be like."""

    body: Json

    @property
    def name(self) -> str:
        name: str = self.body["metadata"]["name"]
        return name

    @property
    def ordinals(self) -> range:
        """The ordinals that it shall have."""
        spec = self.body["spec"]
        start: int = (spec.get("ordinals") or {}).get("start", 0)
        return range(start, start + spec.get("replicas", 1))

    @property
    def claim_templates(self) -> Sequence[Json]:
        return self.body["spec"].get("volumeClaimTemplates") or ()

    def claim_name(self, template: Json, ordinal: int) -> str:
        """The name of one pod's claim by a template."""
        return f"{template['metadata']['name']}-{self.name}-{ordinal}"

    def claims(self, ordinal: int) -> list[Json]:
        """The claims of one pod, to be created."""
        wanted = self.body["spec"]["selector"].get("matchLabels") or {}
        made: list[Json] = []
        for template in self.claim_templates:
            given = template["metadata"]
            metadata = {key: given[key] for key in ("annotations", "finalizers") if given.get(key)}
            metadata["name"] = self.claim_name(template, ordinal)
            metadata["labels"] = {**(given.get("labels") or {}), **wanted}
            made.append({"metadata": metadata, "spec": copy.deepcopy(template["spec"])})
        return made

    def volumes(self, ordinal: int, others: Sequence[Json]) -> list[Json]:
        """Its claims as volumes, and those of the template that have other names."""
        claimed = {each["metadata"]["name"]: self.claim_name(each, ordinal) for each in self.claim_templates}
        mine = [{"name": name, "persistentVolumeClaim": {"claimName": claim}} for name, claim in claimed.items()]
        return [*mine, *(each for each in others if each["name"] not in claimed)]

    def is_itself(self, member: Member) -> bool:
        """Whether a pod carries its name and has the volumes that are its own."""
        if member.entry is None or member.state is None:
            return False
        wanted = {(each["metadata"]["name"], self.claim_name(each, member.ordinal)) for each in self.claim_templates}
        return member.entry.labels.get(NAME_LABEL) == member.name and wanted <= set(member.state.claims)

    def new_pod(self, ordinal: int, template: Json, revision: str) -> Json:
        """The pod with an ordinal, from the template of a revision."""
        pod = PodMould(template, self.body).pod()
        metadata, spec = pod["metadata"], pod["spec"]
        metadata["name"] = f"{self.name}-{ordinal}"
        metadata["generateName"] = name_prefix(self.name)
        metadata["labels"] = {**metadata.get("labels", {}), REVISION_LABEL: revision}
        spec["hostname"] = metadata["name"]
        if service := self.body["spec"].get("serviceName"):
            spec["subdomain"] = service
        self.mark(pod, ordinal)
        return pod

    def mark(self, pod: Json, ordinal: int) -> None:
        """Give a pod what makes it the one with this ordinal, and can be given later, too."""
        pod["metadata"].setdefault("labels", {}).update(
            {NAME_LABEL: f"{self.name}-{ordinal}", INDEX_LABEL: str(ordinal)}
        )
        volumes = self.volumes(ordinal, pod["spec"].get("volumes") or ())
        if volumes:
            pod["spec"]["volumes"] = volumes

"""The pods of a workload that something can be done about: they have failed or find no place, and nothing forbids it.

`deciding` goes through them. What stands against helping a pod is told here, once: a guard, an annotation that makes
no sense, nodes that went away by the dozen. A pod that is being moved is left to its migration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rescheduler.migration.commands import Json
from rescheduler.migration.observation import condition, controller_of, has_ended, is_leaving, labels_of
from rescheduler.model import marks
from rescheduler.model.instant import parse_instant
from rescheduler.recovery import telling
from rescheduler.recovery.avoidance import avoided_by
from rescheduler.recovery.case import Case
from rescheduler.recovery.draft import SOON, Draft
from rescheduler.recovery.failures import Failing, ended_at, failing, is_ready
from rescheduler.recovery.jobs import standstill
from rescheduler.recovery.record import Entry, slot
from rescheduler.recovery.retries import RetriesError, retries_of, total
from rescheduler.recovery.revisions import is_outdated

NO_PLACE = "NoPlace"
_WELL: Json = {"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
_DOUBTFUL = 60.0  # seconds; so many workloads wait for their nodes that looking at all of them is dear
_TOO_MANY = 0.5  # of all nodes: then it is the network or the control plane that is ill, and not they


@dataclass(frozen=True, slots=True)
class Patient:
    """A pod that has failed, or that finds no place because of the nodes it must avoid."""

    pod: Json
    controller: Json | None
    failing: Failing
    name: str
    """Its entry in the record."""
    budget: int
    """How many retries that entry has in all."""
    is_gone: bool = False
    """Whether its controller, or somebody else, has deleted it already."""

    @property
    def uid(self) -> str:
        """Which pod it is."""
        return str(self.pod["metadata"]["uid"])

    @property
    def node(self) -> str:
        """Where it is; empty if it has no place."""
        return str(self.pod["spec"].get("nodeName") or "")

    @property
    def has_no_place(self) -> bool:
        """Whether it waits for a node in vain."""
        return self.failing.reason == NO_PLACE


def patients(draft: Draft) -> list[Patient]:
    """Those whose time has come, by name."""
    controllers = {str(each["metadata"]["uid"]): each for each in draft.case.controllers}
    there = {pod["metadata"]["uid"] for pod in draft.case.pods if not is_leaving(pod)}
    pods = [*draft.case.pods, *(pod for pod in draft.case.vanished if pod["metadata"]["uid"] not in there)]
    pods.sort(key=lambda pod: str(pod["metadata"]["name"]))
    found = [each for pod in pods if (each := _patient(draft, pod, controllers)) is not None]
    return [replace(each, is_gone=each.uid not in there) for each in found]


def _patient(draft: Draft, pod: Json, controllers: Mapping[str, Json]) -> Patient | None:
    case, metadata = draft.case, pod["metadata"]
    holder, owner = case.holder, controller_of(pod)
    controller = controllers.get(owner["uid"]) if owner is not None else None
    if (controller is None) is (holder["kind"] != "Pod") or is_leaving(pod) or is_outdated(pod, case):
        return None
    name = slot(holder["kind"], metadata["name"], pod["spec"].get("nodeName") or "")
    trouble = _trouble(case, pod, controller, draft.entry(name))
    if trouble is None:
        return None
    try:
        retries = retries_of(pod, controller, holder)
    except RetriesError as error:
        draft.tell(pod, telling.INVALID, str(error), f"{holder['metadata']['uid']}/{error}")
        return None
    if retries is None or retries.each == 0:
        return None
    if retries.warning:
        draft.tell(None, telling.MISSPELT, retries.warning, f"{holder['metadata']['uid']}/{retries.warning}")
    patient = Patient(pod, controller, trouble, name, total(retries.each, holder))
    return patient if _is_free(draft, patient) else None


def _trouble(case: Case, pod: Json, controller: Json | None, entry: Entry) -> Failing | None:
    stays = controller is not None and controller["kind"] == "DaemonSet"  # whatever becomes of its node
    node = _WELL if stays else case.nodes.get(pod["spec"].get("nodeName") or "")
    found = failing(pod, node, case.settings, case.now)
    if found is None:
        return _without_place(case, pod, controller, entry)
    if controller is None:
        return found
    # Failed pods that were replaced stay for a while. Those that fell before the record was last cleared are old news.
    old = has_ended(pod) and case.now - ended_at(pod) >= case.settings.clear_after
    return None if old or (controller["kind"] == "Job" and standstill(controller)) else found


def _without_place(case: Case, pod: Json, controller: Json | None, entry: Entry) -> Failing | None:
    """Whether a pod would have found a place if it had not to avoid nodes for our sake."""
    said = condition(pod, "PodScheduled")
    if pod["spec"].get("nodeName") or said.get("status") != "False" or said.get("reason") != "Unschedulable":
        return None
    refused = avoided_by(pod["spec"].get("affinity"))
    if controller is None:
        ours = refused & set(entry.avoids)
    else:
        ours = refused - avoided_by(controller["spec"]["template"]["spec"].get("affinity"))
    if not ours & places_of(case, pod):
        return None
    since = parse_instant(said["lastTransitionTime"]) if said.get("lastTransitionTime") else case.now
    due = max(0.0, since + case.settings.start_timeout - case.now)
    return Failing(NO_PLACE, f"finds no place but on nodes where it failed ({', '.join(sorted(ours))})", due)


def places_of(case: Case, pod: Json) -> frozenset[str]:
    """The nodes that could take a pod like this one, whatever failed there."""
    return case.free_for.get(pod["metadata"]["uid"], case.free_nodes)


def _is_free(draft: Draft, patient: Patient) -> bool:
    """Whether it may be helped, and now; if not, that is told or waited for."""
    case, pod = draft.case, patient.pod
    full_name = f"pod {pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
    if objection := case.objections.get(patient.uid):
        draft.tell(
            pod, telling.REFUSED, f"{full_name} {patient.failing.said}; it is left alone: {objection}", patient.uid
        )
        return False
    if labels_of(pod).get(marks.MIGRATION_STATUS) in marks.RUNNING_MIGRATIONS:
        draft.wait(SOON)
        return False
    node = case.nodes.get(patient.node)
    if case.unready_share > _TOO_MANY and node is not None and not is_ready(node) and not has_ended(pod):
        since = condition(node, "Ready").get("lastTransitionTime", "")
        note = (
            f"{case.unready_share:.0%} of all nodes are not ready: that is the network or the control plane, so "
            f"{full_name} on node {patient.node} is not taken for failed"
        )
        draft.tell(pod, telling.DOUBTED, note, f"{patient.node}/{since}")
        draft.wait(_DOUBTFUL)
        return False
    if patient.failing.due > 0:
        draft.undecided.add(patient.uid)
        draft.wait(patient.failing.due)
        return False
    return True

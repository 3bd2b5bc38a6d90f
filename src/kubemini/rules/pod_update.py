"""What may change in a pod once it is made: a few fields of its spec, more while it is gated, and its status.

`pod` asks. Everything else in the spec is fixed, because a kubelet may be running it by now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.affinity import toleration_faults
from kubemini.rules.faults import changed, each_wrong, not_allowed, required, wrong
from kubemini.rules.pod_spec import pod_annotations_faults

_MIRROR = "kubernetes.io/config.mirror"
_MOST = 2**31 - 1
_CHANGEABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_SYSTEM_CONDITIONS = frozenset({"PodScheduled", "Ready", "Initialized"})
_STATUSES = (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers"))


def spec_update_faults(body: Json, before: Json) -> Iterator[Fault]:
    """What is wrong with a new version of a pod, compared with the one before."""
    spec, old = body["spec"], before["spec"]
    yield from mirror_faults(body, before)
    for key in ("containers", "initContainers"):
        new_ones, old_ones = spec.get(key) or [], old.get(key) or []
        if len(new_ones) != len(old_ones):
            yield not_allowed(f"spec.{key}", "pod updates may not add or remove containers")
            return
        for number, container in enumerate(new_ones):
            image = container.get("image", "")
            if not image:
                yield required(f"spec.{key}[{number}].image")
            if image.strip() != image:
                yield wrong(f"spec.{key}[{number}].image", image, "must not have leading or trailing whitespace")
    yield from _deadline(spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    yield from _tolerations(spec.get("tolerations", ()), old.get("tolerations", ()))
    yield from _gates(spec.get("schedulingGates", ()), old.get("schedulingGates", ()))
    if spec != old:
        yield from _rest(spec, old)


def mirror_faults(body: Json, before: Json) -> Iterator[Fault]:
    """What is wrong with a change of the mark that a pod mirrors one of the node's own."""
    new = body["metadata"].get("annotations", {}).get(_MIRROR)
    old = before["metadata"].get("annotations", {}).get(_MIRROR)
    if new != old:
        what = "add" if old is None else "remove or update"
        yield not_allowed(f"metadata.annotations[{_MIRROR}]", f"may not {what} mirror pod annotation")


def status_update_faults(body: Json, before: Json) -> Iterator[Fault]:
    """What is wrong with a new status of a pod."""
    status, old = body["status"], before.get("status", {})
    yield from mirror_faults(body, before)
    yield from pod_annotations_faults("metadata.annotations", body["metadata"].get("annotations", {}), body["spec"])
    for number, condition in enumerate(status.get("conditions", ())):
        at = f"status.conditions[{number}]"
        if condition.get("observedGeneration", 0) < 0:
            yield wrong(f"{at}.observedGeneration", condition["observedGeneration"], "must be a non-negative integer")
        if condition["type"] not in _SYSTEM_CONDITIONS:
            yield from each_wrong(f"{at}.Type", condition["type"], names.label_key(condition["type"]))
    nominated, previous = status.get("nominatedNodeName", ""), old.get("nominatedNodeName", "")
    if nominated and nominated != previous:
        yield from each_wrong("status.nominatedNodeName", nominated, names.subdomain(nominated))
        if before["spec"].get("nodeName"):
            yield not_allowed("status.nominatedNodeName", "may not be set on pods that are already bound to a node")
    if status.get("observedGeneration", 0) < 0:
        yield wrong("status.observedGeneration", status["observedGeneration"], "must be a non-negative integer")
    yield from changed("status.qosClass", status.get("qosClass", ""), old.get("qosClass", ""))
    yield from _reawakened(status, old, before["spec"])
    yield from _addresses(status, "podIP", "podIPs")
    yield from _addresses(status, "hostIP", "hostIPs")


def _deadline(new: int | None, old: int | None) -> Iterator[Fault]:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            yield wrong(path, new, "must not update from a positive integer to nil value")
    elif details := names.in_range(new, 0, _MOST):
        yield from each_wrong(path, new, details)
    elif old is not None and old < new:
        yield wrong(path, new, "must be less than or equal to previous value")


def _tolerations(new: Sequence[Json], old: Sequence[Json]) -> Iterator[Fault]:
    def kept(toleration: Json) -> bool:
        wanted = {key: value for key, value in toleration.items() if key != "tolerationSeconds"}
        return any({key: value for key, value in each.items() if key != "tolerationSeconds"} == wanted for each in new)

    if all(kept(toleration) for toleration in old):
        yield from toleration_faults("spec.tolerations", new)
    else:
        yield not_allowed("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")


def _gates(new: Sequence[Json], old: Sequence[Json]) -> Iterator[Fault]:
    known = {gate["name"] for gate in old}
    for number, gate in enumerate(new):
        if gate["name"] not in known:
            why = f"only deletion is allowed, but found new scheduling gate '{gate['name']}'"
            yield not_allowed(f"spec.schedulingGates[{number}].name", why)


def _rest(spec: Json, old: Json) -> Iterator[Fault]:
    """What is left when all changes that are allowed are taken back must be the spec before."""
    munged = dict(spec)
    for key in ("containers", "initContainers"):
        if munged.get(key):
            munged[key] = [
                {**container, "image": was.get("image", "")}
                for container, was in zip(munged[key], old[key], strict=True)
            ]
    for key in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _restore(munged, old, key)
    if old.get("terminationGracePeriodSeconds", 0) < 0 and munged.get("terminationGracePeriodSeconds") == 1:
        _restore(munged, old, "terminationGracePeriodSeconds")
    if old.get("schedulingGates"):
        yield from _narrowed(munged, old)
    if munged != old:
        differing = sorted(key for key in {*munged, *old} if munged.get(key) != old.get(key))
        why = f"pod updates may not change fields other than {_CHANGEABLE}\nchanged: {', '.join(differing)}"
        yield not_allowed("spec", why)


def _narrowed(munged: Json, old: Json) -> Iterator[Fault]:
    """A gated pod may be narrowed down to fewer nodes; what was narrowed is put back in `munged`."""
    new_selector, old_selector = munged.get("nodeSelector", {}), old.get("nodeSelector", {})
    if new_selector != old_selector:
        if not old_selector.items() <= new_selector.items():
            why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            yield wrong("spec.nodeSelector", new_selector, why)
        _restore(munged, old, "nodeSelector")
    new, previous = munged.get("affinity"), old.get("affinity")
    new_nodes, old_nodes = (new or {}).get("nodeAffinity"), (previous or {}).get("nodeAffinity")
    if new_nodes == old_nodes:
        return
    yield from _narrowed_affinity(new_nodes, old_nodes)
    restored = {key: value for key, value in (new or {}).items() if key != "nodeAffinity"}
    if old_nodes is not None:
        restored["nodeAffinity"] = old_nodes
    munged["affinity"] = restored
    if not restored and previous is None:
        del munged["affinity"]


def _narrowed_affinity(new: Json | None, old: Json | None) -> Iterator[Fault]:
    before = ((old or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    if not before:
        return
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    after = ((new or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    if len(after) != len(before):
        yield wrong(path, after, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
        return
    for number, (term, was) in enumerate(zip(after, before, strict=True)):
        if not _only_additions(term, was):
            yield wrong(f"{path}[{number}]", term, "only additions are allowed (no mutations or deletions)")


def _only_additions(term: Json, was: Json) -> bool:
    if not was.get("matchExpressions") and not was.get("matchFields"):
        return not term.get("matchExpressions") and not term.get(
            "matchFields"
        )  # it matches nothing, and shall not more
    return all(
        term.get(key, [])[: len(was.get(key, []))] == was.get(key, []) for key in ("matchExpressions", "matchFields")
    )


def _restore(into: Json, old: Json, key: str) -> None:
    into.pop(key, None)
    if key in old:
        into[key] = old[key]


def _reawakened(status: Json, old: Json, spec: Json) -> Iterator[Fault]:
    """A container that has ended for good does not come back."""
    for key, containers in _STATUSES:
        policies = {each["name"]: each.get("restartPolicy") for each in spec.get(containers) or ()}
        rules = {each["name"] for each in spec.get(containers) or () if each.get("restartPolicyRules")}
        now = {each["name"]: each for each in status.get(key, ())}
        for number, was in enumerate(old.get(key, ())):
            ended = was["state"].get("terminated")
            current = now.get(was["name"])
            if ended is None or current is None or "terminated" in current["state"] or was["name"] in rules:
                continue
            policy = policies.get(was["name"]) or spec["restartPolicy"]
            restarts = policy == "Always" or (policy == "OnFailure" and ended["exitCode"] != 0)
            if was["name"] not in policies or not restarts:
                yield not_allowed(f"status.{key}[{number}].state", "may not be transitioned to non-terminated state")


def _addresses(status: Json, one: str, many: str) -> Iterator[Fault]:
    listed = [each["ip"] for each in status.get(many, ())]
    for number, address in enumerate(listed):
        yield from each_wrong(f"status.{many}[{number}]", address, names.address(address))
    if listed and status.get(one) != listed[0]:
        yield wrong(f"status.{many}[0].ip", listed[0], f"must be equal to `{one}`")
    if len(listed) > 1 and (len(listed) > 2 or (":" in listed[0]) == (":" in listed[1])):
        yield wrong(f"status.{many}", status[many], "may specify no more than one IP for each IP family")

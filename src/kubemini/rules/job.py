"""The rules for Jobs: the selector and labels that the API server gives them, what is filled in, and what must hold.

Their spec, which templates have too, has its rules in `job_spec`, and their status in `job_status`.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.faults import changed, required, wrong
from kubemini.rules.job_spec import default_job_pods, job_spec_faults
from kubemini.rules.job_status import job_status_faults
from kubemini.rules.selectors import matcher, selector_faults
from kubemini.rules.typed import TypedRules

_UID_LABEL, _NAME_LABEL = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
_FIXED = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
# What may still be said about where the pods of a Job go, as long as it has none.
_PLACEMENT = ("nodeSelector", "tolerations", "schedulingGates")


class JobRules(TypedRules):
    """What holds for Jobs."""

    def prepare_create(self, body: Json) -> None:
        """Give the Job a selector of its own, and its pods the labels for it."""
        super().prepare_create(body)
        spec, metadata = body["spec"], body["metadata"]
        if not spec.get("manualSelector"):
            labels = spec["template"]["metadata"].setdefault("labels", {})
            for key in ("job-name", _NAME_LABEL):
                labels.setdefault(key, metadata.get("name", ""))
            for key in ("controller-uid", _UID_LABEL):
                labels.setdefault(key, metadata["uid"])
            selector = spec.setdefault("selector", {}).setdefault("matchLabels", {})
            selector.setdefault(_UID_LABEL, metadata["uid"])

    def default(self, body: Json) -> None:
        """Fill in what is open."""
        spec = body["spec"]
        if labels := spec["template"]["metadata"].get("labels"):
            body["metadata"]["labels"] = body["metadata"].get("labels") or dict(labels)
        if "completions" not in spec and "parallelism" not in spec:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
        spec.setdefault("manualSelector", False)
        default_job_pods(spec)

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a Job, or with its new status."""
        if before is not None and subresource == "status":
            return list(job_status_faults(body, before))
        found = list(job_spec_faults("spec", body["spec"]))
        found += _selector_faults(body, first=before is None)
        found += _name_faults(body)
        if before is not None:
            found += _update_faults(body["spec"], before)
        return found


def _selector_faults(body: Json, *, first: bool) -> Iterator[Fault]:
    spec, metadata = body["spec"], body["metadata"]
    labels = spec["template"]["metadata"].get("labels", {})
    selector = spec.get("selector")
    if first and not spec["manualSelector"] and selector is not None:
        wanted = {
            "controller-uid": metadata["uid"],
            "job-name": metadata.get("name", ""),
            _UID_LABEL: metadata["uid"],
            _NAME_LABEL: metadata.get("name", ""),
        }
        for key, value in wanted.items():
            if labels.get(key) != value:
                yield wrong(f"spec.template.metadata.labels[{key}]", labels, f"must be '{value}'")
        generated = matcher(selector)
        if generated is not None and not generated.matches(wanted):
            yield wrong("spec.selector", selector, "`selector` not auto-generated")
    if selector is None:
        yield required("spec.selector")
    yield from selector_faults("spec.selector", selector)
    matching = matcher(selector)
    if selector is None or (matching is not None and not matching.matches(labels)):
        yield wrong("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _name_faults(body: Json) -> Iterator[Fault]:
    spec, name = body["spec"], body["metadata"].get("name", "")
    if spec["completionMode"] == "Indexed" and spec.get("completions", 0) > 0:
        last = f"{name}-{spec['completions'] - 1}"
        if names.label(last):
            yield wrong("metadata.name", name, f"will not able to create pod with invalid DNS label: {last}")


def _update_faults(spec: Json, before: Json) -> Iterator[Fault]:
    old = before["spec"]
    for key in _FIXED:
        yield from changed(f"spec.{key}", spec.get(key), old.get(key))
    if spec["completionMode"] != "Indexed":
        yield from changed("spec.completions", spec.get("completions"), old.get("completions"))
    elif spec.get("completions") not in (old.get("completions"), None, spec["parallelism"]):
        yield wrong("spec.completions", spec["completions"], "can only be modified in tandem with spec.parallelism")
    if _may_be_placed(before):
        inner = spec["template"]["spec"]
        yield from changed("spec.template.spec", inner, _placed(old["template"]["spec"], inner))
    else:
        yield from changed("spec.template", spec["template"], old["template"])


def _may_be_placed(before: Json) -> bool:
    """Whether a Job waits and has no pods, so that one may still say where they go and what they ask for."""
    status = before.get("status", {})
    suspended = any(each["type"] == "Suspended" and each["status"] == "True" for each in status.get("conditions", ()))
    never_ran = "startTime" not in status or suspended
    return bool(before["spec"].get("suspend") and never_ran and not status.get("active"))


def _placed(old: Json, new: Json) -> Json:
    """The old spec of a Job's pods, with all that the new one may say otherwise taken over from it."""
    spec = {key: value for key, value in old.items() if key not in (*_PLACEMENT, "affinity")}
    spec |= {key: new[key] for key in _PLACEMENT if key in new}
    affinity = {key: value for key, value in old.get("affinity", {}).items() if key != "nodeAffinity"}
    if nodes := new.get("affinity", {}).get("nodeAffinity"):
        affinity["nodeAffinity"] = nodes
    if affinity or "affinity" in new:
        spec["affinity"] = affinity
    for key in ("containers", "initContainers"):
        asked = {each["name"]: each["resources"] for each in new.get(key) or ()}
        if key in spec:
            spec[key] = [each | {"resources": asked.get(each["name"], each["resources"])} for each in spec[key]]
    return spec

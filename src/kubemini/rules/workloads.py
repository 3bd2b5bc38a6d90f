"""What Deployments, ReplicaSets, StatefulSets and DaemonSets have in common: a selector, a template, counts.

Their own rules, one class each, are in `deployment` (with ReplicaSets), `stateful_set` and `daemon_set`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubemini.refusals import Fault, Json
from kubemini.rules.faults import negative, not_allowed, required, unsupported, wrong
from kubemini.rules.pod_spec import template_faults
from kubemini.rules.selectors import is_empty, matcher, selector_faults


def selected_template_faults(spec: Json, what: str, template: Json | None = None) -> Iterator[Fault]:
    """What is wrong with a selector and with the template that it must match; `what` names the workload."""
    template = template or spec["template"]
    selector = spec["selector"]
    if selector is None:
        yield required("spec.selector")
    else:
        yield from selector_faults("spec.selector", selector)
        if is_empty(selector):
            yield wrong("spec.selector", selector, f"empty selector is invalid for {what}")
    matching = matcher(selector)
    if matching is None and selector is not None:
        yield wrong("spec.selector", selector, "invalid label selector")
        return
    labels = template["metadata"].get("labels", {})
    if matching is None or not matching.matches(labels):
        yield wrong("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    yield from template_faults("spec.template", template)


def always_restarting_faults(template: Json, kind: str) -> Iterator[Fault]:
    """Pods of a workload that runs for ever run for ever."""
    policy = template["spec"]["restartPolicy"]
    if policy != "Always":
        yield unsupported("spec.template.spec.restartPolicy", policy, ("Always",))
    if "activeDeadlineSeconds" in template["spec"]:
        why = f"activeDeadlineSeconds in {kind} is not Supported"
        yield not_allowed("spec.template.spec.activeDeadlineSeconds", why)


def count_faults(status: Json, counts: Iterable[str]) -> Iterator[Fault]:
    """What is wrong with the counts in a status: none is negative, and no part is more than the whole."""
    for key in ("replicas", *counts, "observedGeneration", "collisionCount", "terminatingReplicas"):
        yield from negative(f"status.{key}", status.get(key))
    replicas, ready = status.get("replicas", 0), status.get("readyReplicas", 0)
    for key in counts:
        if key != "unavailableReplicas" and status.get(key, 0) > replicas:
            yield wrong(f"status.{key}", status.get(key, 0), "cannot be greater than status.replicas")
    if status.get("availableReplicas", 0) > ready:
        yield wrong("status.availableReplicas", status["availableReplicas"], "cannot be greater than readyReplicas")


def collision_faults(status: Json, before: Json) -> Iterator[Fault]:
    """The count of collisions only grows."""
    now, was = status.get("collisionCount"), before.get("status", {}).get("collisionCount")
    if was is not None and (now is None or now < was):
        yield wrong("status.collisionCount", now or 0, "cannot be decremented")

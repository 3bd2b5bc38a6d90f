"""The rules for DaemonSets."""

from __future__ import annotations

from collections.abc import Iterator

from kubemini.refusals import Fault, Json, bad_request
from kubemini.rules.faults import changed, negative, required, unsupported, wrong
from kubemini.rules.pod_spec import default_pod_spec, template_faults
from kubemini.rules.selectors import is_empty, matcher, selector_faults
from kubemini.rules.shares import is_zero, share_faults
from kubemini.rules.typed import TypedRules
from kubemini.rules.workloads import always_restarting_faults, collision_faults

_GENERATION = "deprecated.daemonset.template.generation"
_COUNTS = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
)


class DaemonSetRules(TypedRules):
    """What holds for DaemonSets."""

    def prepare_create(self, body: Json) -> None:
        """The first template is the first; it is counted in an annotation, as from times when it was a field."""
        super().prepare_create(body)
        _count(body, max(_counted(body), 1))

    def prepare_update(self, body: Json, before: Json, subresource: str) -> None:
        """A changed template is counted."""
        super().prepare_update(body, before, subresource)
        _counted(body)  # refused if it is no number, though it does not count
        counted = _counted(before)
        if subresource != "status":
            self.default(body)
            counted += body["spec"]["template"] != before["spec"]["template"]
        _count(body, counted)

    def default(self, body: Json) -> None:
        """Fill in what is open."""
        spec = body["spec"]
        strategy = spec["updateStrategy"]
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)
        default_pod_spec(spec["template"]["spec"])

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a DaemonSet, or with its new status."""
        if before is not None and subresource == "status":
            status = body["status"]
            found = [fault for key in _COUNTS for fault in negative(f"status.{key}", status.get(key))]
            return [*found, *collision_faults(status, before)]
        spec = body["spec"]
        found = list(_spec_faults(spec))
        if before is not None:
            found += changed("spec.selector", spec["selector"], before["spec"]["selector"])
        return found


def _counted(body: Json) -> int:
    text = body["metadata"].get("annotations", {}).get(_GENERATION, "0")
    try:
        return int(text)
    except ValueError:
        why = f'strconv.ParseInt: parsing "{text}": invalid syntax'
        raise bad_request(f'DaemonSet in version "v1" cannot be handled as a DaemonSet: {why}') from None


def _count(body: Json, templates: int) -> None:
    body["metadata"].setdefault("annotations", {})[_GENERATION] = str(templates)


def _spec_faults(spec: Json) -> Iterator[Fault]:
    selector, template = spec["selector"], spec["template"]
    yield from selector_faults("spec.selector", selector)
    labels = template["metadata"].get("labels", {})
    matching = matcher(selector)
    if selector is None or (matching is not None and not matching.matches(labels)):  # no selector matches nothing
        yield wrong("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    if selector is not None and is_empty(selector):
        yield wrong("spec.selector", selector, "empty selector is invalid for daemonset")
    yield from template_faults("spec.template", template)
    yield from always_restarting_faults(template, "DaemonSet")
    yield from negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    yield from _strategy_faults("spec.updateStrategy", spec["updateStrategy"])
    yield from negative("spec.revisionHistoryLimit", spec["revisionHistoryLimit"])


def _strategy_faults(path: str, strategy: Json) -> Iterator[Fault]:
    match strategy["type"]:
        case "OnDelete":
            return
        case "RollingUpdate":
            rolling, at = strategy["rollingUpdate"], f"{path}.rollingUpdate"
            unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
            yield from share_faults(f"{at}.maxUnavailable", unavailable)
            yield from share_faults(f"{at}.maxSurge", surge)
            if not is_zero(unavailable) and not is_zero(surge):
                yield wrong(f"{at}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
            elif is_zero(unavailable) and is_zero(surge):
                yield required(f"{at}.maxUnavailable", "cannot be 0 when maxSurge is 0")
        case _:
            yield unsupported(path, strategy, ("RollingUpdate", "OnDelete"))

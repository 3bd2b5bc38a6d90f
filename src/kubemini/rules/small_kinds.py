"""The rules for kinds that need few: Leases, PriorityClasses, ConfigMaps and Events."""

from __future__ import annotations

from collections.abc import Iterator

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.faults import changed, each_wrong, not_allowed, one_of, required, too_long, wrong
from kubemini.rules.typed import TypedRules

SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_HIGHEST_OF_USERS = 1_000_000_000
DATA_SIZE = 1024 * 1024
_LOCKED = "field is immutable when `immutable` is set"
_EVENT_FIXED = (
    ("involvedObject", "regarding"), ("reason", "reason"), ("message", "note"), ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"), ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"), ("type", "type"), ("eventTime", "eventTime"), ("action", "action"),
    ("related", "related"), ("reportingController", "reportingController"), ("reportingInstance", "reportingInstance"),
)  # fmt: skip


class LeaseRules(TypedRules):
    """What holds for Leases."""

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a Lease."""
        spec = body["spec"]
        found = []
        if spec.get("leaseDurationSeconds", 1) <= 0:
            found.append(wrong("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0"))
        if spec.get("leaseTransitions", 0) < 0:
            why = "must be greater than or equal to 0"
            found.append(wrong("spec.leaseTransitions", spec["leaseTransitions"], why))
        return found


class PriorityClassRules(TypedRules):
    """What holds for PriorityClasses."""

    def default(self, body: Json) -> None:
        """Fill in what is open."""
        body.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a class; only its description and whether it is the default may change."""
        if before is not None:
            found = [*changed("preemptionPolicy", body["preemptionPolicy"], before["preemptionPolicy"])]
            if body["value"] != before["value"]:
                found.append(not_allowed("value", "may not be changed in an update."))
            return found
        found = list(one_of("preemptionPolicy", body["preemptionPolicy"], ("PreemptLowerPriority", "Never")))
        name, value = body["metadata"].get("name", ""), body["value"]
        if name.startswith("system-"):
            if SYSTEM_CLASSES.get(name) != value or body.get("globalDefault"):
                reserved = "priority class names with 'system-' prefix are reserved for system use only"
                why = f"{reserved}. error: {name} is not a known system priority class"
                found.append(not_allowed("metadata.name", why))
        elif value > _HIGHEST_OF_USERS:
            found.append(
                not_allowed("value", f"maximum allowed value of a user defined priority is {_HIGHEST_OF_USERS}")
            )
        return found


class ConfigMapRules(TypedRules):
    """What holds for ConfigMaps."""

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a ConfigMap."""
        data, binary = body.get("data", {}), body.get("binaryData", {})
        found = [*key_faults("data", data), *key_faults("binaryData", binary)]
        twice = "duplicate of key present in binaryData"
        found += [wrong(f"data[{key}]", key, twice) for key in sorted(set(data) & set(binary))]
        if sum(map(len, data.values())) + sum(map(len, binary.values())) > DATA_SIZE:
            found.append(too_long("", DATA_SIZE))
        return [*found, *lock_faults(body, before, ("data", "binaryData"))]


class EventRules(TypedRules):
    """What holds for Events, in the form of either group; the newer group is stricter."""

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with an Event."""
        new = self.kind.group == "events.k8s.io"
        event = {old: body.get(name) for old, name in _EVENT_FIXED} if new else body
        reporter = body.get("reportingController" if new else "reportingComponent", "")
        found = list(_event_faults(event, body["metadata"].get("namespace", ""), reporter, new=new))
        if not new:
            return found
        if before is not None:
            for old, name in _EVENT_FIXED:
                found += changed(old, body.get(name), before.get(name))
            return found
        if not event["eventTime"]:
            found.append(required("eventTime"))
        if event["type"] not in ("Normal", "Warning"):
            found.append(wrong("type", "", f"has invalid value: {event['type'] or ''}"))
        for old in ("firstTimestamp", "lastTimestamp", "count", "source"):
            if event[old]:
                found.append(wrong(old, "", "needs to be unset"))
        if (series := body.get("series")) and series["count"] < 2:
            found.append(wrong("series.count", "", "should be at least 2"))
        return found


def _event_faults(event: Json, namespace: str, reporter: str, *, new: bool) -> Iterator[Fault]:
    about = (event.get("involvedObject") or {}).get("namespace", "")
    if not event.get("eventTime"):
        if namespace != about and not (not about and namespace == "default"):
            yield wrong("involvedObject.namespace", about, "does not match event.namespace")
        return
    if not about and namespace not in ("default", "kube-system"):
        yield wrong("involvedObject.namespace", about, "does not match event.namespace")
    path = "reportingController" if new else "reportingComponent"
    if not reporter:
        yield required(path)
    yield from each_wrong(path, reporter, names.label_key(reporter))
    for key in ("reportingInstance", "action", "reason"):
        if not event.get(key):
            yield required(key)
        elif len(event[key]) > 128:
            yield wrong(key, "", "can have at most 128 characters")
    if len(event.get("message") or "") > 1024:
        yield wrong("message", "", "can have at most 1024 characters")


def key_faults(path: str, data: Json) -> Iterator[Fault]:
    """What is wrong with the keys of a ConfigMap or a Secret."""
    for key in data:
        yield from each_wrong(f"{path}[{key}]", key, names.data_key(key))


def lock_faults(body: Json, before: Json | None, keys: tuple[str, ...]) -> Iterator[Fault]:
    """What has changed of a ConfigMap or a Secret that said that nothing would."""
    if before is None or not before.get("immutable"):
        return
    if not body.get("immutable"):
        yield not_allowed("immutable", _LOCKED)
    for key in keys:
        if body.get(key) != before.get(key):
            yield not_allowed(key, _LOCKED)

"""The columns of what a cluster is made of: nodes, namespaces, Services, quotas, Leases, Events and the like."""

from __future__ import annotations

from kubemini.refusals import Json
from kubemini.server import ages
from kubemini.server.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Cells,
    Column,
    Printer,
    age_of,
    condition,
    dig,
    holds,
    labels_text,
    name_of,
    numbers,
    texts,
    wide,
)

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"
_EVENT_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}


def _node(body: Json) -> Cells:
    ready = condition(body, "Ready")
    states = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if dig(body, "spec", "unschedulable"):
        states.append("SchedulingDisabled")
    about = dig(body, "status", "nodeInfo") or {}
    kernel = about.get("kernelVersion") or UNKNOWN
    if about.get("architecture"):
        kernel += f" ({about['architecture']})"
    return [
        name_of(body),
        ",".join(states),
        ",".join(sorted(_roles(body))) or NONE,
        age_of(body),
        about.get("kubeletVersion", ""),
        _address(body, "InternalIP"),
        _address(body, "ExternalIP"),
        about.get("osImage") or UNKNOWN,
        kernel,
        about.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _roles(node: Json) -> set[str]:
    labels = dig(node, "metadata", "labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return (roles | {labels.get(_ROLE_LABEL, "")}) - {""}


def _address(node: Json, sort: str) -> str:
    found = (each.get("address", "") for each in dig(node, "status", "addresses") or () if each.get("type") == sort)
    return next(found, NONE)


def _namespace(body: Json) -> Cells:
    return [name_of(body), dig(body, "status", "phase") or "", age_of(body)]


def _service(body: Json) -> Cells:
    spec = body.get("spec") or {}
    addresses = spec.get("clusterIPs") or [NONE]
    return [
        name_of(body),
        spec.get("type", ""),
        addresses[0],
        _external(body),
        ",".join(_port(each) for each in spec.get("ports") or ()) or NONE,
        age_of(body),
        labels_text(spec.get("selector")),
    ]


def _external(service: Json) -> str:
    spec = service.get("spec") or {}
    given = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or NONE
        case "LoadBalancer":
            balancers = dig(service, "status", "loadBalancer", "ingress") or ()
            found = sorted({each.get("ip") or each.get("hostname") or "" for each in balancers} - {""})
            return ",".join([*found, *given]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return UNKNOWN


def _port(port: Json) -> str:
    inside, outside = port.get("port", 0), port.get("nodePort")
    return f"{inside}:{outside}/{port.get('protocol', '')}" if outside else f"{inside}/{port.get('protocol', '')}"


def _event(body: Json) -> Cells:
    """Of a core Event; one of events.k8s.io is the same under other names."""
    body = {_EVENT_NAMES.get(key, key): value for key, value in body.items()}
    about, source, series = (body.get(each) or {} for each in ("involvedObject", "source", "series"))
    first = ages.age(body.get("firstTimestamp") or body.get("eventTime"))
    last = ages.age(body["lastTimestamp"]) if body.get("lastTimestamp") else first
    count = body.get("count") or 1
    if series:
        last, count = ages.age(series.get("lastObservedTime")), series.get("count", 0)
    target = about.get("kind", "").lower()
    if about.get("name"):
        target += f"/{about['name']}"
    component = source.get("component") or body.get("reportingComponent") or ""
    instance = source.get("host") or body.get("reportingInstance") or ""
    return [
        last,
        body.get("type", ""),
        body.get("reason", ""),
        target,
        about.get("fieldPath", ""),
        f"{component}, {instance}" if instance else component,
        body.get("message", "").strip(),
        first,
        count,
        name_of(body),
    ]


def _lease(body: Json) -> Cells:
    return [name_of(body), dig(body, "spec", "holderIdentity") or "", age_of(body)]


def _priority_class(body: Json) -> Cells:
    default, policy = bool(body.get("globalDefault")), body.get("preemptionPolicy") or ""
    return [name_of(body), body.get("value", 0), default, age_of(body), policy]


def _config_map(body: Json) -> Cells:
    return [name_of(body), len(body.get("data") or ()) + len(body.get("binaryData") or ()), age_of(body)]


def _secret(body: Json) -> Cells:
    return [name_of(body), body.get("type", ""), len(body.get("data") or ()), age_of(body)]


def _webhooks(body: Json) -> Cells:
    return [name_of(body), len(body.get("webhooks") or ()), age_of(body)]


def _definition(body: Json) -> Cells:
    spec = body.get("spec") or {}
    names = spec.get("names") or {}
    served = [each for each in spec.get("versions") or () if each.get("served")]
    return [
        name_of(body),
        spec.get("scope", ""),
        ",".join(sorted(f"{each['name']}{'(storage)' if each.get('storage') else ''}" for each in served)),
        dig(body, "metadata", "creationTimestamp"),
        spec.get("group", ""),
        names.get("kind", ""),
        ",".join(names.get("shortNames") or ()),
        holds(body, "Established"),
    ]


def _nothing_special(body: Json) -> Cells:
    return [name_of(body), age_of(body)]


NODES = Printer(
    [
        NAME,
        *texts("Status", "Roles"),
        AGE,
        *texts("Version"),
        *wide("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
    ],
    _node,
)
NAMESPACES = Printer([NAME, *texts("Status"), AGE], _namespace)
SERVICES = Printer([NAME, *texts("Type", "Cluster-IP", "External-IP", "Port(s)"), AGE, *wide("Selector")], _service)
EVENTS = Printer(
    [
        *texts("Last Seen", "Type", "Reason", "Object"),
        *wide("Subobject", "Source"),
        *texts("Message"),
        *wide("First Seen", "Count"),
        Column("Name", priority=1, format="name"),
    ],
    _event,
)
LEASES = Printer([NAME, *texts("Holder"), AGE], _lease)
PRIORITY_CLASSES = Printer(
    [NAME, *numbers("Value"), Column("Global-Default", "boolean"), AGE, *texts("PreemptionPolicy")], _priority_class
)
CONFIG_MAPS = Printer([NAME, *texts("Data"), AGE], _config_map)
SECRETS = Printer([NAME, *texts("Type", "Data"), AGE], _secret)
WEBHOOKS = Printer([NAME, *numbers("Webhooks"), AGE], _webhooks)
DEFINITIONS = Printer(
    [
        NAME,
        *texts("Scope", "Versions"),
        Column("Created At", "date"),
        *wide("Group", "Kind", "ShortNames"),
        Column("Established", "boolean", priority=1),
    ],
    _definition,
)
OTHERS = Printer([NAME, AGE], _nothing_special)

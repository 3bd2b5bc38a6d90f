"""The rules for Services. The addresses and node ports that they are given come from admission, which knows what is
taken."""

from __future__ import annotations

from collections.abc import Iterator

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.containers import PROTOCOLS
from kubemini.rules.faults import duplicate, each_wrong, not_allowed, one_of, required, unsupported, wrong
from kubemini.rules.selectors import labels_faults
from kubemini.rules.typed import TypedRules

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_CLIENT_SECONDS = 10_800
_MOST_SECONDS = 86_400


class ServiceRules(TypedRules):
    """What holds for Services."""

    def prepare_update(self, body: Json, before: Json, subresource: str) -> None:
        """An address that was given out stays, also where the new version leaves it open."""
        super().prepare_update(body, before, subresource)
        spec, old = body["spec"], before["spec"]
        if subresource or spec.get("type", "ClusterIP") == "ExternalName":
            return
        if spec.get("clusterIP") != old.get("clusterIP") and spec.get("clusterIPs") == old.get("clusterIPs"):
            spec.pop("clusterIPs", None)  # who changes the one means the other as well
        if not spec.get("clusterIP"):
            spec.pop("clusterIPs", None)
        for key in ("clusterIP", "ipFamilies", "ipFamilyPolicy"):
            if key in old:
                spec.setdefault(key, old[key])
        given = {(port.get("name", ""), port["protocol"], port["port"]): port for port in old.get("ports", ())}
        for port in spec.get("ports", ()):
            same = given.get((port.get("name", ""), port.get("protocol", "TCP"), port["port"]), {})
            if "nodePort" in same and spec.get("type") in ("NodePort", "LoadBalancer"):
                port.setdefault("nodePort", same["nodePort"])

    def default(self, body: Json) -> None:
        """Fill in what is open."""
        spec = body["spec"]
        kind = spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        elif "timeoutSeconds" not in ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}):
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _CLIENT_SECONDS}}
        for port in spec.get("ports", ()):
            port.setdefault("protocol", "TCP")
            port["targetPort"] = port["targetPort"] or port["port"]
        if kind != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and spec.get("externalIPs")):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if kind == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        elif spec.get("clusterIPs") and not spec.get("clusterIP"):
            spec["clusterIP"] = spec["clusterIPs"][0]

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a Service."""
        if before is not None and subresource == "status":
            return []
        spec = body["spec"]
        if spec["type"] != "ExternalName" and (unaddressable := list(_address_faults(spec))):
            return unaddressable  # addresses are given out before the rest is looked at
        found = list(_spec_faults(spec))
        found += _port_faults("spec.ports", spec)
        if before is not None:
            found += _update_faults(spec, before["spec"])
        return found


def is_headless(spec: Json) -> bool:
    """Whether a Service has no address on purpose."""
    return bool(spec.get("clusterIPs", [""])[:1] == ["None"])


def _spec_faults(spec: Json) -> Iterator[Fault]:
    kind = spec["type"]
    if not spec.get("ports") and not is_headless(spec) and kind != "ExternalName":
        yield required("spec.ports")
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        yield wrong("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        for key in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if key in spec:
                yield not_allowed(f"spec.{key}", "may not be set for ExternalName services")
        target = spec.get("externalName", "").removesuffix(".")
        if not target:
            yield required("spec.externalName")
        else:
            yield from each_wrong("spec.externalName", target, names.subdomain(target))
    yield from labels_faults("spec.selector", spec.get("selector", {}))
    for number, address in enumerate(spec.get("externalIPs", ())):
        yield from each_wrong(f"spec.externalIPs[{number}]", address, names.address(address))
    if kind not in _TYPES:
        yield unsupported("spec.type", kind, _TYPES)
    yield from _traffic_faults(spec)


def _traffic_faults(spec: Json) -> Iterator[Fault]:
    yield from one_of("spec.sessionAffinity", spec["sessionAffinity"], ("ClientIP", "None"))
    if spec["sessionAffinity"] == "ClientIP":
        seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
        if not 0 < seconds <= _MOST_SECONDS:
            at = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            yield wrong(at, seconds, f"must be greater than 0 and less than {_MOST_SECONDS}")
    if "allocateLoadBalancerNodePorts" in spec and spec["type"] != "LoadBalancer":
        why = "may only be used when `type` is 'LoadBalancer'"
        yield not_allowed("spec.allocateLoadBalancerNodePorts", why)
    for key, allowed in (
        ("internalTrafficPolicy", ("Cluster", "Local")),
        ("externalTrafficPolicy", ("Cluster", "Local")),
        ("trafficDistribution", ("PreferClose", "PreferSameZone", "PreferSameNode")),
    ):
        if key in spec and spec[key] not in allowed:
            yield unsupported(f"spec.{key}", spec[key], allowed)


def _address_faults(spec: Json) -> Iterator[Fault]:
    addresses = spec.get("clusterIPs", [])
    if spec.get("clusterIP", "") != (addresses[0] if addresses else ""):
        yield wrong("spec.clusterIPs", addresses, "first value must match `clusterIP`")
    for number, address in enumerate(addresses):
        if number == 0 and address == "None":
            if len(addresses) > 1:
                yield wrong("spec.clusterIPs", addresses, "'None' must be the first and only value")
        else:
            yield from each_wrong(f"spec.clusterIPs[{number}]", address, names.address(address))
    if len(addresses) > 2:
        yield wrong("spec.clusterIPs", addresses, "may only hold up to 2 values")
    if len(addresses) > 1 and len({":" in address for address in addresses}) == 1:
        yield wrong("spec.clusterIPs", addresses, "may specify no more than one IP for each IP family")
    for number, family in enumerate(spec.get("ipFamilies", ())):
        if family not in ("IPv4", "IPv6"):
            yield unsupported(f"spec.ipFamilies[{number}]", family, ("IPv4", "IPv6"))
        if family in spec["ipFamilies"][:number]:
            yield duplicate(f"spec.ipFamilies[{number}]", family)
    policies = ("PreferDualStack", "RequireDualStack", "SingleStack")
    if "ipFamilyPolicy" in spec and spec["ipFamilyPolicy"] not in policies:
        yield unsupported("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], policies)


def _port_faults(path: str, spec: Json) -> Iterator[Fault]:
    ports = spec.get("ports", [])
    seen: set[str] = set()
    taken: set[tuple[str, int]] = set()
    nodes: set[tuple[str, int]] = set()
    for number, port in enumerate(ports):
        at, name = f"{path}[{number}]", port.get("name", "")
        if len(ports) > 1 and not name:
            yield required(f"{at}.name")
        elif name:
            yield from each_wrong(f"{at}.name", name, names.label(name))
            if name in seen:
                yield duplicate(f"{at}.name", name)
            seen.add(name)
        yield from each_wrong(f"{at}.port", port["port"], names.port_number(port["port"]))
        yield from one_of(f"{at}.protocol", port["protocol"], PROTOCOLS)
        yield from each_wrong(f"{at}.targetPort", port["targetPort"], names.port(port["targetPort"]))
        if "appProtocol" in port:
            yield from each_wrong(f"{at}.appProtocol", port["appProtocol"], names.label_key(port["appProtocol"]))
        if "nodePort" in port and spec["type"] == "ClusterIP":
            yield not_allowed(f"{at}.nodePort", "may not be used when `type` is 'ClusterIP'")
        if "nodePort" in port:
            if (port["protocol"], port["nodePort"]) in nodes:
                yield duplicate(f"{at}.nodePort", port["nodePort"])
            nodes.add((port["protocol"], port["nodePort"]))
        if (port["protocol"], port["port"]) in taken:
            yield duplicate(at, {"protocol": port["protocol"], "port": port["port"]})
        taken.add((port["protocol"], port["port"]))


def _update_faults(spec: Json, old: Json) -> Iterator[Fault]:
    if "ExternalName" in (spec["type"], old["type"]):
        return
    new, was = spec.get("clusterIPs", []), old.get("clusterIPs", [])
    if was and (not new or new[0] != was[0]):
        yield wrong("spec.clusterIPs[0]", new, "may not change once set")

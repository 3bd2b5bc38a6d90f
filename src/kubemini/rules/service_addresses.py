"""The addresses and node ports that Services are given: free ones, from the ranges that clusters usually have."""

from __future__ import annotations

import ipaddress

from kubemini.kinds import SERVICE
from kubemini.refusals import Json, Refusal, invalid
from kubemini.rules.faults import wrong
from kubemini.rules.service import is_headless
from kubemini.store import Store

_RANGE = ipaddress.ip_network("10.96.0.0/16")
_NODE_PORTS = range(30_000, 32_768)
_FIRST_DYNAMIC = 257  # lower ones are for those who ask for an address of their own choice


def admit_addresses(store: Store, service: Json) -> None:
    """Give a Service what it leaves open; what it asks for must be free."""
    spec, metadata = service["spec"], service["metadata"]
    kind = spec.get("type", "ClusterIP")
    if kind == "ExternalName":
        return
    others = [entry.object() for entry in store.entries(SERVICE) if entry.key != _key(metadata)]
    taken = {address for each in others for address in each["spec"].get("clusterIPs", ())}
    if not spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIP"] = _free(taken)
        spec["clusterIPs"] = [spec["clusterIP"]]
    elif spec.get("clusterIP", "None") != "None" and spec["clusterIP"] in taken:
        why = "failed to allocate IP " + spec["clusterIP"] + ": provided IP is already allocated"
        raise invalid(SERVICE, metadata.get("name", ""), [wrong("spec.clusterIPs", [spec["clusterIP"]], why)])
    if not is_headless(spec) or spec.get("selector"):
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
    if kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)):
        _node_ports(
            spec, {port["nodePort"] for each in others for port in each["spec"].get("ports", ()) if "nodePort" in port}
        )


def _node_ports(spec: Json, taken: set[int]) -> None:
    free = iter(port for port in _NODE_PORTS if port not in taken)
    for port in spec.get("ports", ()):
        port.setdefault("nodePort", next(free))


def _free(taken: set[str]) -> str:
    for number in range(_FIRST_DYNAMIC, _RANGE.num_addresses - 1):
        address = str(_RANGE[number])
        if address not in taken:
            return address
    raise Refusal(500, "InternalError", "failed to allocate a serviceIP: range is full")


def _key(metadata: Json) -> tuple[str, str]:
    return (metadata.get("namespace", ""), metadata.get("name", ""))

"""The rules for nodes. A node may come with its status, as a kubelet registers it; that it is tainted at first is
done by admission."""

from __future__ import annotations

from collections.abc import Iterator

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.affinity import taint_faults
from kubemini.rules.faults import duplicate, each_wrong, not_allowed, wrong
from kubemini.rules.resources import amount_faults
from kubemini.rules.typed import TypedRules, read


class NodeRules(TypedRules):
    """What holds for nodes."""

    def prepare_create(self, body: Json) -> None:
        """Unlike those of other kinds, the status of a new node is its maker's to give."""
        read(self.kind, body)

    def default(self, body: Json) -> None:
        """Fill in what is open: all that there is can be given to pods, and one address range is the first of many."""
        spec, status = body["spec"], body["status"]
        if "capacity" in status and "allocatable" not in status:
            status["allocatable"] = dict(status["capacity"])
        if spec.get("podCIDR") and not spec.get("podCIDRs"):
            spec["podCIDRs"] = [spec["podCIDR"]]
        elif spec.get("podCIDRs") and not spec.get("podCIDR"):
            spec["podCIDR"] = spec["podCIDRs"][0]

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a node."""
        found = list(_node_faults(body))
        if before is not None:
            found += _update_faults(body, before)
        return found


def _node_faults(body: Json) -> Iterator[Fault]:
    spec, status = body["spec"], body["status"]
    yield from taint_faults("metadata.taints", spec.get("taints", ()))  # that is where the real one sees them
    for part in ("capacity", "allocatable"):
        for name, quantity in status.get(part, {}).items():
            yield from amount_faults(f"status.{part}.{name}", name, quantity)
    for number, network in enumerate(spec.get("podCIDRs", ())):
        yield from each_wrong(f"spec.podCIDRs[{number}]", network, names.network(network))


def _update_faults(body: Json, before: Json) -> Iterator[Fault]:
    spec, old = body["spec"], before["spec"]
    seen: list[Json] = []
    for number, address in enumerate(body["status"].get("addresses", ())):
        if address in seen:
            yield duplicate(f"status.addresses[{number}]", address)
        seen.append(address)
    if old.get("podCIDRs") and spec.get("podCIDRs") != old["podCIDRs"]:
        yield not_allowed("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')
    if old.get("providerID") and spec.get("providerID") != old["providerID"]:
        why = "field cannot be modified once set" if spec.get("providerID") else "field cannot be cleared once set"
        yield wrong("spec.providerID", None, why)

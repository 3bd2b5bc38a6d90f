"""What the scheduler looks at in a pod: the scheduling shape, shared by all pods of a template.

Thousands of pods have the same shape, so readers intern it: one object per distinct shape, compared by identity, and
whatever is computed from it (a mask over all nodes) is computed once.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from rescheduler.model.selector import Labels, Requirement, Selector

Requests = tuple[tuple[str, int], ...]
"""Resource and amount, sorted by name; CPU in thousandths."""


class Taint(NamedTuple):
    """A node's taint."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Toleration(NamedTuple):
    """A pod's toleration."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        """Whether this taint is tolerated, by the rules of the API."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        match self.operator or "Equal":
            case "Equal":
                return self.value == taint.value
            case "Exists":
                return True
            case "Gt" | "Lt" as operator:
                try:
                    tainted, bound = int(taint.value), int(self.value)
                except ValueError:
                    return False
                return tainted > bound if operator == "Gt" else tainted < bound
            case _:
                return False


class NodeTerm(NamedTuple):
    """One node selector term: all its expressions on labels and fields hold; an empty term matches nothing."""

    expressions: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]

    def matches(self, labels: Labels, name: str) -> bool:
        """Whether a node with these labels and this name is meant."""
        if not self.expressions and not self.fields:
            return False
        return all(r.matches(labels) for r in self.expressions) and all(
            r.matches({"metadata.name": name}) for r in self.fields
        )


class PodTerm(NamedTuple):
    """One required pod affinity or anti-affinity term; a selector of None matches no pod."""

    selector: Selector | None
    topology_key: str
    namespaces: frozenset[str] = frozenset()
    namespace_selector: Selector | None = None


class SpreadConstraint(NamedTuple):
    """One topology spread constraint, its matchLabelKeys not yet filled in."""

    max_skew: int
    topology_key: str
    selector: Selector | None
    hard: bool = True
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False
    match_label_keys: tuple[str, ...] = ()


class HostPort(NamedTuple):
    """A port that a pod takes on its node."""

    protocol: str
    ip: str
    port: int

    def clashes(self, other: HostPort) -> bool:
        """Whether both cannot be had on one node: 0.0.0.0 takes the port on every address."""
        same = (self.protocol, self.port) == (other.protocol, other.port)
        return same and (self.ip == other.ip or "0.0.0.0" in (self.ip, other.ip))  # noqa: S104 - an address to compare


class Shape(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A distinct way to be scheduled; equality is identity because readers intern it."""

    requests: Requests = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: tuple[NodeTerm, ...] | None = None
    preferred_nodes: tuple[tuple[int, NodeTerm], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    claims: tuple[str, ...] = ()
    local_storage: tuple[str, ...] = ()
    inline_disks: tuple[str, ...] = ()
    resource_claims: bool = False
    to_completion: bool = False
    """Whether its containers run until their work is done, and not for ever."""
    scheduler: str = ""
    """The scheduler that places it; empty for the default one."""

    def tolerates(self, taint: Taint) -> bool:
        """Whether any toleration covers this taint."""
        return any(toleration.tolerates(taint) for toleration in self.tolerations)

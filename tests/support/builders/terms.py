"""Small words for the terms of pods and nodes: what a test writes, and the model's values that it means.

The other builders use them for their options; tests use `near`, `away`, `spread` and `node_named` themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rescheduler.model.selector import Operator, Requirement, Selector, parse_selector, requirement, selector_of
from rescheduler.model.shape import HostPort, NodeTerm, PodTerm, SpreadConstraint, Taint, Toleration

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"

Match = Mapping[str, str] | str | Selector | None
"""Labels that must all be there, a selector's text, a selector, or None, which matches nothing."""

_SHORT = {"hostname": HOSTNAME, "zone": ZONE, "region": REGION}


def full_key(key: str) -> str:
    """The real key behind a short one."""
    return _SHORT.get(key, key)


def full_keys(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels of a node or a volume under their real keys."""
    return {full_key(key): value for key, value in labels.items()}


def selector(match: Match) -> Selector | None:
    """The selector that is meant."""
    if match is None or isinstance(match, Selector):
        return match
    if isinstance(match, str):
        return parse_selector(match)
    return selector_of([requirement(key, Operator.IN, [value]) for key, value in match.items()])


def near(
    match: Match, key: str = "zone", *, namespaces: Iterable[str] = (), namespace_selector: Match = None
) -> PodTerm:
    """A required affinity: beside such pods. Without namespaces or a selector of them: in the pod's own."""
    return PodTerm(selector(match), full_key(key), frozenset(namespaces), selector(namespace_selector))


def away(
    match: Match, key: str = "hostname", *, namespaces: Iterable[str] = (), namespace_selector: Match = None
) -> PodTerm:
    """A required anti-affinity: not beside such pods."""
    return near(match, key, namespaces=namespaces, namespace_selector=namespace_selector)


def spread(
    max_skew: int = 1,
    key: str = "zone",
    match: Match = None,
    *,
    hard: bool = True,
    min_domains: int = 1,
    honor_affinity: bool = True,
    honor_taints: bool = False,
    match_label_keys: Sequence[str] = (),
) -> SpreadConstraint:
    """A topology spread constraint; hard (DoNotSchedule) unless said otherwise."""
    return SpreadConstraint(
        max_skew=max_skew,
        topology_key=full_key(key),
        selector=selector(match),
        hard=hard,
        min_domains=min_domains,
        honor_affinity=honor_affinity,
        honor_taints=honor_taints,
        match_label_keys=tuple(match_label_keys),
    )


def node_term(term: str | NodeTerm) -> NodeTerm:
    """A node selector term of a selector's text, such as `zone in (z1,z2),disk=ssd,cores>3`."""
    if isinstance(term, NodeTerm):
        return term
    found = parse_selector(term).requirements
    return NodeTerm(tuple(Requirement(full_key(r.key), r.operator, r.values) for r in found), ())


def node_named(*names: str, operator: Operator = Operator.IN) -> NodeTerm:
    """A term on the node's name, as DaemonSets write it."""
    return NodeTerm((), (Requirement("metadata.name", operator, names),))


def taint(text: str) -> Taint:
    """`key=value:Effect` or `key:Effect`."""
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise ValueError(f"{text!r} is not a taint such as key=value:NoSchedule")
    return Taint(key, value, effect)


def toleration(text: str | Toleration) -> Toleration:
    """`key=value:Effect` (Equal), `key:Effect` or `key` (Exists); no effect is any effect, `*` is every taint."""
    if isinstance(text, Toleration):
        return text
    pair, _, effect = text.partition(":")
    key, equal, value = pair.partition("=")
    return Toleration("" if key == "*" else key, "Equal" if equal else "Exists", value, effect)


def host_port(port: int | str | HostPort) -> HostPort:
    """`8080` (TCP, every address), `UDP:53`, or `TCP:10.0.0.1:8080`."""
    if isinstance(port, HostPort):
        return port
    if isinstance(port, int):
        return HostPort("TCP", "0.0.0.0", port)
    protocol, *address, number = port.split(":")
    return HostPort(protocol, address[0] if address else "0.0.0.0", int(number))

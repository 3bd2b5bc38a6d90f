"""What a pod's shape says to the scores alone: preferred company, and how much room it is thought to need.

The planner reads neither, so its rows have neither; the ledger keeps them beside each distinct shape.
"""

from __future__ import annotations

import msgspec

from rescheduler.cluster import sections, wire
from rescheduler.cluster.pods import pod_requests
from rescheduler.model.shape import PodTerm

CPU, MEMORY = 100, 200 * 2**20
"""What kube-scheduler's scores suppose that a container needs that asks for nothing: a tenth of a CPU, 200 MiB."""


class Wishes(msgspec.Struct, frozen=True, gc=False):
    """For the scores, of all pods of one shape."""

    supposed: tuple[int, int] = (CPU, MEMORY)
    """CPU in thousandths and memory in bytes."""
    company: tuple[tuple[int, PodTerm], ...] = ()
    """Whom it would rather be near to, with a weight; those that it would rather not be near to have a negative one."""


class _Weighted(wire.Wire):
    weight: int
    pod_affinity_term: wire.PodAffinityTerm


class _Preferred(wire.Wire):
    preferred_during_scheduling_ignored_during_execution: list[_Weighted] | None = None


class _Affinity(wire.Wire):
    pod_affinity: _Preferred | None = None
    pod_anti_affinity: _Preferred | None = None


def wishes_of(spec: wire.PodSpec) -> Wishes:
    """What this pod's spec says to the scores."""
    affinity = sections.decode(spec.affinity, _Affinity, "spec.affinity") or _Affinity()
    near, away = affinity.pod_affinity, affinity.pod_anti_affinity
    return Wishes(_supposed(spec), (*_terms(near, "podAffinity", +1), *_terms(away, "podAntiAffinity", -1)))


def _supposed(spec: wire.PodSpec) -> tuple[int, int]:
    missing: dict[str | None, dict[str, int]] = {}
    for container in (*(spec.init_containers or ()), *(spec.containers or ())):
        asked = sections.resource_requests(container.resources, "spec.containers.resources")
        supposed = {"cpu": CPU, "memory": MEMORY}
        missing[container.name] = {name: number for name, number in supposed.items() if name not in asked}
    total = dict(pod_requests(spec, missing))
    return total.get("cpu", 0), total.get("memory", 0)


def _terms(found: _Preferred | None, name: str, sign: int) -> list[tuple[int, PodTerm]]:
    preferred = (found and found.preferred_during_scheduling_ignored_during_execution) or ()
    return [
        (sign * each.weight, _term(each.pod_affinity_term, f"spec.affinity.{name}.preferred[{number}]"))
        for number, each in enumerate(preferred)
    ]


def _term(term: wire.PodAffinityTerm, path: str) -> PodTerm:
    return PodTerm(
        selector=sections.label_selector(term.label_selector, f"{path}.labelSelector"),
        topology_key=term.topology_key,
        namespaces=frozenset(term.namespaces or ()),
        namespace_selector=sections.label_selector(term.namespace_selector, f"{path}.namespaceSelector"),
    )

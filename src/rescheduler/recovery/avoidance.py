"""Keeps a pod off nodes by a required node affinity that names each of them.

The webhook adds it to new pods, and `decide` to the replacement of a bare pod; `failed_pods` reads from a pending pod
which nodes it must avoid. Nodes are matched by name (a field), because the label `kubernetes.io/hostname` may differ. A
requirement on a field takes exactly one value, so each node needs its own. All requirements of a term must hold, and
any of several terms may, so every term gets all of them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

from rescheduler.model.json import Json

_NAME = "metadata.name"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def avoid_nodes(affinity: Json | None, nodes: Iterable[str]) -> Json:
    """Return the affinity with all its own rules, and without these nodes; unchanged if it excludes them already."""
    found: Json = copy.deepcopy(affinity) if affinity else {}
    names = sorted(set(nodes))
    if not names:
        return found
    of_nodes = found["nodeAffinity"] = found.get("nodeAffinity") or {}
    if not of_nodes.get(_REQUIRED):
        of_nodes[_REQUIRED] = {"nodeSelectorTerms": [{"matchFields": [_refusal(name) for name in names]}]}
    for term in of_nodes[_REQUIRED].get("nodeSelectorTerms") or ():
        if _matches_nothing(term):
            continue  # with one requirement more it would match nearly every node
        said = _refused(term)
        term["matchFields"] = [
            *(term.get("matchFields") or ()),
            *(_refusal(name) for name in names if name not in said),
        ]
    return found


def avoided_nodes(affinity: Json | None) -> frozenset[str]:
    """Return the nodes that every term excludes by name."""
    terms = [_refused(term) for term in _terms(affinity) if not _matches_nothing(term)]
    return frozenset.intersection(*terms) if terms else frozenset()


def allow_nodes(affinity: Json | None, nodes: Iterable[str]) -> Json:
    """Return the affinity without the rules against these nodes; exactly reverts `avoid_nodes`."""
    found: Json = copy.deepcopy(affinity) if affinity else {}
    gone = set(nodes)
    of_nodes = found.get("nodeAffinity") or {}
    terms = _terms(found)
    for term in terms:
        fields = term.get("matchFields") or []
        kept = [each for each in fields if not (_is_refusal(each) and each["values"][0] in gone)]
        if len(kept) < len(fields):
            term["matchFields"] = kept
            if not kept:
                del term["matchFields"]
            if not kept and _matches_nothing(term):
                # Without requirements it would match nothing, and what is meant is that it matches everything. As any
                # of the terms may hold, nothing is required then.
                del of_nodes[_REQUIRED]
                break
    if "nodeAffinity" in found and not of_nodes:
        del found["nodeAffinity"]
    return found


def _terms(affinity: Json | None) -> list[Json]:
    required = ((affinity or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    return required.get("nodeSelectorTerms") or []


def _matches_nothing(term: Json) -> bool:
    """Whether a term has no requirements: in Kubernetes it matches no node."""
    return not term.get("matchExpressions") and not term.get("matchFields")


def _refused(term: Json) -> frozenset[str]:
    return frozenset(each["values"][0] for each in term.get("matchFields") or () if _is_refusal(each))


def _refusal(node: str) -> Json:
    return {"key": _NAME, "operator": "NotIn", "values": [node]}


def _is_refusal(requirement: Json) -> bool:
    return (
        requirement.get("key") == _NAME
        and requirement.get("operator") == "NotIn"
        and len(requirement.get("values") or ()) == 1
    )

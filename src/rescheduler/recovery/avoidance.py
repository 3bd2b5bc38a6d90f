"""How a pod is kept off nodes: a required node affinity that names each of them.

The webhook puts it on new pods and `bare` on the pods it makes again; `deciding` reads from a pod that finds no place
which nodes it was told to avoid. Nodes are meant by their names (a field), because the label `kubernetes.io/hostname`
may hold something else. A requirement on a field takes exactly one value, so each node has a requirement of its own;
those of one term all hold, and of several terms any may hold, so every term gets all of them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

from rescheduler.model.json import Json

_NAME = "metadata.name"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def avoid_nodes(affinity: Json | None, nodes: Iterable[str]) -> Json:
    """The affinity with all that it asks for already, and none of these nodes; the same again if it says so already."""
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
    """The nodes that are refused by name, whatever else is asked for: those that every term refuses."""
    terms = [_refused(term) for term in _terms(affinity) if not _matches_nothing(term)]
    return frozenset.intersection(*terms) if terms else frozenset()


def allow_nodes(affinity: Json | None, nodes: Iterable[str]) -> Json:
    """The affinity that no longer refuses these nodes by name; what `avoid_nodes` added is gone without a trace."""
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
    """As Kubernetes reads it: a term without requirements matches no node."""
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

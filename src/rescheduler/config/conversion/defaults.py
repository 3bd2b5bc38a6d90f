"""Where the defaults of descheduler and koordinator differ from ours: what is stricter of the two is written out.

`converting` calls `be_careful` when all options had their turn.
"""

from __future__ import annotations

from collections.abc import Collection

from rescheduler.config.conversion.draft import Draft

_CAREFUL = ("kube-system", "kube-public")
_USUAL_LIMIT = 10
_USUAL_GRACE = "30s"
_USUAL_THRESHOLD = 80
_GRACE = "the least that an evicted pod has; a longer one of its own holds, as it does there"


def be_careful(draft: Draft) -> None:
    """Write out where the other tool's defaults differ: what is stricter of the two holds."""
    enabled = draft.data.get("enabledStrategies")
    names = [*enabled] if isinstance(enabled, list) else []
    pools = draft.get(("pools",))
    for pool in pools if isinstance(pools, list) else ():
        names += pool.get("enabledStrategies", ())
    _packing(draft, names)
    if draft.get(("migration", "evictionGracePeriod")) is None:
        draft.put(("migration", "evictionGracePeriod"), _USUAL_GRACE, (), _GRACE)
    failed = ("strategies", "FailedPods", "withoutController")
    if draft.get(failed) is not None and "FailedPods" not in names:
        loc = draft.origins[failed]
        draft.drop(failed)
        draft.settled(loc, "RemoveFailedPods is not enabled, and failed pods are not touched")
    if not draft.get(("strategies", "FailedPods")) and isinstance(draft.get(("strategies",)), dict):
        draft.drop(("strategies", "FailedPods"))
    if draft.get(("strategies",)) == {}:
        draft.drop(("strategies",))
    if draft.get(("filters", "withoutController")) is None:
        comment = "pods that nobody manages are left alone there; true moves them, by a copy"
        draft.put(("filters", "withoutController"), value=False, loc=(), comment=comment)
    if "excludedNamespaces" not in draft.data:
        kept = [name for name in _CAREFUL if name not in draft.named]
        comment = "not excluded there; name only those whose pods are to stay"
        draft.put(("excludedNamespaces",), kept, (), comment)
    if "maxReschedulePods" not in draft.data:
        if {*names} == {"Consolidation"}:
            comment = "not limited there; a node is emptied in one plan, or not at all (see maxNodesPerPlan)"
            draft.put(("maxReschedulePods",), "unlimited", (), comment)
        else:
            draft.put(("maxReschedulePods",), _USUAL_LIMIT, (), "in one plan; not limited there")
            if "Consolidation" in names:
                draft.say(
                    ("maxReschedulePods",),
                    "a node with more pods is never emptied; a higher limit is one of all strategies",
                )


def _packing(draft: Draft, names: Collection[str]) -> None:
    """What holds here for nodes that are emptied, and is nowhere said there."""
    if "Consolidation" not in names:
        return
    for name in ("cpuThreshold", "memoryThreshold"):
        if name not in draft.data and "thresholdMode" not in draft.data:
            draft.put((name,), _USUAL_THRESHOLD, (), "no node is filled above this; not so there")
    path = ("limits", "perNodeOut")
    if draft.get(path) is not None:
        why = f"a node is emptied in one plan, so one with more pods than {draft.get(path)} never is"
        draft.miss(draft.origins[path], why, "limits.perNodeOut, of all strategies")

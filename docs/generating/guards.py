"""docs/guards.md: every guard by the name that a rejection has, and what changes it."""

from __future__ import annotations

from docs.generating.markdown import table, words
from rescheduler.planning.guards.builtin import GUARDS

GUARD_SETTINGS = {
    "ExcludedNamespace": "`excludedNamespaces`",
    "ExcludedPodSelector": "`excludedPodSelector`",
    "ReschedulingDisabled": "the pod's label `scheduler.alpha.kubernetes.io/rescheduling`",
    "NamespaceFilter": "`filters.namespaces`, `filters.namespaceSelector`",
    "NodeFilter": "`filters.nodeSelector`",
    "PodFilter": "`filters.podSelector`",
    "PriorityThreshold": "`filters.priorityThreshold`",
    "SafeToEvict": "the pod's annotation `cluster-autoscaler.kubernetes.io/safe-to-evict`",
    "DoNotDisrupt": "the pod's annotation `karpenter.sh/do-not-disrupt`",
    "EvictionCost": "the pod's annotations `rescheduler.io/eviction-cost` and "
    "`scheduling.koordinator.sh/eviction-cost`",
    "PreferNoEviction": "`filters.noEvictionPolicy`, the pod's annotation "
    "`descheduler.alpha.kubernetes.io/prefer-no-eviction`",
    "Scaling": "`when.restAfterScaling`",
    "MinReplicas": "`filters.minReplicas`",
    "WithoutController": "`filters.withoutController`",
    "WithoutDisruptionBudget": "`filters.withoutDisruptionBudget`",
    "PersistentVolumes": "`filters.persistentVolumes`, `filters.protectedStorageClasses`",
    "MinPodAge": "`minPodAge`",
    "CoolDown": "`coolDown`",
    "Outcome": "`coolDown`, `outcomes.longestRest`",
    "LocalStorage": "`allow.localStorage`",
    "Job": "`allow.jobs`",
    "SingleReplica": "`allow.singleReplica`, `migrationMethod`",
}
"""Which setting or mark changes a guard; those that are not here always hold."""

PLAN_GUARDS = {
    "AlreadyMoved": ("The pod is in the plan already: no pod moves twice in one plan.", ""),
    "UnknownNode": ("The pod says that it is on a node that the input does not have.", ""),
    "MaxReschedulePods": ("The plan is full. The strategy that asked stops here.", "`maxReschedulePods`"),
    "MovesPerHour": ("More pods that move together or not at all than may go in an hour.", "`when.movesPerHour`"),
    "MovesPerHourPerNamespace": (
        "As many pods of the pod's namespace as may have begun to move within the hour, or are in the plan.",
        "`when.movesPerHourPerNamespace`",
    ),
    "NodeOutLimit": ("As many pods as may have left the pod's node.", "`limits.perNodeOut`"),
    "NamespaceLimit": ("As many pods of the pod's namespace as may are in the plan.", "`limits.perNamespace`"),
    "WorkloadLimit": ("As many pods of the pod's workload as may are in the plan.", "`limits.perWorkload`"),
    "TwoDisruptionBudgets": (
        "Two or more PodDisruptionBudgets select the pod, and it cannot be handed off: the Eviction API refuses it.",
        "`migrationMethod`",
    ),
    "DisruptionBudget": (
        "The pod's PodDisruptionBudget allows no more disruptions after the moves before it. A handoff spends none.",
        "`migrationMethod`",
    ),
    "WorkloadAtOnce": (
        "The plan evicts half of the workload's replicas already (of one replica: that one).",
        "`migrationMethod`",
    ),
    "NoRoom": ("The pod that room was to be made for would not fit all the same.", ""),
    "StillRunning": ("The pod was to be removed, and has not ended.", ""),
    "NoTarget": ("No node can take the pod. The reason counts nodes by the predicate that refuses them.", ""),
}
"""What depends on the rest of the plan (planning.budgets, planning.disruption, planning.hours, planning.planner)."""

_GUARDS = """\
A guard says which pods are not moved, whatever a strategy wants. A pod that a strategy proposed and a guard refused is
a rejection: `rescheduler plan` lists it with the guard's name and a reason, and `rescheduler explain NAMESPACE/POD`
lists every guard that objects. Pods that no strategy proposed are not listed in a plan.
"""

_PODS_GUARDS = """\
These look at the pod and its owners. They are asked in this order, and the first that objects is the one a plan shows.
"""

_TIME = """\
`MinPodAge` and `CoolDown` need to know the time. A live cluster and a recording of one, made by `rescheduler snapshot`,
say it. For other files only `--now` does; without it a plan warns that both are not checked
([why](adr/0004-the-time-is-never-guessed.md)). `Outcome` goes by the PodMigrations of a live cluster
([what moves came to](outcomes.md)); of files nothing is remembered.
"""


def guards() -> str:
    """Every guard by the name that a rejection has."""
    rows = [(f"`{name}`", words(guard), GUARD_SETTINGS.get(name, "")) for name, guard in GUARDS]
    plan_rows = [(f"`{name}`", words, setting) for name, (words, setting) in PLAN_GUARDS.items()]
    return "\n".join(
        [
            "# Guards\n",
            _GUARDS,
            "## What is never disturbed\n",
            _PODS_GUARDS,
            table(("guard", "leaves alone", "changed by"), rows),
            "## What depends on the rest of the plan\n",
            table(("guard", "meaning", "changed by"), plan_rows),
            _TIME,
        ]
    )

"""Guards: what is never disturbed, whatever a strategy wants. Each is one function that says why not, or nothing.

The planner asks them of every pod that a strategy proposes; the first that objects becomes the Rejection that `plan`,
`explain`, the page and the metrics show. They look at the pod and its surroundings only; what depends on the rest of
the plan is in `planning.disruption` and `planning.budgets`. Those that the operator sets up are in `planning.filters`,
those of workloads that are not at rest, and other tools' marks, in `planning.unrest`.
"""

from __future__ import annotations

from math import inf

from rescheduler.model import labels
from rescheduler.model.objects import Pod
from rescheduler.model.plan import Method
from rescheduler.model.policy import MigrationMethod
from rescheduler.model.time import MAX_INSTANT, format_instant
from rescheduler.planning.guards import filters, stability
from rescheduler.planning.guards.base import Guard, GuardContext

__all__ = ["GUARDS", "Guard", "GuardContext", "first_objection", "objection_to_removal", "objections"]

SYSTEM_CRITICAL = 2_000_000_000
_CRASHES = 3  # restarts after which a pod that is not Ready crashes again and again, also while it runs for a moment


def unreadable(pod: Pod, context: GuardContext) -> str:
    """Pods that the input describes in a way that cannot be understood."""
    return pod.problem


def not_running(pod: Pod, context: GuardContext) -> str:
    """Pods that are on no node, or have ended."""
    if pod.finished:
        return f"it has ended ({pod.phase})"
    return "" if pod.node else "it is not on a node yet"


def deleting(pod: Pod, context: GuardContext) -> str:
    """Pods that are being deleted."""
    return "it is being deleted" if pod.deleting else ""


def migrating(pod: Pod, context: GuardContext) -> str:
    """Pods that a migration is moving already, or failed to move a short while ago."""
    if why := context.snapshot.spoken_for.get((pod.namespace, pod.name)):
        return why
    status = pod.labels.get(labels.MIGRATION_STATUS, "")
    return (
        f"migration {pod.labels.get(labels.MIGRATION_ID, '')} is {status}"
        if status in labels.RUNNING_MIGRATIONS
        else ""
    )


def excluded_namespace(pod: Pod, context: GuardContext) -> str:
    """Pods in excludedNamespaces."""
    excluded = pod.namespace in context.policy.excluded_namespaces
    return f"namespace {pod.namespace} is in excludedNamespaces" if excluded else ""


def excluded_selector(pod: Pod, context: GuardContext) -> str:
    """Pods that excludedPodSelector selects."""
    selector = context.policy.excluded_pods
    return f"excludedPodSelector {selector} selects it" if selector is not None and selector.matches(pod.labels) else ""


def opted_out(pod: Pod, context: GuardContext) -> str:
    """Pods with the label that says never."""
    return f"label {labels.RESCHEDULING} is disabled" if pod.labels.get(labels.RESCHEDULING) == "disabled" else ""


def daemon(pod: Pod, context: GuardContext) -> str:
    """DaemonSet pods: their place is their node."""
    return f"DaemonSet {pod.owner.name} runs it on this node" if pod.owner and pod.owner.kind == "DaemonSet" else ""


def static(pod: Pod, context: GuardContext) -> str:
    """Static and mirror pods: the node's kubelet runs them from a file."""
    return "it is a static pod of its node" if pod.static else ""


def system_critical(pod: Pod, context: GuardContext) -> str:
    """Pods of system-critical priority."""
    return f"its priority {pod.priority} is system-critical" if pod.priority >= SYSTEM_CRITICAL else ""


def young(pod: Pod, context: GuardContext) -> str:
    """Pods younger than minPodAge."""
    now, least = context.snapshot.taken_at, context.policy.min_pod_age
    if now is None or pod.created is None or now - pod.created >= least or context.lifts_caution(pod):
        return ""
    return f"it is younger than minPodAge ({least:g}s)"


def resting(pod: Pod, context: GuardContext) -> str:
    """Pods of workloads that were moved less than coolDown ago, unless their node is under maintenance."""
    now, rest = context.snapshot.taken_at, context.policy.cool_down
    if pod.node in context.under_maintenance:
        return ""  # rest keeps pods from being moved to and fro; a node that is emptied takes none back
    if now is None:
        return ""
    key = context.workloads.key(pod)
    when, written = context.workloads.last_moves.get(key, (-inf, ""))
    if when is None:
        return f"annotation {labels.MIGRATION_TIME}: {written!r} is not a time such as 2026-11-15T08:30:00Z"
    # A mark goes with its pod, which may have been replaced since; what the journal tells of the move stays.
    memory = context.snapshot.memories.get(key)
    if memory is not None and (ended := min(memory.moves[0].finished, MAX_INSTANT)) > when:
        when, written = ended, format_instant(ended)
    return f"its workload was moved at {written}, less than coolDown ({rest:g}s) ago" if now - when < rest else ""


def unpaid(pod: Pod, context: GuardContext) -> str:
    """Pods of workloads whose last moves did not pay or came back, unless their node is under maintenance."""
    now = context.snapshot.taken_at
    if now is None or not context.snapshot.memories or pod.node in context.under_maintenance:
        return ""
    memory = context.snapshot.memories.get(context.workloads.key(pod))
    rest = memory.rest(context.policy) if memory is not None else None
    return rest.why if rest is not None and now < rest.until else ""


def local_storage(pod: Pod, context: GuardContext) -> str:
    """Pods with data on their node, unless allow.localStorage."""
    kept = pod.shape.local_storage
    if not kept or context.policy.allow.local_storage or context.lifts_caution(pod):
        return ""
    return f"it has local storage ({', '.join(kept)})"


def volumes(pod: Pod, context: GuardContext) -> str:
    """Pods whose volumes cannot follow them, or about whose volumes the input says nothing."""
    if pod.shape.inline_disks:
        return f"inline disk {pod.shape.inline_disks[0]} cannot be checked; use a PersistentVolumeClaim"
    snapshot = context.snapshot
    for name in pod.shape.claims:
        for kind in ("PersistentVolumeClaim", "PersistentVolume"):
            if kind not in snapshot.kinds:
                return f"it uses claim {name}, but the input has no {kind} objects"
        claim = snapshot.claims.get((pod.namespace, name))
        volume = snapshot.volumes.get(claim.volume) if claim is not None else None
        if volume is not None and volume.local:
            return f"volume {volume.name} of claim {name} is on its node and cannot follow"
        if pod.owner is None and not context.methods.shareable(pod, name):
            return f"claim {name} cannot be used on two nodes at once, and nobody would make the pod again"
    return ""


def devices(pod: Pod, context: GuardContext) -> str:
    """Pods with dynamically claimed devices: whether another node has such devices free cannot be checked."""
    return "its claimed devices (resourceClaims) cannot be checked on another node" if pod.shape.resource_claims else ""


def job(pod: Pod, context: GuardContext) -> str:
    """Pods of Jobs, unless allow.jobs: moving one starts its work again."""
    if pod.owner is None or pod.owner.kind != "Job" or context.policy.allow.jobs or context.lifts_caution(pod):
        return ""
    return f"Job {pod.owner.name} would start its work again (allow.jobs lets it)"


def method(pod: Pod, context: GuardContext) -> str:
    """Pods that migrationMethod handoff is chosen for and that cannot be handed off; or with a method that is none."""
    wanted = context.workloads.annotation(pod, labels.MIGRATION_METHOD)
    if wanted is not None and wanted not in set(MigrationMethod):
        return f"annotation {labels.MIGRATION_METHOD} is {wanted!r}, not one of {', '.join(MigrationMethod)}"
    if (wanted or context.policy.migration_method) != MigrationMethod.HANDOFF or pod.owner is None:
        return ""
    why = context.methods.cannot_hand_off(pod)
    return f"handoff is the method chosen for it, and {why}" if why else ""


def single_replica(pod: Pod, context: GuardContext) -> str:
    """Single replicas that cannot be handed off, unless allow.singleReplica: there would be a moment of none."""
    if context.policy.allow.single_replica or pod.owner is None or pod.owner.kind in ("Job", "DaemonSet", "Node"):
        return ""
    if context.methods.choose(pod) is not Method.EVICT or context.lifts_caution(pod):
        return ""
    if not pod.ready and (pod.ailment is not None or pod.restarts >= _CRASHES):
        return ""  # it crashes, or cannot start: there is none already
    workloads = context.workloads
    only = "replica" if workloads.replicas(pod) <= 1 else "Ready replica" if workloads.only_ready(pod) else ""
    if not only:
        return ""
    why = context.methods.cannot_hand_off(pod) or "evict is the method chosen for it"
    return f"it is the only {only}, and {why} (allow.singleReplica lets it)"


GUARDS: tuple[tuple[str, Guard], ...] = (
    ("Unreadable", unreadable),
    ("NotRunning", not_running),
    ("Deleting", deleting),
    ("Migrating", migrating),
    ("DaemonSet", daemon),
    ("StaticPod", static),
    ("ExcludedNamespace", excluded_namespace),
    ("ExcludedPodSelector", excluded_selector),
    ("ReschedulingDisabled", opted_out),
    ("SystemCritical", system_critical),
    ("NamespaceFilter", filters.namespace),
    ("NodeFilter", filters.node),
    ("PodFilter", filters.selector),
    ("PriorityThreshold", filters.priority),
    ("SafeToEvict", stability.not_safe_to_evict),
    ("DoNotDisrupt", stability.not_to_be_disrupted),
    ("EvictionCost", stability.too_costly),
    ("PreferNoEviction", stability.prefers_no_eviction),
    ("MinPodAge", young),
    ("CoolDown", resting),
    ("Outcome", unpaid),
    ("RollingOut", stability.rolling_out),
    ("Scaling", stability.scaling),
    ("MinReplicas", filters.replicas),
    ("WithoutController", filters.without_controller),
    ("WithoutDisruptionBudget", filters.without_disruption_budget),
    ("PersistentVolumes", filters.persistent_volumes),
    ("LocalStorage", local_storage),
    ("Volumes", volumes),
    ("ResourceClaims", devices),
    ("Job", job),
    ("MigrationMethod", method),
    ("SingleReplica", single_replica),
)
"""In the order in which they are asked: what makes the others meaningless first."""


def objections(pod: Pod, context: GuardContext) -> list[tuple[str, str]]:
    """Every guard that objects to moving the pod, with its reason."""
    return [(name, why) for name, guard in GUARDS if (why := guard(pod, context))]


def first_objection(pod: Pod, context: GuardContext) -> tuple[str, str] | None:
    """The first guard that objects, with its reason."""
    for name, guard in GUARDS:
        why = guard(pod, context)
        if why:
            return name, why
    return None


_SILENT_ON_REMOVAL = frozenset(
    {
        *("NotRunning", "SystemCritical", "MinPodAge", "CoolDown", "Outcome", "LocalStorage", "Volumes"),
        *("ResourceClaims", "Job", "MigrationMethod", "SingleReplica", "RollingOut", "Scaling", "MinReplicas"),
        *("PriorityThreshold", "SafeToEvict", "DoNotDisrupt", "EvictionCost", "PreferNoEviction"),
        *("PersistentVolumes", "WithoutDisruptionBudget", "WithoutController"),
    }
)
"""Guards that protect a pod that runs, and say nothing about one that has ended."""


def objection_to_removal(pod: Pod, context: GuardContext) -> tuple[str, str] | None:
    """The first guard that objects to removing a pod that has ended, with its reason."""
    if not pod.finished:
        return "StillRunning", "it has not ended"
    for name, guard in GUARDS:
        why = guard(pod, context) if name not in _SILENT_ON_REMOVAL else ""
        if why:
            return name, why
    return None

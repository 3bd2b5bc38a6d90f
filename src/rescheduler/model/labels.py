"""Labels and annotations: those that users set, ours, and those of other tools that are honoured."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import msgspec

PREFIX = "scheduler.alpha.kubernetes.io/"

RESCHEDULING = PREFIX + "rescheduling"  # pod label; "disabled" means never move this pod
MAINTENANCE = PREFIX + "maintenance"  # node label; "true" means empty this node and keep it empty
MIGRATION_ID = PREFIX + "migration-id"  # pod label, and workload annotation while a move is under way
MIGRATION_STATUS = PREFIX + "migration-status"
MIGRATED_FROM = PREFIX + "migrated-from"
MIGRATION_REASON = PREFIX + "migration-reason"
MIGRATION_TIME = PREFIX + "migration-time"  # pod annotation, RFC 3339
MIGRATION_METHOD = PREFIX + "migration-method"  # workload annotation: auto, handoff or evict for this one
ORIGINAL_POD = PREFIX + "original-pod"
ORIGINAL_POD_NAME = PREFIX + "original-pod-name"
SCHEDULING_RETRIES = "scheduling-retries"  # workload or pod annotation: how often to reschedule a pod that fails
MISSPELT_RETRIES = "scheduling-retires"  # a common misspelling; accepted with a warning

# Set while a move is under way, so that the next leader recognises them and can undo them.
OWN_PREFIX = "rescheduler.io/"
GATE = "rescheduler.io/move"  # scheduling gate: the copy waits until its place is reserved
WITHHELD = "rescheduler.io/withheld"  # annotation of a copy: the labels it gets when it takes over, as JSON
COST_BEFORE = "rescheduler.io/deletion-cost-before"  # annotation of an original whose deletion cost we changed
MARKS_BEFORE = "rescheduler.io/marks-before"  # annotation of an original that had marks of an earlier move, as JSON
PAUSED_BY = "rescheduler.io/paused-by"  # annotation of a Deployment that we paused: the migration
AFFINITY_BEFORE = "rescheduler.io/affinity-before"  # annotation of a ReplicaSet whose template we steer by, as JSON
FAILURES = "rescheduler.io/failures"  # annotation of a workload whose pods failed: how often and where, as JSON
NOMINATE_GATE = "rescheduler.io/nominate"  # scheduling gate that the webhook puts on a replacement, for seconds
GATED = "rescheduler.io/gated"  # annotation of a pod with that gate: its migration
PLACEHOLDER = "rescheduler.io/placeholder"  # label of a gated pod that only holds room: its migration
PROBE = "rescheduler.io/probe"  # label of a pod that is never made: whether the API server asks our webhook
REGISTERED_BY = (
    "rescheduler.io/registered-by"  # annotation of our webhook's configuration: the namespace of its installation
)
ANSWER = "rescheduler.io/probe-answer"  # annotation with which the webhook answers a probe
CORDONED = "rescheduler.io/cordoned"  # annotation of a node that we cordoned: since when
APPROVED = "rescheduler.io/approved"  # annotation of a PodMigration that needs approval: the approver
REJECTED = "rescheduler.io/rejected"  # the same for a rejection: the migration is given up
PLAN = "rescheduler.io/plan"  # label of a PodMigration: the plan that it is a part of
MANAGED_BY = "app.kubernetes.io/managed-by"  # label of what we make, with the value below
MANAGER = "rescheduler"

EVICTION_COST = "rescheduler.io/eviction-cost"  # pod annotation: among pods of one priority the lower goes first
KOORDINATOR_COST = "scheduling.koordinator.sh/eviction-cost"  # the same, as koordinator's users write it
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"  # the same, where neither of the two is given

KSE_RECORDS = MappingProxyType(
    {
        "Deployment": "kse.com/deploy",
        "ReplicaSet": "kse.com/rs",
        "StatefulSet": "kse.com/sts-pods-map",
        "DaemonSet": "kse.com/current-retries-times",
        "Job": "kse.com/job",
        "CronJob": "kse.com/cj",
        "Pod": "kse.com/pod",
    }
)
"""By kind, the annotation in which kse-rescheduler kept failure records; they are converted once."""

# Kubelets set these on mirror pods.
MIRROR = "kubernetes.io/config.mirror"
STATIC_SOURCE = "kubernetes.io/config.source"


def is_static(annotations: Mapping[str, str]) -> bool:
    """Whether a kubelet runs the pod from a file: the API server has only a mirror of it."""
    return MIRROR in annotations or annotations.get(STATIC_SOURCE, "api") != "api"


SELECTED_NODE = "volume.kubernetes.io/selected-node"  # on a claim: where its volume is being made

TEMPLATE_HASH = "pod-template-hash"
CONTROL_PLANE_ROLES = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")

RUNNING_MIGRATIONS = frozenset({"pending", "in-progress"})
TRACE_LABELS = (MIGRATION_ID, MIGRATION_STATUS, MIGRATED_FROM, MIGRATION_REASON)
TRACE_ANNOTATIONS = (MIGRATION_TIME, ORIGINAL_POD, ORIGINAL_POD_NAME)
"""What a move leaves on its replacement."""


# Of descheduler and of the two autoscalers; they are honoured.
EVICT = "descheduler.alpha.kubernetes.io/evict"  # on a pod: may be moved where only caution speaks against it
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"  # on a pod; like evict, whatever its value
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"  # on a pod; "false" means leave it alone
SAFE_LOCAL_VOLUMES = (
    "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"  # on a pod: volumes that may be lost, with commas
)
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"  # on a pod or a node; "true" means leave it alone; on a pod "4h", too
SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"  # on a node; "true": it is to stay

LONGEST_VALUE = 63


def label_value(name: str) -> str:
    """A node's name as the value of a label, which may have fewer letters."""
    return name[:LONGEST_VALUE].rstrip("-_.")


_OTHERS = (
    *(SCHEDULING_RETRIES, MISSPELT_RETRIES, MIRROR, STATIC_SOURCE, SELECTED_NODE),
    *KSE_RECORDS.values(),
    *(
        EVICT,
        PREFER_NO_EVICTION,
        SAFE_TO_EVICT,
        SAFE_LOCAL_VOLUMES,
        DO_NOT_DISRUPT,
        SCALE_DOWN_DISABLED,
        KOORDINATOR_COST,
        DELETION_COST,
    ),
)


def is_relevant(key: str) -> bool:
    """Whether this annotation is used; others are neither cached nor recorded."""
    return key.startswith((PREFIX, OWN_PREFIX)) or key in _OTHERS


MOST, LEAST = 2**31 - 1, -(2**31)
"""The bounds of a cost, as of a priority. The highest cost means never, but as pod-deletion-cost."""

_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,9}", re.ASCII)
_MARKS = (EVICTION_COST, KOORDINATOR_COST, DELETION_COST)
_STEP = 2**32  # more than costs differ by: no cost makes up for a priority
_LOWEST = -(2**63)


class EvictionCost(msgspec.Struct, frozen=True):
    """A cost, and the annotation that sets it; zero and empty without one."""

    number: int = msgspec.field(name="cost", default=0)
    mark: str = msgspec.field(name="annotation", default="")

    @property
    def never(self) -> bool:
        """Whether the pod must not be moved at all."""
        return self.number == MOST and self.mark != DELETION_COST


_NONE = EvictionCost()


def eviction_cost(annotations: Mapping[str, str]) -> EvictionCost:
    """The cost that these annotations set; one that is not a number is ignored."""
    if not annotations:
        return _NONE
    found = ((mark, _number(text)) for mark, text in _find_costs(annotations))
    return next((EvictionCost(number, mark) for mark, number in found if number is not None), _NONE)


def invalid_costs(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Cost annotations whose value is not a number, with that value."""
    return ((mark, text) for mark, text in _find_costs(annotations) if _number(text) is None)


def eviction_rank(priority: int, annotations: Mapping[str, str]) -> int:
    """Priority and cost as one 64-bit number; the lower one is moved first."""
    first = priority * _STEP
    return max(first + eviction_cost(annotations).number, _LOWEST) if annotations else first


def _find_costs(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for mark in _MARKS:
        text = annotations.get(mark)
        if mark == DELETION_COST and COST_BEFORE in annotations:
            text = annotations[COST_BEFORE] or None  # the present value is ours, during a handoff
        if text is not None:
            yield mark, text


def _number(text: str) -> int | None:
    """As Kubernetes and koordinator read it: no plus, no zeros in front, and 32 bits."""
    number = int(text) if _NUMBER.fullmatch(text) else None
    return number if number is not None and LEAST <= number <= MOST else None

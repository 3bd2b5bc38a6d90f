"""Workloads and disruption budgets, good and bad."""

from __future__ import annotations

from typing import Any

from tests.contract.rules_agree.cases import GONE, Case, cases
from tests.contract.rules_agree.pods import CONTAINER
from tests.testbed.api import Json

_LABELS = {"app": "a"}
_TEMPLATE: Json = {"metadata": {"labels": _LABELS}, "spec": {"containers": [CONTAINER]}}
_SELECTING: Json = {"selector": {"matchLabels": _LABELS}, "template": _TEMPLATE}

DEPLOYMENT: Json = {"metadata": {"name": "subject", "labels": _LABELS}, "spec": {"replicas": 0, **_SELECTING}}
REPLICA_SET: Json = DEPLOYMENT
DAEMON_SET: Json = {
    "metadata": {"name": "subject"},
    "spec": {
        "selector": {"matchLabels": _LABELS},
        "template": {
            "metadata": {"labels": _LABELS},
            "spec": {"containers": [CONTAINER], "nodeSelector": {"no": "where"}},
        },
    },
}
CLAIM: Json = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
STATEFUL_SET: Json = {
    "metadata": {"name": "subject"},
    "spec": {"replicas": 0, "serviceName": "svc", **_SELECTING, "volumeClaimTemplates": [CLAIM]},
}
JOB: Json = {
    "metadata": {"name": "subject"},
    "spec": {"suspend": True, "template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}},
}
AUTOSCALER: Json = {
    "metadata": {"name": "subject"},
    "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 5},
}
_BY_MEMORY: Json = {
    "type": "Resource",
    "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 60}},
}
BUDGET: Json = {"metadata": {"name": "subject"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": _LABELS}}}

_COMMON: dict[str, dict[str, Any]] = {
    "as plain as can be": {},
    "has no selector": {"spec.selector": GONE},
    "has an empty selector": {"spec.selector": {}},
    "has a selector that its pods do not match": {"spec.selector": {"matchLabels": {"app": "b"}}},
    "has a selector with a bad label": {"spec.selector": {"matchLabels": {"app": "b c"}}},
    "has a selector with an unknown operator": {
        "spec.selector": {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["a"]}]}
    },
    "has a selector by expression": {
        "spec.selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}
    },
    "has no template": {"spec.template": GONE},
    "has pods without labels": {"spec.template.metadata": GONE},
    "has pods that end": {"spec.template.spec.restartPolicy": "Never"},
    "has pods with a deadline": {"spec.template.spec.activeDeadlineSeconds": 5},
    "has pods with a bad container": {"spec.template.spec.containers.0.name": "Main"},
    "has pods with a bad label": {"spec.template.metadata.labels.b": "c d"},
    "has pods with a bad deletion cost": {
        "spec.template.metadata.annotations": {"controller.kubernetes.io/pod-deletion-cost": "much"}
    },
    "has pods with limits alone": {"spec.template.spec.containers.0.resources": {"limits": {"cpu": "1000m"}}},
    "has pods with a negative grace period": {"spec.template.spec.terminationGracePeriodSeconds": -1},
    "has pods that dislike nodes, by a negative weight": {
        "spec.template.spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": -50, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
        ]
    },
    "has pods with a name": {"spec.template.metadata.name": "x", "spec.template.metadata.namespace": "y"},
    "has a bad name": {"metadata.name": "Sub_ject"},
    "has a name with dots": {"metadata.name": "sub.ject"},
    "must be ready for a negative time": {"spec.minReadySeconds": -1},
    "has a status": {"status": {"replicas": 5}},
}
_REPLICAS: dict[str, dict[str, Any]] = {
    "does not say how many": {"spec.replicas": GONE},
    "wants a negative number": {"spec.replicas": -1},
    "wants a number that is a text": {"spec.replicas": "3"},
    "wants a number that is a fraction": {"spec.replicas": 1.5},
    "wants a number that is too big": {"spec.replicas": 2**31},
}
_DEPLOYMENT: dict[str, dict[str, Any]] = {
    "recreates": {"spec.strategy": {"type": "Recreate"}},
    "recreates with a surge": {"spec.strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
    "rolls by an unknown strategy": {"spec.strategy": {"type": "Jump"}},
    "rolls by numbers": {"spec.strategy": {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}},
    "can not roll": {"spec.strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}},
    "rolls by a bad share": {"spec.strategy": {"rollingUpdate": {"maxSurge": "much"}}},
    "rolls by a negative share": {"spec.strategy": {"rollingUpdate": {"maxUnavailable": -1}}},
    "rolls by more than all": {"spec.strategy": {"rollingUpdate": {"maxUnavailable": "101%", "maxSurge": "200%"}}},
    "keeps no revisions": {"spec.revisionHistoryLimit": 0},
    "keeps fewer than no revisions": {"spec.revisionHistoryLimit": -1},
    "is paused": {"spec.paused": True},
    "has less time than it must be ready for": {"spec.progressDeadlineSeconds": 5, "spec.minReadySeconds": 5},
}
_STATEFUL_SET: dict[str, dict[str, Any]] = {
    "starts in parallel": {"spec.podManagementPolicy": "Parallel"},
    "starts in an unknown way": {"spec.podManagementPolicy": "Random"},
    "is updated on delete": {"spec.updateStrategy": {"type": "OnDelete"}},
    "is updated on delete, in parts": {"spec.updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
    "is updated in an unknown way": {"spec.updateStrategy": {"type": "Jump"}},
    "is updated in a negative part": {
        "spec.updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": -1}}
    },
    "is updated by type alone": {"spec.updateStrategy": {"type": "RollingUpdate"}},
    "is updated none at a time": {"spec.updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}},
    "has no service": {"spec.serviceName": GONE},
    "has a service with a bad name": {"spec.serviceName": "Svc"},
    "has claims without a size": {"spec.volumeClaimTemplates.0.spec.resources": GONE},
    "mounts its claims": {"spec.template.spec.containers.0.volumeMounts": [{"name": "data", "mountPath": "/d"}]},
    "mounts a claim that is not there": {
        "spec.template.spec.containers.0.volumeMounts": [{"name": "other", "mountPath": "/d"}]
    },
    "keeps claims in an unknown way": {"spec.persistentVolumeClaimRetentionPolicy": {"whenScaled": "Sell"}},
    "counts from a negative number": {"spec.ordinals": {"start": -1}},
}
_DAEMON_SET: dict[str, dict[str, Any]] = {
    "is updated on delete": {"spec.updateStrategy": {"type": "OnDelete"}},
    "is updated in an unknown way": {"spec.updateStrategy": {"type": "Jump"}},
    "is updated none at a time": {"spec.updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}},
    "is updated with a surge": {"spec.updateStrategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "10%"}}},
    "is updated with a surge and a gap": {
        "spec.updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}
    },
}
_JOB: dict[str, dict[str, Any]] = {
    "as plain as can be": {},
    "does not say how it restarts": {"spec.template.spec.restartPolicy": GONE},
    "restarts always": {"spec.template.spec.restartPolicy": "Always"},
    "runs three at a time": {"spec.parallelism": 3},
    "wants five": {"spec.completions": 5},
    "wants a negative number": {"spec.completions": -5, "spec.parallelism": -1, "spec.backoffLimit": -1},
    "is indexed": {"spec.completionMode": "Indexed", "spec.completions": 3},
    "is indexed without an end": {"spec.completionMode": "Indexed", "spec.parallelism": 3},
    "is indexed in an unknown way": {"spec.completionMode": "Sorted"},
    "has a limit for each index": {
        "spec.completionMode": "Indexed",
        "spec.completions": 3,
        "spec.backoffLimitPerIndex": 2,
        "spec.maxFailedIndexes": 1,
    },
    "has a limit for each index without any": {"spec.backoffLimitPerIndex": 2},
    "has labels": {"spec.template.metadata.labels": _LABELS},
    "has a selector of its own": {
        "spec.manualSelector": True,
        "spec.selector": {"matchLabels": _LABELS},
        "spec.template.metadata.labels": _LABELS,
    },
    "has a selector that it may not have": {"spec.selector": {"matchLabels": _LABELS}},
    "wants to choose its selector and has none": {"spec.manualSelector": True},
    "knows how to fail": {
        "spec.podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}}]}
    },
    "knows how to fail by conditions": {
        "spec.podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    },
    "knows how to fail in an unknown way": {
        "spec.podFailurePolicy": {"rules": [{"action": "Cry", "onExitCodes": {"operator": "In", "values": [0]}}]}
    },
    "knows how to fail in no case": {"spec.podFailurePolicy": {"rules": [{"action": "Count"}]}},
    "replaces pods in an unknown way": {"spec.podReplacementPolicy": "Never"},
    "is managed by another": {"spec.managedBy": "example.com/mine"},
    "is managed by nobody in particular": {"spec.managedBy": "mine"},
    "has a bad name": {"metadata.name": "Sub_ject"},
}
_BUDGET: dict[str, dict[str, Any]] = {
    "as plain as can be": {},
    "says nothing": {"spec": GONE},
    "has both bounds": {"spec.maxUnavailable": 1},
    "has a share": {"spec.minAvailable": "50%"},
    "has a share of more than all": {"spec.minAvailable": "150%"},
    "has a share that is none": {"spec.minAvailable": "half"},
    "has a negative bound": {"spec.minAvailable": GONE, "spec.maxUnavailable": -1},
    "has no selector": {"spec.selector": GONE},
    "selects everything": {"spec.selector": {}},
    "has a bad selector": {"spec.selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
    "lets unready pods go": {"spec.unhealthyPodEvictionPolicy": "AlwaysAllow"},
    "treats unready pods in an unknown way": {"spec.unhealthyPodEvictionPolicy": "Ask"},
    "has a bound that is a switch": {"spec.minAvailable": True},
}

_AUTOSCALER: dict[str, dict[str, Any]] = {
    "as plain as can be": {},
    "has no target": {"spec.scaleTargetRef": GONE},
    "has a target without a name": {"spec.scaleTargetRef.name": ""},
    "has a target without a kind": {"spec.scaleTargetRef.kind": ""},
    "wants none at least": {"spec.minReplicas": 0},
    "wants less than none": {"spec.minReplicas": -1},
    "wants none at most": {"spec.maxReplicas": 0},
    "wants more than it may": {"spec.minReplicas": 9},
    "goes by a metric": {"spec.metrics": [_BY_MEMORY]},
    "has a number that is a text": {"spec.maxReplicas": "5"},
}

WORKLOAD_CASES: list[Case] = [
    *cases("Deployment", DEPLOYMENT, _COMMON | _REPLICAS | _DEPLOYMENT),
    *cases("ReplicaSet", REPLICA_SET, _COMMON | _REPLICAS),
    *cases("StatefulSet", STATEFUL_SET, _COMMON | _REPLICAS | _STATEFUL_SET),
    *cases("DaemonSet", DAEMON_SET, _COMMON | _DAEMON_SET),
    *cases("Job", JOB, _JOB),
    *cases("PodDisruptionBudget", BUDGET, _BUDGET),
    *cases("HorizontalPodAutoscaler", AUTOSCALER, _AUTOSCALER),
]

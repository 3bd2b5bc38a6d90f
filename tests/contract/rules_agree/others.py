"""Nodes, namespaces, storage, services, quotas, leases, events and webhook configurations, good and bad."""

from __future__ import annotations

from typing import Any

from tests.contract.rules_agree.cases import GONE, HERE, Case, cases
from tests.testbed.api import Json

NODE: Json = {
    "metadata": {"name": "subject", "labels": {"zone": "a"}},
    "status": {"capacity": {"cpu": "4000m", "memory": "16Gi", "pods": "110"}},
}
NAMESPACE: Json = {"metadata": {"name": "subject"}}
CLAIM: Json = {
    "metadata": {"name": "subject"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
}
VOLUME: Json = {
    "metadata": {"name": "subject"},
    "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}},
}
STORAGE_CLASS: Json = {"metadata": {"name": "subject"}, "provisioner": "example.com/x"}
CSI_NODE: Json = {
    "metadata": {"name": "subject"},
    "spec": {
        "drivers": [{"name": "example.com", "nodeID": "n", "topologyKeys": ["zone"], "allocatable": {"count": 3}}]
    },
}
SERVICE: Json = {"metadata": {"name": "subject"}, "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}}
QUOTA: Json = {"metadata": {"name": "subject"}, "spec": {"hard": {"pods": "5", "requests.cpu": "2000m"}}}
LEASE: Json = {
    "metadata": {"name": "subject"},
    "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.678901Z"},
}
PRIORITY_CLASS: Json = {"metadata": {"name": "subject"}, "value": 100}
CONFIG_MAP: Json = {"metadata": {"name": "subject"}, "data": {"a": "b"}}
SECRET: Json = {"metadata": {"name": "subject"}, "stringData": {"a": "b"}}
REVISION: Json = {"metadata": {"name": "subject"}, "revision": 1, "data": {"a": 1}}
WEBHOOKS: Json = {
    "metadata": {"name": "subject"},
    "webhooks": [
        {
            "name": "a.example.com",
            "clientConfig": {"url": "https://127.0.0.1:9/x"},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["nothing"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    ],
}
EVENT: Json = {
    "metadata": {"name": "subject"},
    "involvedObject": {"kind": "Pod", "name": "p", "namespace": HERE},
    "reason": "Because",
    "message": "so",
    "type": "Normal",
    "firstTimestamp": "2026-01-02T03:04:05Z",
}
NEW_EVENT: Json = {
    "metadata": {"name": "subject"},
    "eventTime": "2026-01-02T03:04:05.000000Z",
    "reportingController": "example.com/me",
    "reportingInstance": "me-1",
    "action": "Moved",
    "reason": "Because",
    "regarding": {"kind": "Pod", "name": "p", "namespace": HERE},
    "note": "so",
    "type": "Normal",
}

_FIRST = "webhooks.0"
_NODES: dict[str, dict[str, Any]] = {
    "as plain as can be": {},
    "has nothing": {"status": GONE},
    "has a bad name": {"metadata.name": "Node_1"},
    "is unschedulable": {"spec.unschedulable": True},
    "is tainted": {"spec.taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]},
    "is tainted as not ready": {"spec.taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
    "is tainted without an effect": {"spec.taints": [{"key": "a"}]},
    "is tainted in an unknown way": {"spec.taints": [{"key": "a", "effect": "Never"}]},
    "is tainted by a bad key": {"spec.taints": [{"key": "a b", "effect": "NoExecute"}]},
    "is tainted by a bad value": {"spec.taints": [{"key": "a", "value": "b c", "effect": "NoExecute"}]},
    "is tainted twice by the same": {"spec.taints": [{"key": "a", "effect": "NoExecute"}] * 2},
    "has less than nothing": {"status.capacity": {"cpu": "-1"}},
    "has part of a pod": {"status.capacity": {"pods": "1.5"}},
    "has a network": {"spec.podCIDR": "10.0.0.0/24"},
    "has a bad network": {"spec.podCIDR": "10.0.0.0"},
    "has conditions": {"status.conditions": [{"type": "Ready", "status": "True"}]},
}
_NAMESPACES: dict[str, dict[str, Any]] = {
    "as plain as can be": {},
    "has a name with dots": {"metadata.name": "a.b"},
    "is held by another": {"spec.finalizers": ["example.com/mine"]},
    "is held by an unknown one": {"spec.finalizers": ["mine"]},
    "is labelled with another name": {"metadata.labels": {"kubernetes.io/metadata.name": "other"}},
}
_CLAIMS: dict[str, dict[str, Any]] = {
    "has no access mode": {"spec.accessModes": GONE},
    "has an unknown access mode": {"spec.accessModes": ["Mine"]},
    "is for one pod and for many": {"spec.accessModes": ["ReadWriteOncePod", "ReadWriteMany"]},
    "has no size": {"spec.resources": GONE},
    "has a size of nothing": {"spec.resources": {"requests": {"storage": "0"}}},
    "has a class": {"spec.storageClassName": "fast"},
    "has a class with a bad name": {"spec.storageClassName": "Fast One"},
    "wants no class": {"spec.storageClassName": ""},
    "is of an unknown mode": {"spec.volumeMode": "Tape"},
    "has a bad selector": {"spec.selector": {"matchLabels": {"a": "b c"}}},
    "is a copy": {"spec.dataSource": {"kind": "PersistentVolumeClaim", "name": "other"}},
    "is a copy of nothing": {"spec.dataSourceRef": {"kind": "PersistentVolumeClaim", "name": ""}},
}
_VOLUMES: dict[str, dict[str, Any]] = {
    "as plain as can be": {},
    "has no access mode": {"spec.accessModes": GONE},
    "has no size": {"spec.capacity": GONE},
    "has a size of something else": {"spec.capacity": {"cpu": "1"}},
    "has no source": {"spec.hostPath": GONE},
    "has two sources": {"spec.nfs": {"server": "s", "path": "/p"}},
    "is reclaimed in an unknown way": {"spec.persistentVolumeReclaimPolicy": "Sell"},
    "is on some nodes": {
        "spec.hostPath": GONE,
        "spec.local": {"path": "/x"},
        "spec.nodeAffinity": {
            "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
        },
    },
    "is local to no node": {"spec.hostPath": GONE, "spec.local": {"path": "/x"}},
    "is on nodes by no terms": {"spec.nodeAffinity": {"required": {"nodeSelectorTerms": []}}},
    "is on nodes without saying": {"spec.nodeAffinity": {}},
    "comes from a driver": {"spec.hostPath": GONE, "spec.csi": {"driver": "example.com", "volumeHandle": "h"}},
    "comes from a driver without a handle": {"spec.hostPath": GONE, "spec.csi": {"driver": "Bad Name"}},
}
_CLASSES: dict[str, dict[str, Any]] = {
    "as plain as can be": {},
    "has no provisioner": {"provisioner": GONE},
    "has a bad provisioner": {"provisioner": "a b"},
    "binds late": {"volumeBindingMode": "WaitForFirstConsumer"},
    "binds in an unknown way": {"volumeBindingMode": "Never"},
    "reclaims in an unknown way": {"reclaimPolicy": "Recycle"},
    "is for some places": {"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]},
    "is for no place": {"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": []}]}]},
}
_CSI_NODES: dict[str, dict[str, Any]] = {
    "as plain as can be": {},
    "has no drivers": {"spec": GONE},
    "has a driver without a node": {"spec.drivers.0.nodeID": GONE},
    "has a driver with a bad name": {"spec.drivers.0.name": "a b"},
    "has room for less than nothing": {"spec.drivers.0.allocatable": {"count": -1}},
}
_SERVICES: dict[str, dict[str, Any]] = {
    "as plain as can be": {},
    "has no ports": {"spec.ports": GONE},
    "has two ports without names": {"spec.ports": [{"port": 80}, {"port": 81}]},
    "has the same port twice": {"spec.ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]},
    "has a port that is too high": {"spec.ports": [{"port": 80000}]},
    "has a target by name": {"spec.ports": [{"port": 80, "targetPort": "http"}]},
    "has a bad target": {"spec.ports": [{"port": 80, "targetPort": "HTTP!"}]},
    "is headless": {"spec.clusterIP": "None"},
    "is headless without ports": {"spec.clusterIP": "None", "spec.ports": GONE},
    "has an address that is none": {"spec.clusterIP": "x"},
    "is a name": {"spec.type": "ExternalName", "spec.externalName": "example.com"},
    "is no name": {"spec.type": "ExternalName"},
    "is of an unknown type": {"spec.type": "Magic"},
    "keeps clients": {"spec.sessionAffinity": "ClientIP"},
    "keeps clients in an unknown way": {"spec.sessionAffinity": "Cookie"},
    "has a node port though it may not": {"spec.ports": [{"port": 80, "nodePort": 30080}]},
    "has a bad selector": {"spec.selector": {"a": "b c"}},
    "has a name that begins with a digit": {"metadata.name": "1subject"},
    "has a name with dots": {"metadata.name": "sub.ject"},
}
_QUOTAS: dict[str, dict[str, Any]] = {
    "as plain as can be": {},
    "bounds nothing": {"spec": GONE},
    "counts objects": {"spec.hard": {"count/deployments.apps": "3", "services": "2", "requests.storage": "10Gi"}},
    "bounds something unknown": {"spec.hard": {"gold": "1"}},
    "bounds by less than nothing": {"spec.hard": {"pods": "-1"}},
    "bounds by part of a pod": {"spec.hard": {"pods": "1.5"}},
    "has a scope": {"spec.scopes": ["NotTerminating"]},
    "has an unknown scope": {"spec.scopes": ["Mine"]},
    "has scopes that exclude each other": {"spec.hard": {"pods": "1"}, "spec.scopes": ["BestEffort", "NotBestEffort"]},
    "has a scope that does not apply": {"spec.scopes": ["BestEffort"]},
    "selects by a class": {
        "spec.scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}]}
    },
    "selects by no class": {
        "spec.scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}
    },
}
_LEASES: dict[str, dict[str, Any]] = {
    "as plain as can be": {},
    "lasts no time": {"spec.leaseDurationSeconds": 0},
    "has changed hands less than never": {"spec.leaseTransitions": -1},
    "is renewed at no time": {"spec.renewTime": "yesterday"},
    "is renewed in another zone": {"spec.renewTime": "2026-01-02T03:04:05.5+02:00"},
    "has no spec": {"spec": GONE},
}
_PRIORITIES: dict[str, dict[str, Any]] = {
    "as plain as can be": {},
    "is the default": {"globalDefault": True, "description": "d", "preemptionPolicy": "Never"},
    "is too high": {"value": 1_000_000_001},
    "calls itself the system's": {"metadata.name": "system-mine"},
    "preempts in an unknown way": {"preemptionPolicy": "Maybe"},
    "has a value that is a text": {"value": "high"},
}
_DATA: dict[str, dict[str, Any]] = {
    "as plain as can be": {},
    "has a bad key": {"data": {"a b": "c"}},
    "has a key that leads upwards": {"data": {"..": "YQ=="}},
    "has nothing": {"data": GONE, "stringData": GONE},
}
_SECRETS: dict[str, dict[str, Any]] = {
    "is of a type of its own": {"type": "example.com/mine"},
    "has data that is no base64": {"data": {"a": "b c"}},
    "has the same in plain text": {"data": {"a": "eA=="}},
    "is as large as can be": {"stringData.a": "x" * 1024 * 1024},
    "is too large": {"stringData.a": "x" * (1024 * 1024 + 1)},
    "is a pair of keys": {"type": "kubernetes.io/tls", "stringData": {"tls.crt": "", "tls.key": "y"}},
    "is half a pair of keys": {"type": "kubernetes.io/tls", "stringData": {"tls.crt": "x"}},
    "is a token of nobody": {"type": "kubernetes.io/service-account-token"},
    "is a password": {"type": "kubernetes.io/basic-auth", "stringData": {"password": ""}},
    "is no password": {"type": "kubernetes.io/basic-auth"},
    "is an empty key": {"type": "kubernetes.io/ssh-auth", "stringData": {"ssh-privatekey": ""}},
    "is a registry's": {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{}"}},
    "is a registry's that can't be read": {"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "[1]"}},
    "is a registry's without anything": {"type": "kubernetes.io/dockercfg"},
    "stays as it is": {"immutable": True},
}
_EVENTS: dict[str, dict[str, Any]] = {
    "as plain as can be": {},
    "is about something elsewhere": {"involvedObject.namespace": "elsewhere"},
    "is new, and says too little": {"eventTime": "2026-01-02T03:04:05.000000Z"},
}
_NEW_EVENTS: dict[str, dict[str, Any]] = {
    "has no time": {"eventTime": GONE},
    "says not what was done": {"action": GONE, "reason": GONE},
    "says not by whom": {"reportingController": GONE, "reportingInstance": GONE},
    "is of an unknown type": {"type": "Sad"},
    "counts in the old way": {"deprecatedCount": 3},
    "is a series of one": {"series": {"count": 1, "lastObservedTime": "2026-01-02T03:04:05.000000Z"}},
    "says too much": {"note": "x" * 1025},
}
_WEBHOOKS: dict[str, dict[str, Any]] = {
    "as plain as can be": {},
    "has none": {"webhooks": GONE},
    "has a short name": {f"{_FIRST}.name": "a"},
    "has no address": {f"{_FIRST}.clientConfig": {}},
    "has an address without TLS": {f"{_FIRST}.clientConfig": {"url": "http://a/b"}},
    "has an address with a query": {f"{_FIRST}.clientConfig": {"url": "https://a/b?c=d"}},
    "has two addresses": {f"{_FIRST}.clientConfig.service": {"name": "a", "namespace": "b"}},
    "is a service": {f"{_FIRST}.clientConfig": {"service": {"name": "a", "namespace": "b"}}},
    "is a service without a name": {f"{_FIRST}.clientConfig": {"service": {"namespace": "b"}}},
    "says nothing of side effects": {f"{_FIRST}.sideEffects": GONE},
    "has side effects": {f"{_FIRST}.sideEffects": "Some"},
    "speaks no version": {f"{_FIRST}.admissionReviewVersions": []},
    "speaks an unknown version": {f"{_FIRST}.admissionReviewVersions": ["v7"]},
    "takes too long": {f"{_FIRST}.timeoutSeconds": 31},
    "fails in an unknown way": {f"{_FIRST}.failurePolicy": "Cry"},
    "is asked again in an unknown way": {f"{_FIRST}.reinvocationPolicy": "Always"},
    "has a rule for no operation": {f"{_FIRST}.rules.0.operations": []},
    "has a rule for an unknown operation": {f"{_FIRST}.rules.0.operations": ["LOOK"]},
    "has a rule for all and one": {f"{_FIRST}.rules.0.apiGroups": ["*", "apps"]},
    "has a rule for no resource": {f"{_FIRST}.rules.0.resources": []},
    "has a rule for all resources and one": {f"{_FIRST}.rules.0.resources": ["*/*", "nothing"]},
    "has a rule for an unknown scope": {f"{_FIRST}.rules.0.scope": "Some"},
    "has a bad selector": {f"{_FIRST}.objectSelector": {"matchLabels": {"a": "b c"}}},
    "is there twice": {"webhooks": [WEBHOOKS["webhooks"][0]] * 2},
}

OTHER_CASES: list[Case] = [
    *cases("Node", NODE, _NODES),
    *cases("Namespace", NAMESPACE, _NAMESPACES),
    *cases("PersistentVolumeClaim", CLAIM, _CLAIMS),
    *cases("PersistentVolume", VOLUME, _VOLUMES),
    *cases("StorageClass", STORAGE_CLASS, _CLASSES),
    *cases("CSINode", CSI_NODE, _CSI_NODES),
    *cases("Service", SERVICE, _SERVICES),
    *cases("ResourceQuota", QUOTA, _QUOTAS),
    *cases("Lease", LEASE, _LEASES),
    *cases("PriorityClass", PRIORITY_CLASS, _PRIORITIES),
    *cases("ConfigMap", CONFIG_MAP, _DATA),
    *cases("Secret", SECRET, _DATA | _SECRETS),
    *cases("ControllerRevision", REVISION, {"as plain as can be": {}, "has no data": {"data": GONE}}),
    *cases("Event", EVENT, _EVENTS),
    *cases("NewEvent", NEW_EVENT, _NEW_EVENTS),
    *cases("MutatingWebhookConfiguration", WEBHOOKS, _WEBHOOKS),
]

"""Pods, good and bad."""

from __future__ import annotations

from typing import Any

from tests.contract.rules_agree.cases import GONE, Case, cases
from tests.testbed.api import Json

CONTAINER: Json = {"name": "main", "image": "hollow:1"}
POD: Json = {"metadata": {"name": "subject", "labels": {"app": "a"}}, "spec": {"containers": [CONTAINER]}}

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NODES = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
_LIKED_NODES = f"spec.affinity.nodeAffinity.{_PREFERRED}"
_NEAR = f"spec.affinity.podAffinity.{_REQUIRED}"
_AWAY = f"spec.affinity.podAntiAffinity.{_PREFERRED}"
_FIRST = "spec.containers.0"


def _wanting(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def _spread(**fields: Any) -> list[Json]:
    usual = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return [usual | {"labelSelector": {"matchLabels": {"app": "a"}}} | fields]


def _term(**fields: Any) -> list[Json]:
    return [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}} | fields]


_IDENTITY: dict[str, dict[str, Any]] = {
    "as plain as can be": {},
    "has no name": {"metadata.name": GONE},
    "has a name with a capital letter": {"metadata.name": "Subject"},
    "has a name with an underscore": {"metadata.name": "sub_ject"},
    "has a name that is too long": {"metadata.name": "a" * 254},
    "has a bad prefix to generate a name from": {"metadata.name": GONE, "metadata.generateName": "Sub-"},
    "has a bad label key": {"metadata.labels": {"-bad": "x"}},
    "has a bad label value": {"metadata.labels": {"good": "a b"}},
    "has a label key with two slashes": {"metadata.labels": {"a/b/c": "x"}},
    "has a label key with an empty prefix": {"metadata.labels": {"/c": "x"}},
    "has a bad annotation key": {"metadata.annotations": {"a b": "x"}},
    "has an owner without a uid": {
        "metadata.ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": ""}]
    },
    "has two managing owners": {
        "metadata.ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True} for name in ("a", "b")
        ]
    },
    "is owned by an event": {
        "metadata.ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "o", "uid": "u"}]
    },
    "has a finalizer without a domain": {"metadata.finalizers": ["mine"]},
    "has a finalizer with a domain": {"metadata.finalizers": ["example.com/mine"]},
    "has a deletion cost that is no number": {
        "metadata.annotations": {"controller.kubernetes.io/pod-deletion-cost": "+5"}
    },
    "has a negative deletion cost": {
        "metadata.annotations": {"controller.kubernetes.io/pod-deletion-cost": "-2147483647"}
    },
    "claims to mirror a static pod": {"metadata.annotations": {"kubernetes.io/config.mirror": "x"}},
}
_CONTAINERS: dict[str, dict[str, Any]] = {
    "has no spec": {"spec": GONE},
    "has no containers": {"spec.containers": []},
    "has a container without a name": {f"{_FIRST}.name": GONE},
    "has a container with a bad name": {f"{_FIRST}.name": "Main"},
    "has a container with dots in its name": {f"{_FIRST}.name": "a.b"},
    "has a container without an image": {f"{_FIRST}.image": GONE},
    "has an image with spaces around": {f"{_FIRST}.image": " a "},
    "has two containers of the same name": {"spec.containers": [CONTAINER, CONTAINER]},
    "has an init container of the same name": {"spec.initContainers": [CONTAINER]},
    "has an init container": {"spec.initContainers": [CONTAINER | {"name": "first"}]},
    "has a sidecar": {"spec.initContainers": [CONTAINER | {"name": "side", "restartPolicy": "Always"}]},
    "has an init container with a probe": {
        "spec.initContainers": [CONTAINER | {"name": "first", "livenessProbe": {"exec": {"command": ["a"]}}}]
    },
    "has a container with an unknown restart policy": {f"{_FIRST}.restartPolicy": "Sometimes"},
    "has restart rules without a policy": {
        f"{_FIRST}.restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]
    },
    "has an image of a fixed version": {f"{_FIRST}.image": "registry:5000/a/b:v1"},
    "has an image by digest": {f"{_FIRST}.image": "a@sha256:" + "0" * 64},
    "has an image that is latest": {f"{_FIRST}.image": "registry:5000/a/b"},
    "has an image whose name makes no sense": {f"{_FIRST}.image": "A B"},
    "has an unknown pull policy": {f"{_FIRST}.imagePullPolicy": "Sometimes"},
    "has an unknown termination message policy": {f"{_FIRST}.terminationMessagePolicy": "Sometimes"},
    "has ports": {f"{_FIRST}.ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 81, "hostPort": 81}]},
    "has a port that is too high": {f"{_FIRST}.ports": [{"containerPort": 70000}]},
    "has a port without a number": {f"{_FIRST}.ports": [{"name": "http"}]},
    "has a port with a bad name": {f"{_FIRST}.ports": [{"containerPort": 80, "name": "-http-is-too-long"}]},
    "has a port of an unknown protocol": {f"{_FIRST}.ports": [{"containerPort": 80, "protocol": "ICMP"}]},
    "has two ports of the same name": {
        f"{_FIRST}.ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]
    },
    "has the same host port twice": {f"{_FIRST}.ports": [{"containerPort": 80, "hostPort": 8}] * 2},
    "is on the host's network": {"spec.hostNetwork": True, f"{_FIRST}.ports": [{"containerPort": 80}]},
    "is on the host's network with another host port": {
        "spec.hostNetwork": True,
        f"{_FIRST}.ports": [{"containerPort": 80, "hostPort": 81}],
    },
    "has variables": {
        f"{_FIRST}.env": [
            {"name": "A", "value": "a"},
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
            {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
        ]
    },
    "has a variable without a name": {f"{_FIRST}.env": [{"value": "a"}]},
    "has a variable with an equals sign": {f"{_FIRST}.env": [{"name": "a=b", "value": "a"}]},
    "has a variable from nowhere": {f"{_FIRST}.env": [{"name": "a", "valueFrom": {}}]},
    "has a variable from two places": {
        f"{_FIRST}.env": [{"name": "a", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    },
    "has a variable from an unknown field": {
        f"{_FIRST}.env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.nothing"}}}]
    },
    "has a variable from a field that is not for variables": {
        f"{_FIRST}.env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]
    },
    "has a variable from an unknown resource": {
        f"{_FIRST}.env": [{"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "limits.gold"}}}]
    },
    "has a variable from a secret without a key": {
        f"{_FIRST}.env": [{"name": "a", "valueFrom": {"secretKeyRef": {"name": "s"}}}]
    },
    "has variables from a map without a name": {f"{_FIRST}.envFrom": [{"configMapRef": {}}]},
    "has variables from nowhere": {f"{_FIRST}.envFrom": [{"prefix": "a"}]},
    "has a probe": {f"{_FIRST}.readinessProbe": {"httpGet": {"port": 80}}},
    "has a probe by the name of a port": {f"{_FIRST}.livenessProbe": {"tcpSocket": {"port": "http"}}},
    "has a probe over grpc": {f"{_FIRST}.startupProbe": {"grpc": {"port": 80}}},
    "has a probe without a handler": {f"{_FIRST}.readinessProbe": {"periodSeconds": 3}},
    "has a probe with two handlers": {
        f"{_FIRST}.readinessProbe": {"exec": {"command": ["a"]}, "tcpSocket": {"port": 80}}
    },
    "has a probe of an empty command": {f"{_FIRST}.readinessProbe": {"exec": {}}},
    "has a probe with a negative period": {
        f"{_FIRST}.readinessProbe": {"exec": {"command": ["a"]}, "periodSeconds": -1}
    },
    "has a liveness probe that must succeed twice": {
        f"{_FIRST}.livenessProbe": {"exec": {"command": ["a"]}, "successThreshold": 2}
    },
    "has a readiness probe with a grace period": {
        f"{_FIRST}.readinessProbe": {"exec": {"command": ["a"]}, "terminationGracePeriodSeconds": 3}
    },
    "has hooks": {f"{_FIRST}.lifecycle": {"preStop": {"sleep": {"seconds": 3}}, "postStart": {"httpGet": {"port": 8}}}},
    "sleeps longer than its grace period": {f"{_FIRST}.lifecycle": {"preStop": {"sleep": {"seconds": 99}}}},
    "has a hook without a handler": {f"{_FIRST}.lifecycle": {"preStop": {}}},
    "may be resized": {f"{_FIRST}.resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]},
    "is privileged and may not escalate": {
        f"{_FIRST}.securityContext": {"privileged": True, "allowPrivilegeEscalation": False}
    },
    "runs as a negative user": {f"{_FIRST}.securityContext": {"runAsUser": -1}},
    "has a seccomp profile of an unknown sort": {f"{_FIRST}.securityContext": {"seccompProfile": {"type": "Mine"}}},
    "has a local seccomp profile without a name": {"spec.securityContext": {"seccompProfile": {"type": "Localhost"}}},
}
_RESOURCES: dict[str, dict[str, Any]] = {
    "has limits alone": {f"{_FIRST}.resources": {"limits": {"cpu": "1000m", "memory": "1024Mi", "example.com/x": "3"}}},
    "asks for amounts written in many ways": {
        f"{_FIRST}.resources": {
            "requests": {"cpu": "0.5", "memory": "1.5Gi", "ephemeral-storage": "1000000", "hugepages-2Mi": "4Mi"},
            "limits": {"cpu": 2, "memory": "2e9", "ephemeral-storage": "1500k", "hugepages-2Mi": "4Mi"},
        }
    },
    "asks for less than a thousandth": {f"{_FIRST}.resources": {"requests": {"cpu": "0.0001"}}},
    "asks for more than its limit": {f"{_FIRST}.resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
    "asks for a negative amount": {f"{_FIRST}.resources": {"requests": {"cpu": "-1"}}},
    "asks for something that is no quantity": {f"{_FIRST}.resources": {"requests": {"cpu": "much"}}},
    "asks for an unknown resource": {f"{_FIRST}.resources": {"requests": {"gold": "1"}}},
    "asks for pods": {f"{_FIRST}.resources": {"requests": {"pods": "1"}}},
    "asks for a part of a device": {f"{_FIRST}.resources": {"limits": {"example.com/x": "1.5"}}},
    "asks for a device without a limit": {f"{_FIRST}.resources": {"requests": {"example.com/x": "1"}}},
    "asks for fewer devices than its limit": {
        f"{_FIRST}.resources": {"requests": {"example.com/x": "1"}, "limits": {"example.com/x": "2"}}
    },
    "asks for huge pages alone": {f"{_FIRST}.resources": {"limits": {"hugepages-2Mi": "2Mi"}}},
    "asks for a part of a huge page": {f"{_FIRST}.resources": {"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}}},
    "asks for something for all containers together": {
        "spec.resources": {"requests": {"cpu": "2"}},
        f"{_FIRST}.resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
    },
    "asks for less together than its containers do": {
        "spec.resources": {"requests": {"cpu": "1"}},
        f"{_FIRST}.resources": {"requests": {"cpu": "2"}},
    },
    "asks for devices for all containers together": {"spec.resources": {"limits": {"example.com/x": "2"}}},
    "is guaranteed what it asks for": {
        f"{_FIRST}.resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}
    },
    "names a claim that is not there": {f"{_FIRST}.resources": {"claims": [{"name": "c"}]}},
    "has overhead": {"spec.overhead": {"cpu": "100m"}},
}
_PLACEMENT: dict[str, dict[str, Any]] = {
    "selects nodes": {"spec.nodeSelector": {"zone": "a"}},
    "selects nodes by a bad label": {"spec.nodeSelector": {"zone": "a b"}},
    "needs nodes": {_NODES: [_wanting("zone", "In", "a", "b")]},
    "needs nodes but has no terms": {_NODES: []},
    "needs nodes in no zone": {_NODES: [_wanting("zone", "In")]},
    "needs nodes with a value for Exists": {_NODES: [_wanting("zone", "Exists", "a")]},
    "needs nodes with two values for Gt": {_NODES: [_wanting("zone", "Gt", "1", "2")]},
    "needs nodes by an unknown operator": {_NODES: [_wanting("zone", "Near", "a")]},
    "needs nodes by a bad key": {_NODES: [_wanting("-zone", "In", "a")]},
    "needs nodes by a bad value": {_NODES: [_wanting("zone", "In", "a b")]},
    "needs a node by its name": {
        _NODES: [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
    },
    "needs a node by another field": {
        _NODES: [{"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["n"]}]}]
    },
    "needs two nodes by their names": {
        _NODES: [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n", "m"]}]}]
    },
    "likes nodes": {_LIKED_NODES: [{"weight": 100, "preference": _wanting("zone", "NotIn", "a")}]},
    "likes nodes by a bad value": {_LIKED_NODES: [{"weight": 1, "preference": _wanting("zone", "In", "a b")}]},
    "dislikes nodes, by a negative weight": {
        _LIKED_NODES: [{"weight": -50, "preference": _wanting("zone", "In", "a")}]
    },
    "likes nodes too much": {_LIKED_NODES: [{"weight": 101, "preference": _wanting("zone", "In", "a")}]},
    "likes nodes not at all": {_LIKED_NODES: [{"weight": 0, "preference": _wanting("zone", "In", "a")}]},
    "is near other pods": {_NEAR: _term()},
    "is near other pods of other namespaces": {_NEAR: _term(namespaces=["x"], namespaceSelector={})},
    "is near other pods nowhere": {_NEAR: _term(topologyKey="")},
    "is near other pods of a bad namespace": {_NEAR: _term(namespaces=["X"])},
    "is near other pods by a bad topology": {_NEAR: _term(topologyKey="a b")},
    "is near other pods by a bad selector": {_NEAR: _term(labelSelector={"matchLabels": {"a": "b c"}})},
    "is near other pods of the same revision": {_NEAR: _term(matchLabelKeys=["app"], labelSelector={})},
    "is near other pods by a key twice": {_NEAR: _term(matchLabelKeys=["app"])},
    "is near other pods by keys without a selector": {_NEAR: [{"topologyKey": "zone", "matchLabelKeys": ["app"]}]},
    "avoids other pods": {_AWAY: [{"weight": 5, "podAffinityTerm": _term()[0]}]},
    "avoids other pods too much": {_AWAY: [{"weight": 500, "podAffinityTerm": _term()[0]}]},
    "tolerates everything": {"spec.tolerations": [{"operator": "Exists"}]},
    "tolerates a taint": {"spec.tolerations": [{"key": "a", "value": "b", "effect": "NoSchedule"}]},
    "tolerates a lost node for a while": {
        "spec.tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
        ]
    },
    "tolerates by an unknown operator": {"spec.tolerations": [{"key": "a", "operator": "Near"}]},
    "tolerates by comparison": {"spec.tolerations": [{"key": "a", "operator": "Gt", "value": "5"}]},
    "tolerates no key": {"spec.tolerations": [{"value": "b"}]},
    "tolerates by a bad key": {"spec.tolerations": [{"key": "a b", "operator": "Exists"}]},
    "tolerates any value, and says which": {"spec.tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
    "tolerates an unknown effect": {"spec.tolerations": [{"key": "a", "operator": "Exists", "effect": "Never"}]},
    "tolerates for a while what evicts nobody": {
        "spec.tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}]
    },
    "spreads": {"spec.topologySpreadConstraints": _spread(minDomains=2, nodeTaintsPolicy="Honor")},
    "spreads with no skew": {"spec.topologySpreadConstraints": _spread(maxSkew=0)},
    "spreads over nothing": {"spec.topologySpreadConstraints": _spread(topologyKey="")},
    "spreads or does something unknown": {"spec.topologySpreadConstraints": _spread(whenUnsatisfiable="Panic")},
    "spreads softly over at least two domains": {
        "spec.topologySpreadConstraints": _spread(whenUnsatisfiable="ScheduleAnyway", minDomains=2)
    },
    "spreads over no domain": {"spec.topologySpreadConstraints": _spread(minDomains=0)},
    "spreads by the same rule twice": {"spec.topologySpreadConstraints": _spread() + _spread(maxSkew=2)},
    "spreads by an unknown policy": {"spec.topologySpreadConstraints": _spread(nodeAffinityPolicy="Maybe")},
    "spreads by a bad selector": {
        "spec.topologySpreadConstraints": _spread(labelSelector={"matchExpressions": [{"key": "a", "operator": "In"}]})
    },
    "spreads each revision": {
        "spec.topologySpreadConstraints": _spread(matchLabelKeys=["app"], labelSelector={"matchLabels": {"b": "c"}})
    },
    "spreads by a key twice": {"spec.topologySpreadConstraints": _spread(matchLabelKeys=["app"])},
    "is gated": {"spec.schedulingGates": [{"name": "example.com/gate"}]},
    "is gated twice by the same": {"spec.schedulingGates": [{"name": "a"}, {"name": "a"}]},
    "is gated by a bad name": {"spec.schedulingGates": [{"name": "a b"}]},
    "is gated and has a node": {"spec.schedulingGates": [{"name": "a"}], "spec.nodeName": "n"},
    "has a node": {"spec.nodeName": "n"},
    "has a node with a bad name": {"spec.nodeName": "N"},
    "has a class of priority": {"spec.priorityClassName": "system-node-critical"},
    "has an unknown class of priority": {"spec.priorityClassName": "nope"},
    "has a class with a bad name": {"spec.priorityClassName": "No Pe"},
    "has a priority of its own": {"spec.priority": 5},
    "never preempts": {"spec.preemptionPolicy": "Never"},
    "has an unknown way to preempt": {"spec.preemptionPolicy": "Rarely"},
}
_VOLUMES: dict[str, dict[str, Any]] = {
    "has volumes": {
        "spec.volumes": [
            {"name": "a"},
            {"name": "b", "hostPath": {"path": "/x"}},
            {"name": "c", "configMap": {"name": "m", "items": [{"key": "k", "path": "p"}]}},
            {"name": "d", "secret": {"secretName": "s"}},
            {"name": "e", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "f", "emptyDir": {"medium": "Memory", "sizeLimit": "1024Ki"}},
            {"name": "g", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            {"name": "h", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {"name": "i", "csi": {"driver": "example.com"}},
            {"name": "j", "nfs": {"server": "s", "path": "/p"}},
            {"name": "k", "image": {"reference": "a:1"}},
        ],
        f"{_FIRST}.volumeMounts": [{"name": "a", "mountPath": "/a"}],
    },
    "has a volume without a name": {"spec.volumes": [{"emptyDir": {}}]},
    "has a volume with a bad name": {"spec.volumes": [{"name": "A"}]},
    "has a volume of two sorts": {"spec.volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/x"}}]},
    "has two volumes of the same name": {"spec.volumes": [{"name": "a"}, {"name": "a"}]},
    "has a volume from a claim without a name": {"spec.volumes": [{"name": "a", "persistentVolumeClaim": {}}]},
    "has a volume from a folder that leads upwards": {"spec.volumes": [{"name": "a", "hostPath": {"path": "/x/.."}}]},
    "has a volume from a folder of an unknown sort": {
        "spec.volumes": [{"name": "a", "hostPath": {"path": "/x", "type": "Box"}}]
    },
    "has a volume from a map without a name": {"spec.volumes": [{"name": "a", "configMap": {}}]},
    "has a volume from a secret with a bad mode": {
        "spec.volumes": [{"name": "a", "secret": {"secretName": "s", "defaultMode": 1000}}]
    },
    "has a volume from a relative file server": {"spec.volumes": [{"name": "a", "nfs": {"server": "s", "path": "p"}}]},
    "has a volume from a map that leads upwards": {
        "spec.volumes": [{"name": "a", "configMap": {"name": "m", "items": [{"key": "k", "path": "../p"}]}}]
    },
    "has a volume of a negative size": {"spec.volumes": [{"name": "a", "emptyDir": {"sizeLimit": "-1"}}]},
    "has a token that expires at once": {
        "spec.volumes": [
            {"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 5}}]}}
        ]
    },
    "has a volume of its own": {
        "spec.volumes": [
            {
                "name": "a",
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}
                    }
                },
            }
        ]
    },
    "has a volume of its own without a size": {
        "spec.volumes": [{"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["Mine"]}}}}]
    },
    "mounts a volume that is not there": {f"{_FIRST}.volumeMounts": [{"name": "a", "mountPath": "/a"}]},
    "mounts nowhere": {"spec.volumes": [{"name": "a"}], f"{_FIRST}.volumeMounts": [{"name": "a"}]},
    "mounts twice at the same place": {
        "spec.volumes": [{"name": "a"}],
        f"{_FIRST}.volumeMounts": [{"name": "a", "mountPath": "/a"}] * 2,
    },
    "mounts a part that leads upwards": {
        "spec.volumes": [{"name": "a"}],
        f"{_FIRST}.volumeMounts": [{"name": "a", "mountPath": "/a", "subPath": "../x"}],
    },
    "uses a folder as a device": {
        "spec.volumes": [{"name": "a"}],
        f"{_FIRST}.volumeDevices": [{"name": "a", "devicePath": "/dev/a"}],
    },
}
_REST: dict[str, dict[str, Any]] = {
    "restarts on failure": {"spec.restartPolicy": "OnFailure"},
    "restarts in an unknown way": {"spec.restartPolicy": "Sometimes"},
    "has an unknown way to resolve names": {"spec.dnsPolicy": "Guess"},
    "resolves names by itself": {"spec.dnsPolicy": "None"},
    "resolves names by a server that is no address": {"spec.dnsConfig": {"nameservers": ["x"]}},
    "searches in a bad domain": {"spec.dnsConfig": {"searches": ["a b"]}},
    "has a negative grace period": {"spec.terminationGracePeriodSeconds": -5},
    "has no grace period": {"spec.terminationGracePeriodSeconds": 0},
    "has no time at all": {"spec.activeDeadlineSeconds": 0},
    "has a bad host name": {"spec.hostname": "a.b"},
    "has an alias that is no address": {"spec.hostAliases": [{"ip": "x", "hostnames": ["a"]}]},
    "has another account": {"spec.serviceAccountName": "nope"},
    "has an account by its old name": {"spec.serviceAccount": "default"},
    "wants no token": {"spec.automountServiceAccountToken": False},
    "has an ephemeral container": {"spec.ephemeralContainers": [CONTAINER | {"name": "e"}]},
    "has a bad readiness gate": {"spec.readinessGates": [{"conditionType": "a b"}]},
    "runs on an unknown system": {"spec.os": {"name": "plan9"}},
    "has its own users on the host's network": {"spec.hostUsers": False, "spec.hostPID": True},
    "shares processes with the host and within": {"spec.shareProcessNamespace": True, "spec.hostPID": True},
    "has unknown fields": {"spec.nonsense": 1, f"{_FIRST}.nonsense": {"a": 1}},
    "has fields that are null": {"spec.nodeName": None, f"{_FIRST}.command": None, "metadata.labels": None},
    "has fields that are empty": {"spec.nodeName": "", f"{_FIRST}.command": [], "spec.tolerations": []},
    "has a status": {"status": {"phase": "Running", "podIP": "1.2.3.4"}},
    "has a spec that is a text": {"spec": "x"},
    "has containers that are no list": {"spec.containers": {}},
    "has a name that is a number": {f"{_FIRST}.name": 5},
    "has a label that is a number": {"metadata.labels": {"a": 1}},
    "has a switch that is a text": {"spec.hostNetwork": "true"},
    "has a port that is a text": {f"{_FIRST}.ports": [{"containerPort": "80"}]},
    "has a class of runtime": {"spec.runtimeClassName": "nope"},
}

POD_CASES: list[Case] = [
    case
    for listed in (_IDENTITY, _CONTAINERS, _RESOURCES, _PLACEMENT, _VOLUMES, _REST)
    for case in cases("Pod", POD, listed)
]

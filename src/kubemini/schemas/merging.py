"""How the lists and maps of built-in kinds are merged, where it is not the usual way. The contract tests ask the real
API server whether it says the same.

Usually objects merge field by field and lists are replaced as a whole. A line of MERGING is a type and its fields:

    name              items are told apart by this key; strategic patches and apply merge them
    port,protocol     the same by two keys, of which a strategic patch looks at the first alone
    apply:name        the same for apply alone;   patch:ip   for strategic patches alone
    set               a set to apply;   merge   a set to both
    atomic            a map that one applier writes as a whole;   granular   not so, although its type is in ATOMIC
    replace           not merged by strategic patches
"""

ATOMIC = frozenset(
    {
        "ConfigMapKeySelector",
        "FileKeySelector",
        "LabelSelector",
        "LocalObjectReference",
        "NodeSelector",
        "NodeSelectorTerm",
        "ObjectFieldSelector",
        "ObjectReference",
        "OwnerReference",
        "ResourceFieldSelector",
        "ScopeSelector",
        "SecretKeySelector",
        "SecretReference",
        "TopologySelectorTerm",
        "TypedLocalObjectReference",
    }
)
"""Types whose objects one applier writes as a whole."""

KEY_DEFAULTS = {"protocol": "TCP"}
"""What a key is where an item does not give it, if it is not just empty."""

MERGING = """
ObjectMeta: finalizers=merge ownerReferences=uid
PodSpec: containers=name initContainers=name ephemeralContainers=name volumes=name imagePullSecrets=name
  hostAliases=ip schedulingGates=name resourceClaims=name topologySpreadConstraints=topologyKey,whenUnsatisfiable
  nodeSelector=atomic
Container: env=name ports=containerPort,protocol volumeMounts=mountPath volumeDevices=devicePath
EphemeralContainer: env=name ports=containerPort,protocol volumeMounts=mountPath volumeDevices=devicePath
ContainerRestartRuleOnExitCodes: values=set
ResourceRequirements: claims=apply:name
PodStatus: conditions=type podIPs=ip hostIPs=patch:ip resourceClaimStatuses=name
ContainerStatus: volumeMounts=mountPath allocatedResourcesStatus=name
NodeSpec: podCIDRs=merge
NodeStatus: conditions=type addresses=type
NamespaceStatus: conditions=type
ServiceSpec: ports=port,protocol selector=atomic
ServiceStatus: conditions=type
ServiceAccount: secrets=name
PersistentVolumeSpec: claimRef=granular
PersistentVolumeClaimStatus: conditions=type
CSINodeSpec: drivers=name
CSINodeStatus: storageHealth=name
DeploymentStatus: conditions=type
ReplicaSetStatus: conditions=type
StatefulSetStatus: conditions=type
DaemonSetStatus: conditions=type
JobStatus: conditions=patch:type
PodFailurePolicyOnExitCodesRequirement: values=set
UncountedTerminatedPods: failed=set succeeded=set
PodDisruptionBudgetSpec: selector=replace
PodDisruptionBudgetStatus: conditions=type
HorizontalPodAutoscalerStatus: conditions=type
MutatingWebhookConfiguration: webhooks=name
MutatingWebhook: matchConditions=name
CustomResourceDefinitionStatus: conditions=apply:type
JSONSchemaProps: x-kubernetes-validations=rule
"""

"""The fields of nodes, namespaces, storage, services, events and the like, as `forms` reads them.

`NewEvent` is the Event of events.k8s.io; `Event` is the one of the core group.
"""

CLUSTER_FIELDS = """
Taint = key! value effect! timeAdded:*Time;
NodeSpec = podCIDR podCIDRs:[string] providerID unschedulable:bool taints:[Taint] configSource:*any externalID;
NodeCondition = type! status! lastHeartbeatTime:Time lastTransitionTime:Time reason message;
NodeAddress = type! address!;
DaemonEndpoint = Port!:int32;
NodeDaemonEndpoints = kubeletEndpoint:DaemonEndpoint;
NodeSwapStatus = capacity:*int64;
NodeSystemInfo = machineID! systemUUID! bootID! kernelVersion! osImage! containerRuntimeVersion! kubeletVersion!
  kubeProxyVersion! operatingSystem! architecture! swap:*NodeSwapStatus runningInUserNamespace:*bool;
ContainerImage = names!:[string] sizeBytes:int64;
AttachedVolume = name! devicePath!;
NodeRuntimeHandlerFeatures = recursiveReadOnlyMounts:*bool userNamespaces:*bool;
NodeRuntimeHandler = name! features:*NodeRuntimeHandlerFeatures;
NodeFeatures = supplementalGroupsPolicy:*bool;
NodeStatus = capacity:{Quantity} allocatable:{Quantity} phase conditions:[NodeCondition] addresses:[NodeAddress]
  daemonEndpoints:NodeDaemonEndpoints nodeInfo:NodeSystemInfo images:[ContainerImage] volumesInUse:[string]
  volumesAttached:[AttachedVolume] config:*any runtimeHandlers:[NodeRuntimeHandler] features:*NodeFeatures
  declaredFeatures:[string];
Node = kind apiVersion metadata:ObjectMeta spec:NodeSpec status:NodeStatus;
NamespaceSpec = finalizers:[string];
NamespaceCondition = type! status! lastTransitionTime:Time reason message;
NamespaceStatus = phase conditions:[NamespaceCondition];
Namespace = kind apiVersion metadata:ObjectMeta spec:NamespaceSpec status:NamespaceStatus;
PersistentVolumeClaimCondition = type! status! lastProbeTime:Time lastTransitionTime:Time reason message;
ModifyVolumeStatus = targetVolumeAttributesClassName status!;
PersistentVolumeClaimStatus = phase accessModes:[string] capacity:{Quantity}
  conditions:[PersistentVolumeClaimCondition] allocatedResources:{Quantity} allocatedResourceStatuses:{string}
  currentVolumeAttributesClassName:*string modifyVolumeStatus:*ModifyVolumeStatus;
PersistentVolumeClaim = kind apiVersion metadata:ObjectMeta spec:PersistentVolumeClaimSpec
  status:PersistentVolumeClaimStatus;
SecretReference = name namespace;
LocalVolumeSource = path! fsType:*string;
ObjectReference = kind namespace name uid apiVersion resourceVersion fieldPath;
CSIPersistentVolumeSource = driver! volumeHandle! readOnly:bool fsType volumeAttributes:{string}
  controllerPublishSecretRef:*SecretReference nodeStageSecretRef:*SecretReference
  nodePublishSecretRef:*SecretReference controllerExpandSecretRef:*SecretReference
  nodeExpandSecretRef:*SecretReference;
VolumeNodeAffinity = required:*NodeSelector;
PersistentVolumeSpec = capacity:{Quantity} gcePersistentDisk:*any awsElasticBlockStore:*any
  hostPath:*HostPathVolumeSource glusterfs:*any nfs:*NFSVolumeSource rbd:*any iscsi:*any cinder:*any cephfs:*any
  fc:*any flocker:*any flexVolume:*any azureFile:*any vsphereVolume:*any quobyte:*any azureDisk:*any
  photonPersistentDisk:*any portworxVolume:*any scaleIO:*any local:*LocalVolumeSource storageos:*any
  csi:*CSIPersistentVolumeSource accessModes:[string] claimRef:*ObjectReference persistentVolumeReclaimPolicy
  storageClassName mountOptions:[string] volumeMode:*string nodeAffinity:*VolumeNodeAffinity
  volumeAttributesClassName:*string;
PersistentVolumeStatus = phase message reason lastPhaseTransitionTime:*Time;
PersistentVolume = kind apiVersion metadata:ObjectMeta spec:PersistentVolumeSpec status:PersistentVolumeStatus;
ServicePort = name protocol appProtocol:*string port!:int32 targetPort:IntOrString nodePort:int32;
ClientIPConfig = timeoutSeconds:*int32;
SessionAffinityConfig = clientIP:*ClientIPConfig;
ServiceSpec = ports:[ServicePort] selector:{string} clusterIP clusterIPs:[string] type externalIPs:[string]
  sessionAffinity loadBalancerIP loadBalancerSourceRanges:[string] externalName externalTrafficPolicy
  healthCheckNodePort:int32 publishNotReadyAddresses:bool sessionAffinityConfig:*SessionAffinityConfig
  ipFamilies:[string] ipFamilyPolicy:*string allocateLoadBalancerNodePorts:*bool loadBalancerClass:*string
  internalTrafficPolicy:*string trafficDistribution:*string;
PortStatus = port!:int32 protocol! error:*string;
LoadBalancerIngress = ip hostname ipMode:*string ports:[PortStatus];
LoadBalancerStatus = ingress:[LoadBalancerIngress];
Condition = type! status! observedGeneration:int64 lastTransitionTime!:Time reason! message!;
ServiceStatus = loadBalancer:LoadBalancerStatus conditions:[Condition];
Service = kind apiVersion metadata:ObjectMeta spec:ServiceSpec status:ServiceStatus;
ScopedResourceSelectorRequirement = scopeName! operator! values:[string];
ScopeSelector = matchExpressions:[ScopedResourceSelectorRequirement];
ResourceQuotaSpec = hard:{Quantity} scopes:[string] scopeSelector:*ScopeSelector;
ResourceQuotaStatus = hard:{Quantity} used:{Quantity};
ResourceQuota = kind apiVersion metadata:ObjectMeta spec:ResourceQuotaSpec status:ResourceQuotaStatus;
ConfigMap = kind apiVersion metadata:ObjectMeta immutable:*bool data:{string} binaryData:{bytes};
Secret = kind apiVersion metadata:ObjectMeta immutable:*bool data:{bytes} stringData:{string} type;
ServiceAccount = kind apiVersion metadata:ObjectMeta secrets:[ObjectReference] imagePullSecrets:[LocalObjectReference]
  automountServiceAccountToken:*bool;
EventSource = component host;
EventSeries = count:int32 lastObservedTime:MicroTime;
Event = kind apiVersion metadata!:ObjectMeta involvedObject!:ObjectReference reason message source:EventSource
  firstTimestamp:Time lastTimestamp:Time count:int32 type eventTime:MicroTime series:*EventSeries action
  related:*ObjectReference reportingComponent! reportingInstance!;
NewEventSeries = count!:int32 lastObservedTime!:MicroTime;
NewEvent = kind apiVersion metadata!:ObjectMeta eventTime!:MicroTime series:*NewEventSeries reportingController
  reportingInstance action reason regarding:ObjectReference related:*ObjectReference note type
  deprecatedSource:EventSource deprecatedFirstTimestamp:Time deprecatedLastTimestamp:Time deprecatedCount:int32;
Preconditions = uid:*string resourceVersion:*string;
DeleteOptions = kind apiVersion gracePeriodSeconds:*int64 preconditions:*Preconditions orphanDependents:*bool
  propagationPolicy:*string dryRun:[string] ignoreStoreReadErrorWithClusterBreakingPotential:*bool;
Eviction = kind apiVersion metadata:ObjectMeta deleteOptions:*DeleteOptions;
Binding = kind apiVersion metadata:ObjectMeta target!:ObjectReference;
ScaleSpec = replicas:int32;
ScaleStatus = replicas!:int32 selector;
Scale = kind apiVersion metadata:ObjectMeta spec:ScaleSpec status:ScaleStatus;
LeaseSpec = holderIdentity:*string leaseDurationSeconds:*int32 acquireTime:*MicroTime renewTime:*MicroTime
  leaseTransitions:*int32;
Lease = kind apiVersion metadata:ObjectMeta spec:LeaseSpec;
TopologySelectorLabelRequirement = key! values!:[string];
TopologySelectorTerm = matchLabelExpressions:[TopologySelectorLabelRequirement];
StorageClass = kind apiVersion metadata:ObjectMeta provisioner! parameters:{string} reclaimPolicy:*string
  mountOptions:[string] allowVolumeExpansion:*bool volumeBindingMode:*string allowedTopologies:[TopologySelectorTerm];
VolumeNodeResources = count:*int32;
CSINodeDriver = name! nodeID! topologyKeys!:[string] allocatable:*VolumeNodeResources;
CSINodeSpec = drivers!:[CSINodeDriver];
CSINodeStatus = storageHealth:[any];
CSINode = kind apiVersion metadata:ObjectMeta spec!:CSINodeSpec status:CSINodeStatus;
PriorityClass = kind apiVersion metadata:ObjectMeta value!:int32 globalDefault:bool description
  preemptionPolicy:*string;
ServiceReference = namespace! name! path:*string port:*int32;
WebhookClientConfig = url:*string service:*ServiceReference caBundle:bytes;
RuleWithOperations = operations:[string] apiGroups:[string] apiVersions:[string] resources:[string] scope:*string;
MatchCondition = name! expression!;
MutatingWebhook = name! clientConfig!:WebhookClientConfig rules:[RuleWithOperations] failurePolicy:*string
  matchPolicy:*string namespaceSelector:*LabelSelector objectSelector:*LabelSelector sideEffects!:*string
  timeoutSeconds:*int32 admissionReviewVersions!:[string] reinvocationPolicy:*string matchConditions:[MatchCondition];
MutatingWebhookConfiguration = kind apiVersion metadata:ObjectMeta webhooks:[MutatingWebhook];
"""

"""The numbers of fields in Kubernetes' protobuf messages, for the objects that `protobuf` reads.

They are those of k8s.io/api and k8s.io/apimachinery, and never change. A line is `Message = field=number:Kind;` without
a kind it is a text, `[Kind]` is a list, `{Kind}` a map from texts, `~Kind` has its fields in the outer object. Fields
that are not here are refused when they hold anything; statuses and managed fields, which no client gives, are left out.
"""

from __future__ import annotations

API_VERSIONS = {
    "Binding": "v1",
    "ConfigMap": "v1",
    "Event": "v1",
    "Namespace": "v1",
    "ResourceQuota": "v1",
    "Secret": "v1",
    "Service": "v1",
    "ServiceAccount": "v1",
    "CronJob": "batch/v1",
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "Lease": "coordination.k8s.io/v1",
    "SelfSubjectAccessReview": "authorization.k8s.io/v1",
    "SubjectAccessReview": "authorization.k8s.io/v1",
    "TokenRequest": "authentication.k8s.io/v1",
    "TokenReview": "authentication.k8s.io/v1",
    "Eviction": "policy/v1",
    "PodDisruptionBudget": "policy/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
}

MESSAGES = """
ObjectMeta = name=1 generateName=2 namespace=3 selfLink=4:ignored uid=5 resourceVersion=6 generation=7:int
  creationTimestamp=8:Time deletionTimestamp=9:Time deletionGracePeriodSeconds=10:int labels=11:{string}
  annotations=12:{string} ownerReferences=13:[OwnerReference] finalizers=14:[string] managedFields=17:ignored;
OwnerReference = apiVersion=5 kind=1 name=3 uid=4 controller=6:bool blockOwnerDeletion=7:bool;
LabelSelector = matchLabels=1:{string} matchExpressions=2:[LabelSelectorRequirement];
LabelSelectorRequirement = key=1 operator=2 values=3:[string];
ObjectReference = kind=1 namespace=2 name=3 uid=4 apiVersion=5 resourceVersion=6 fieldPath=7;
LocalObjectReference = name=1;
DeleteOptions = gracePeriodSeconds=1:int preconditions=2:Preconditions orphanDependents=3:bool propagationPolicy=4
  dryRun=5:[string];
Preconditions = uid=1 resourceVersion=2;
Namespace = metadata=1:ObjectMeta spec=2:NamespaceSpec;
NamespaceSpec = finalizers=1:[string];
ConfigMap = metadata=1:ObjectMeta immutable=4:bool data=2:{string} binaryData=3:{bytes};
Secret = metadata=1:ObjectMeta immutable=5:bool data=2:{bytes} stringData=4:{string} type=3;
ServiceAccount = metadata=1:ObjectMeta secrets=2:[ObjectReference] imagePullSecrets=3:[LocalObjectReference]
  automountServiceAccountToken=4:bool;
Service = metadata=1:ObjectMeta spec=2:ServiceSpec;
ServiceSpec = ports=1:[ServicePort] selector=2:{string} clusterIP=3 clusterIPs=18:[string] type=4
  externalIPs=5:[string] sessionAffinity=7 loadBalancerIP=8 loadBalancerSourceRanges=9:[string] externalName=10
  externalTrafficPolicy=11 healthCheckNodePort=12:int publishNotReadyAddresses=13:bool ipFamilies=19:[string]
  ipFamilyPolicy=17 allocateLoadBalancerNodePorts=20:bool loadBalancerClass=21 internalTrafficPolicy=22
  trafficDistribution=23;
ServicePort = name=1 protocol=2 appProtocol=6 port=3:int targetPort=4:IntOrString nodePort=5:int;
ResourceQuota = metadata=1:ObjectMeta spec=2:ResourceQuotaSpec;
ResourceQuotaSpec = hard=1:{Quantity} scopes=2:[string] scopeSelector=3:ScopeSelector;
ScopeSelector = matchExpressions=1:[ScopedResourceSelectorRequirement];
ScopedResourceSelectorRequirement = scopeName=1 operator=2 values=3:[string];
Binding = metadata=1:ObjectMeta target=2:ObjectReference;
SelfSubjectAccessReview = metadata=1:ObjectMeta spec=2:SelfSubjectAccessReviewSpec status=3:ignored;
SelfSubjectAccessReviewSpec = resourceAttributes=1:ResourceAttributes nonResourceAttributes=2:NonResourceAttributes;
SubjectAccessReview = metadata=1:ObjectMeta spec=2:SubjectAccessReviewSpec status=3:ignored;
SubjectAccessReviewSpec = resourceAttributes=1:ResourceAttributes nonResourceAttributes=2:NonResourceAttributes user=3
  groups=4:[string] uid=6;
TokenReview = metadata=1:ObjectMeta spec=2:TokenReviewSpec status=3:ignored;
TokenReviewSpec = token=1 audiences=2:[string];
TokenRequest = metadata=1:ObjectMeta spec=2:TokenRequestSpec status=3:ignored;
TokenRequestSpec = audiences=1:[string] boundObjectRef=3:BoundObjectReference expirationSeconds=4:int;
BoundObjectReference = kind=1 apiVersion=2 name=3 uid=4;
ResourceAttributes = namespace=1 verb=2 group=3 version=4 resource=5 subresource=6 name=7;
NonResourceAttributes = path=1 verb=2;
Event = metadata=1:ObjectMeta involvedObject=2:ObjectReference reason=3 message=4 source=5:EventSource
  firstTimestamp=6:Time lastTimestamp=7:Time count=8:int type=9 eventTime=10:MicroTime series=11:EventSeries action=12
  related=13:ObjectReference reportingComponent=14 reportingInstance=15;
EventSource = component=1 host=2;
EventSeries = count=1:int lastObservedTime=2:MicroTime;
PodTemplateSpec = metadata=1:ObjectMeta spec=2:PodSpec;
PodSpec = volumes=1:[Volume] affinity=18:Affinity topologySpreadConstraints=33:[TopologySpreadConstraint]
  initContainers=20:[Container] containers=2:[Container] restartPolicy=3 terminationGracePeriodSeconds=4:int
  activeDeadlineSeconds=5:int dnsPolicy=6 nodeSelector=7:{string} serviceAccountName=8 serviceAccount=9
  automountServiceAccountToken=21:bool nodeName=10 hostNetwork=11:bool hostPID=12:bool hostIPC=13:bool
  shareProcessNamespace=27:bool securityContext=14:PodSecurityContext imagePullSecrets=15:[LocalObjectReference]
  hostname=16 subdomain=17 schedulerName=19 tolerations=22:[Toleration] priorityClassName=24 priority=25:int
  runtimeClassName=29 enableServiceLinks=30:bool preemptionPolicy=31 overhead=32:{Quantity} setHostnameAsFQDN=35:bool
  hostUsers=37:bool schedulingGates=38:[PodSchedulingGate] resources=40:ResourceRequirements hostnameOverride=41;
PodSchedulingGate = name=1;
PodSecurityContext = runAsUser=2:int runAsGroup=6:int runAsNonRoot=3:bool supplementalGroups=4:[int]
  supplementalGroupsPolicy=12 fsGroup=5:int fsGroupChangePolicy=9 seLinuxChangePolicy=13;
Toleration = key=1 operator=2 value=3 effect=4 tolerationSeconds=5:int;
Container = name=1 image=2 command=3:[string] args=4:[string] workingDir=5 ports=6:[ContainerPort] env=7:[EnvVar]
  envFrom=19:[EnvFromSource] volumeMounts=9:[VolumeMount]
  resources=8:ResourceRequirements restartPolicy=24 terminationMessagePath=13 terminationMessagePolicy=20
  imagePullPolicy=14 securityContext=15:SecurityContext stdin=16:bool stdinOnce=17:bool tty=18:bool;
ContainerPort = name=1 hostPort=2:int containerPort=3:int protocol=4 hostIP=5;
EnvVar = name=1 value=2 valueFrom=3:EnvVarSource;
EnvVarSource = fieldRef=1:ObjectFieldSelector configMapKeyRef=3:KeySelector secretKeyRef=4:KeySelector;
ObjectFieldSelector = apiVersion=1 fieldPath=2;
KeySelector = localObjectReference=1:~LocalObjectReference key=2 optional=3:bool;
EnvFromSource = prefix=1 configMapRef=2:EnvSource secretRef=3:EnvSource;
EnvSource = localObjectReference=1:~LocalObjectReference optional=2:bool;
VolumeMount = name=1 readOnly=2:bool recursiveReadOnly=7 mountPath=3 subPath=4 mountPropagation=5 subPathExpr=6;
Volume = name=1 volumeSource=2:~VolumeSource;
VolumeSource = hostPath=1:HostPathVolumeSource emptyDir=2:EmptyDirVolumeSource secret=6:SecretVolumeSource
  persistentVolumeClaim=10:PersistentVolumeClaimVolumeSource configMap=19:ConfigMapVolumeSource;
HostPathVolumeSource = path=1 type=2;
EmptyDirVolumeSource = medium=1 sizeLimit=2:Quantity;
SecretVolumeSource = secretName=1 items=2:[KeyToPath] defaultMode=3:int optional=4:bool;
ConfigMapVolumeSource = localObjectReference=1:~LocalObjectReference items=2:[KeyToPath] defaultMode=3:int
  optional=4:bool;
KeyToPath = key=1 path=2 mode=3:int;
PersistentVolumeClaimVolumeSource = claimName=1 readOnly=2:bool;
Affinity = nodeAffinity=1:NodeAffinity podAffinity=2:PodAffinity podAntiAffinity=3:PodAffinity;
NodeAffinity = requiredDuringSchedulingIgnoredDuringExecution=1:NodeSelector
  preferredDuringSchedulingIgnoredDuringExecution=2:[PreferredSchedulingTerm];
NodeSelector = nodeSelectorTerms=1:[NodeSelectorTerm];
NodeSelectorTerm = matchExpressions=1:[LabelSelectorRequirement] matchFields=2:[LabelSelectorRequirement];
PreferredSchedulingTerm = weight=1:int preference=2:NodeSelectorTerm;
PodAffinity = requiredDuringSchedulingIgnoredDuringExecution=1:[PodAffinityTerm]
  preferredDuringSchedulingIgnoredDuringExecution=2:[WeightedPodAffinityTerm];
WeightedPodAffinityTerm = weight=1:int podAffinityTerm=2:PodAffinityTerm;
PodAffinityTerm = labelSelector=1:LabelSelector namespaces=2:[string] topologyKey=3 namespaceSelector=4:LabelSelector
  matchLabelKeys=5:[string] mismatchLabelKeys=6:[string];
TopologySpreadConstraint = maxSkew=1:int topologyKey=2 whenUnsatisfiable=3 labelSelector=4:LabelSelector
  minDomains=5:int nodeAffinityPolicy=6 nodeTaintsPolicy=7 matchLabelKeys=8:[string];
ResourceRequirements = limits=1:{Quantity} requests=2:{Quantity};
SecurityContext = privileged=2:bool runAsUser=4:int runAsGroup=8:int runAsNonRoot=5:bool readOnlyRootFilesystem=6:bool
  allowPrivilegeEscalation=7:bool procMount=9;
Deployment = metadata=1:ObjectMeta spec=2:DeploymentSpec;
DeploymentSpec = replicas=1:int selector=2:LabelSelector template=3:PodTemplateSpec strategy=4:DeploymentStrategy
  minReadySeconds=5:int revisionHistoryLimit=6:int paused=7:bool progressDeadlineSeconds=9:int;
DeploymentStrategy = type=1 rollingUpdate=2:RollingUpdateDeployment;
RollingUpdateDeployment = maxUnavailable=1:IntOrString maxSurge=2:IntOrString;
Job = metadata=1:ObjectMeta spec=2:JobSpec;
JobSpec = parallelism=1:int completions=2:int activeDeadlineSeconds=3:int backoffLimit=7:int
  backoffLimitPerIndex=12:int maxFailedIndexes=13:int selector=4:LabelSelector manualSelector=5:bool
  template=6:PodTemplateSpec ttlSecondsAfterFinished=8:int completionMode=9 suspend=10:bool podReplacementPolicy=14
  managedBy=15 podFailurePolicy=11:PodFailurePolicy;
PodFailurePolicy = rules=1:[PodFailurePolicyRule];
PodFailurePolicyRule = action=1 onExitCodes=2:ExitCodes onPodConditions=3:[ConditionPattern];
ExitCodes = containerName=1 operator=2 values=3:[int];
ConditionPattern = type=1 status=2;
JobTemplateSpec = metadata=1:ObjectMeta spec=2:JobSpec;
CronJob = metadata=1:ObjectMeta spec=2:CronJobSpec;
CronJobSpec = schedule=1 timeZone=8 startingDeadlineSeconds=2:int concurrencyPolicy=3 suspend=4:bool
  jobTemplate=5:JobTemplateSpec successfulJobsHistoryLimit=6:int failedJobsHistoryLimit=7:int;
PodDisruptionBudget = metadata=1:ObjectMeta spec=2:PodDisruptionBudgetSpec;
PodDisruptionBudgetSpec = minAvailable=1:IntOrString selector=2:LabelSelector maxUnavailable=3:IntOrString
  unhealthyPodEvictionPolicy=4;
Eviction = metadata=1:ObjectMeta deleteOptions=2:DeleteOptions;
Lease = metadata=1:ObjectMeta spec=2:LeaseSpec;
LeaseSpec = holderIdentity=1 leaseDurationSeconds=2:int acquireTime=3:MicroTime renewTime=4:MicroTime
  leaseTransitions=5:int strategy=6 preferredHolder=7;
PriorityClass = metadata=1:ObjectMeta value=2:int globalDefault=3:bool description=4 preemptionPolicy=5;
Unknown = typeMeta=1:TypeMeta raw=2:ignored contentEncoding=3 contentType=4;
TypeMeta = apiVersion=1 kind=2;
Quantity = string=1;
IntOrString = type=1:int intVal=2:int strVal=3;
Time = seconds=1:int nanos=2:int;
"""

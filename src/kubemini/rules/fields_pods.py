"""The fields of pods, their templates and everything inside, as `forms` reads them.

Of volumes that only clouds of old had, what is inside is kept as it is given. Fields that Kubernetes v1.37 has only
behind a feature gate that is off by default are not here: there, too, they are dropped.
"""

POD_FIELDS = """
OwnerReference = apiVersion! kind! name! uid! controller:*bool blockOwnerDeletion:*bool;
ObjectMeta = name generateName namespace uid resourceVersion generation:int64 creationTimestamp:*Time
  deletionTimestamp:*Time deletionGracePeriodSeconds:*int64 labels:{string} annotations:{string}
  ownerReferences:[OwnerReference] finalizers:[string] managedFields:[any];
HostPathVolumeSource = path! type:*string;
EmptyDirVolumeSource = medium sizeLimit:*Quantity;
KeyToPath = key! path! mode:*int32;
SecretVolumeSource = secretName items:[KeyToPath] defaultMode:*int32 optional:*bool;
NFSVolumeSource = server! path! readOnly:bool;
LocalObjectReference = name;
PersistentVolumeClaimVolumeSource = claimName! readOnly:bool;
ObjectFieldSelector = apiVersion fieldPath!;
ResourceFieldSelector = containerName resource! divisor:Quantity;
DownwardAPIVolumeFile = path! fieldRef:*ObjectFieldSelector resourceFieldRef:*ResourceFieldSelector mode:*int32;
DownwardAPIVolumeSource = items:[DownwardAPIVolumeFile] defaultMode:*int32;
ConfigMapVolumeSource = name items:[KeyToPath] defaultMode:*int32 optional:*bool;
SecretProjection = name items:[KeyToPath] optional:*bool;
DownwardAPIProjection = items:[DownwardAPIVolumeFile];
ConfigMapProjection = name items:[KeyToPath] optional:*bool;
ServiceAccountTokenProjection = audience expirationSeconds:*int64 path!;
LabelSelectorRequirement = key! operator! values:[string];
LabelSelector = matchLabels:{string} matchExpressions:[LabelSelectorRequirement];
VolumeProjection = secret:*SecretProjection downwardAPI:*DownwardAPIProjection configMap:*ConfigMapProjection
  serviceAccountToken:*ServiceAccountTokenProjection clusterTrustBundle:*any podCertificate:*any;
ProjectedVolumeSource = sources!:[VolumeProjection] defaultMode:*int32;
CSIVolumeSource = driver! readOnly:*bool fsType:*string volumeAttributes:{string}
  nodePublishSecretRef:*LocalObjectReference;
VolumeResourceRequirements = limits:{Quantity} requests:{Quantity};
TypedLocalObjectReference = apiGroup!:*string kind! name!;
TypedObjectReference = apiGroup!:*string kind! name!;
PersistentVolumeClaimSpec = accessModes:[string] selector:*LabelSelector resources:VolumeResourceRequirements
  volumeName storageClassName:*string volumeMode:*string dataSource:*TypedLocalObjectReference
  dataSourceRef:*TypedObjectReference volumeAttributesClassName:*string;
PersistentVolumeClaimTemplate = metadata:ObjectMeta spec!:PersistentVolumeClaimSpec;
EphemeralVolumeSource = volumeClaimTemplate:*PersistentVolumeClaimTemplate;
ImageVolumeSource = reference pullPolicy;
Volume = name! hostPath:*HostPathVolumeSource emptyDir:*EmptyDirVolumeSource gcePersistentDisk:*any
  awsElasticBlockStore:*any gitRepo:*any secret:*SecretVolumeSource nfs:*NFSVolumeSource iscsi:*any glusterfs:*any
  persistentVolumeClaim:*PersistentVolumeClaimVolumeSource rbd:*any flexVolume:*any cinder:*any cephfs:*any
  flocker:*any downwardAPI:*DownwardAPIVolumeSource fc:*any azureFile:*any configMap:*ConfigMapVolumeSource
  vsphereVolume:*any quobyte:*any azureDisk:*any photonPersistentDisk:*any projected:*ProjectedVolumeSource
  portworxVolume:*any scaleIO:*any storageos:*any csi:*CSIVolumeSource ephemeral:*EphemeralVolumeSource
  image:*ImageVolumeSource;
ContainerPort = name hostPort:int32 containerPort!:int32 protocol hostIP;
ConfigMapEnvSource = name optional:*bool;
SecretEnvSource = name optional:*bool;
EnvFromSource = prefix configMapRef:*ConfigMapEnvSource secretRef:*SecretEnvSource;
ConfigMapKeySelector = name key! optional:*bool;
SecretKeySelector = name key! optional:*bool;
FileKeySelector = volumeName! path! key! optional:*bool;
EnvVarSource = fieldRef:*ObjectFieldSelector resourceFieldRef:*ResourceFieldSelector
  configMapKeyRef:*ConfigMapKeySelector secretKeyRef:*SecretKeySelector fileKeyRef:*FileKeySelector;
EnvVar = name! value valueFrom:*EnvVarSource;
ResourceClaim = name! request;
ResourceRequirements = limits:{Quantity} requests:{Quantity} claims:[ResourceClaim];
ContainerResizePolicy = resourceName! restartPolicy!;
ContainerRestartRuleOnExitCodes = operator values:[int32];
ContainerRestartRule = action exitCodes:*ContainerRestartRuleOnExitCodes;
VolumeMount = name! readOnly:bool recursiveReadOnly:*string mountPath! subPath mountPropagation:*string subPathExpr;
VolumeDevice = name! devicePath!;
ExecAction = command:[string];
HTTPHeader = name! value!;
HTTPGetAction = path port!:IntOrString host scheme httpHeaders:[HTTPHeader];
TCPSocketAction = port!:IntOrString host;
GRPCAction = port!:int32 service!:*string;
Probe = exec:*ExecAction httpGet:*HTTPGetAction tcpSocket:*TCPSocketAction grpc:*GRPCAction initialDelaySeconds:int32
  timeoutSeconds:int32 periodSeconds:int32 successThreshold:int32 failureThreshold:int32
  terminationGracePeriodSeconds:*int64;
SleepAction = seconds!:int64;
LifecycleHandler = exec:*ExecAction httpGet:*HTTPGetAction tcpSocket:*TCPSocketAction sleep:*SleepAction;
Lifecycle = postStart:*LifecycleHandler preStop:*LifecycleHandler;
Capabilities = add:[string] drop:[string];
SELinuxOptions = user role type level;
SeccompProfile = type! localhostProfile:*string;
AppArmorProfile = type! localhostProfile:*string;
SecurityContext = capabilities:*Capabilities privileged:*bool seLinuxOptions:*SELinuxOptions windowsOptions:*any
  runAsUser:*int64 runAsGroup:*int64 runAsNonRoot:*bool readOnlyRootFilesystem:*bool allowPrivilegeEscalation:*bool
  procMount:*string seccompProfile:*SeccompProfile appArmorProfile:*AppArmorProfile;
Container = name! image command:[string] args:[string] workingDir ports:[ContainerPort] envFrom:[EnvFromSource]
  env:[EnvVar] resources:ResourceRequirements resizePolicy:[ContainerResizePolicy] restartPolicy:*string
  restartPolicyRules:[ContainerRestartRule] volumeMounts:[VolumeMount] volumeDevices:[VolumeDevice]
  livenessProbe:*Probe readinessProbe:*Probe startupProbe:*Probe lifecycle:*Lifecycle terminationMessagePath
  terminationMessagePolicy imagePullPolicy securityContext:*SecurityContext stdin:bool stdinOnce:bool tty:bool;
EphemeralContainer = name! image command:[string] args:[string] workingDir ports:[ContainerPort]
  envFrom:[EnvFromSource] env:[EnvVar] resources:ResourceRequirements resizePolicy:[ContainerResizePolicy]
  restartPolicy:*string restartPolicyRules:[ContainerRestartRule] volumeMounts:[VolumeMount]
  volumeDevices:[VolumeDevice] livenessProbe:*Probe readinessProbe:*Probe startupProbe:*Probe lifecycle:*Lifecycle
  terminationMessagePath terminationMessagePolicy imagePullPolicy securityContext:*SecurityContext stdin:bool
  stdinOnce:bool tty:bool targetContainerName;
Sysctl = name! value!;
PodSecurityContext = seLinuxOptions:*SELinuxOptions windowsOptions:*any runAsUser:*int64 runAsGroup:*int64
  runAsNonRoot:*bool supplementalGroups:[int64] supplementalGroupsPolicy:*string fsGroup:*int64 sysctls:[Sysctl]
  fsGroupChangePolicy:*string seccompProfile:*SeccompProfile appArmorProfile:*AppArmorProfile
  seLinuxChangePolicy:*string;
NodeSelectorRequirement = key! operator! values:[string];
NodeSelectorTerm = matchExpressions:[NodeSelectorRequirement] matchFields:[NodeSelectorRequirement];
NodeSelector = nodeSelectorTerms!:[NodeSelectorTerm];
PreferredSchedulingTerm = weight!:int32 preference!:NodeSelectorTerm;
NodeAffinity = requiredDuringSchedulingIgnoredDuringExecution:*NodeSelector
  preferredDuringSchedulingIgnoredDuringExecution:[PreferredSchedulingTerm];
PodAffinityTerm = labelSelector:*LabelSelector namespaces:[string] topologyKey! namespaceSelector:*LabelSelector
  matchLabelKeys:[string] mismatchLabelKeys:[string];
WeightedPodAffinityTerm = weight!:int32 podAffinityTerm!:PodAffinityTerm;
PodAffinity = requiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm]
  preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm];
PodAntiAffinity = requiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm]
  preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm];
Affinity = nodeAffinity:*NodeAffinity podAffinity:*PodAffinity podAntiAffinity:*PodAntiAffinity;
Toleration = key operator value effect tolerationSeconds:*int64;
HostAlias = ip! hostnames:[string];
PodDNSConfigOption = name value:*string;
PodDNSConfig = nameservers:[string] searches:[string] options:[PodDNSConfigOption];
PodReadinessGate = conditionType!;
TopologySpreadConstraint = maxSkew!:int32 topologyKey! whenUnsatisfiable! labelSelector:*LabelSelector
  minDomains:*int32 nodeAffinityPolicy:*string nodeTaintsPolicy:*string matchLabelKeys:[string];
PodOS = name!;
PodSchedulingGate = name!;
PodResourceClaim = name! resourceClaimName:*string resourceClaimTemplateName:*string;
PodSpec = volumes:[Volume] initContainers:[Container] containers!:[Container] ephemeralContainers:[EphemeralContainer]
  restartPolicy terminationGracePeriodSeconds:*int64 activeDeadlineSeconds:*int64 dnsPolicy nodeSelector:{string}
  serviceAccountName serviceAccount automountServiceAccountToken:*bool nodeName hostNetwork:bool hostPID:bool
  hostIPC:bool shareProcessNamespace:*bool securityContext:*PodSecurityContext imagePullSecrets:[LocalObjectReference]
  hostname subdomain affinity:*Affinity schedulerName tolerations:[Toleration] hostAliases:[HostAlias]
  priorityClassName priority:*int32 dnsConfig:*PodDNSConfig readinessGates:[PodReadinessGate] runtimeClassName:*string
  enableServiceLinks:*bool preemptionPolicy:*string overhead:{Quantity}
  topologySpreadConstraints:[TopologySpreadConstraint] setHostnameAsFQDN:*bool os:*PodOS hostUsers:*bool
  schedulingGates:[PodSchedulingGate] resourceClaims:[PodResourceClaim] resources:*ResourceRequirements
  hostnameOverride:*string;
PodCondition = type! observedGeneration:int64 status! lastProbeTime:Time lastTransitionTime:Time reason message;
HostIP = ip!;
PodIP = ip!;
ContainerStateWaiting = reason message;
ContainerStateRunning = startedAt:Time;
ContainerStateTerminated = exitCode!:int32 signal:int32 reason message startedAt:Time finishedAt:Time containerID;
ContainerState = waiting:*ContainerStateWaiting running:*ContainerStateRunning terminated:*ContainerStateTerminated;
ContainerStatus = name! state:ContainerState lastState:ContainerState ready!:bool restartCount!:int32 image! imageID!
  containerID started:*bool allocatedResources:{Quantity} resources:*ResourceRequirements volumeMounts:[any] user:*any
  allocatedResourcesStatus:[any];
PodResourceClaimStatus = name! resourceClaimName:*string;
PodStatus = observedGeneration:int64 phase conditions:[PodCondition] message reason nominatedNodeName hostIP
  hostIPs:[HostIP] podIP podIPs:[PodIP] startTime:*Time initContainerStatuses:[ContainerStatus]
  containerStatuses:[ContainerStatus] qosClass ephemeralContainerStatuses:[ContainerStatus] resize
  resourceClaimStatuses:[PodResourceClaimStatus] extendedResourceClaimStatus:*any allocatedResources:{Quantity}
  resources:*ResourceRequirements;
Pod = kind apiVersion metadata:ObjectMeta spec:PodSpec status:PodStatus;
"""

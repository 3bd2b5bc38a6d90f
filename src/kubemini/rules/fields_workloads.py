"""The fields of workloads, from Deployments to CronJobs, and of disruption budgets, as `forms` reads them."""

WORKLOAD_FIELDS = """
PodTemplateSpec = metadata:ObjectMeta spec:PodSpec;
RollingUpdateDeployment = maxUnavailable:*IntOrString maxSurge:*IntOrString;
DeploymentStrategy = type rollingUpdate:*RollingUpdateDeployment;
DeploymentSpec = replicas:*int32 selector!:*LabelSelector template!:PodTemplateSpec strategy:DeploymentStrategy
  minReadySeconds:int32 revisionHistoryLimit:*int32 paused:bool progressDeadlineSeconds:*int32;
DeploymentCondition = type! status! lastUpdateTime:Time lastTransitionTime:Time reason message;
DeploymentStatus = observedGeneration:int64 replicas:int32 updatedReplicas:int32 readyReplicas:int32
  availableReplicas:int32 unavailableReplicas:int32 terminatingReplicas:*int32 conditions:[DeploymentCondition]
  collisionCount:*int32;
Deployment = kind apiVersion metadata:ObjectMeta spec:DeploymentSpec status:DeploymentStatus;
ReplicaSetSpec = replicas:*int32 minReadySeconds:int32 selector!:*LabelSelector template:PodTemplateSpec;
ReplicaSetCondition = type! status! lastTransitionTime:Time reason message;
ReplicaSetStatus = replicas!:int32 fullyLabeledReplicas:int32 readyReplicas:int32 availableReplicas:int32
  terminatingReplicas:*int32 observedGeneration:int64 conditions:[ReplicaSetCondition];
ReplicaSet = kind apiVersion metadata:ObjectMeta spec:ReplicaSetSpec status:ReplicaSetStatus;
RollingUpdateStatefulSetStrategy = partition:*int32 maxUnavailable:*IntOrString;
StatefulSetUpdateStrategy = type rollingUpdate:*RollingUpdateStatefulSetStrategy;
StatefulSetPersistentVolumeClaimRetentionPolicy = whenDeleted whenScaled;
StatefulSetOrdinals = start!:int32;
StatefulSetSpec = replicas:*int32 selector!:*LabelSelector template!:PodTemplateSpec
  volumeClaimTemplates:[PersistentVolumeClaim] serviceName! podManagementPolicy
  updateStrategy:StatefulSetUpdateStrategy revisionHistoryLimit:*int32 minReadySeconds:int32
  persistentVolumeClaimRetentionPolicy:*StatefulSetPersistentVolumeClaimRetentionPolicy ordinals:*StatefulSetOrdinals;
StatefulSetCondition = type! status! lastTransitionTime:Time reason message;
StatefulSetStatus = observedGeneration:int64 replicas!:int32 readyReplicas:int32 currentReplicas:int32
  updatedReplicas:int32 currentRevision updateRevision collisionCount:*int32 conditions:[StatefulSetCondition]
  availableReplicas!:int32;
StatefulSet = kind apiVersion metadata:ObjectMeta spec:StatefulSetSpec status:StatefulSetStatus;
RollingUpdateDaemonSet = maxUnavailable:*IntOrString maxSurge:*IntOrString;
DaemonSetUpdateStrategy = type rollingUpdate:*RollingUpdateDaemonSet;
DaemonSetSpec = selector!:*LabelSelector template!:PodTemplateSpec updateStrategy:DaemonSetUpdateStrategy
  minReadySeconds:int32 revisionHistoryLimit:*int32;
DaemonSetCondition = type! status! lastTransitionTime:Time reason message;
DaemonSetStatus = currentNumberScheduled!:int32 numberMisscheduled!:int32 desiredNumberScheduled!:int32
  numberReady!:int32 observedGeneration:int64 updatedNumberScheduled:int32 numberAvailable:int32
  numberUnavailable:int32 collisionCount:*int32 conditions:[DaemonSetCondition];
DaemonSet = kind apiVersion metadata:ObjectMeta spec:DaemonSetSpec status:DaemonSetStatus;
ControllerRevision = kind apiVersion metadata:ObjectMeta data!:any revision!:int64;
PodFailurePolicyOnExitCodesRequirement = containerName:*string operator! values!:[int32];
PodFailurePolicyOnPodConditionsPattern = type! status!;
PodFailurePolicyRule = action! onExitCodes:*PodFailurePolicyOnExitCodesRequirement
  onPodConditions:[PodFailurePolicyOnPodConditionsPattern];
PodFailurePolicy = rules!:[PodFailurePolicyRule];
SuccessPolicyRule = succeededIndexes:*string succeededCount:*int32;
SuccessPolicy = rules!:[SuccessPolicyRule];
JobSpec = parallelism:*int32 completions:*int32 activeDeadlineSeconds:*int64 podFailurePolicy:*PodFailurePolicy
  successPolicy:*SuccessPolicy backoffLimit:*int32 backoffLimitPerIndex:*int32 maxFailedIndexes:*int32
  selector:*LabelSelector manualSelector:*bool template!:PodTemplateSpec ttlSecondsAfterFinished:*int32
  completionMode:*string suspend:*bool podReplacementPolicy:*string managedBy:*string;
JobCondition = type! status! lastProbeTime:Time lastTransitionTime:Time reason message;
UncountedTerminatedPods = succeeded:[string] failed:[string];
JobStatus = conditions:[JobCondition] startTime:*Time completionTime:*Time active:int32 succeeded:int32 failed:int32
  terminating:*int32 completedIndexes failedIndexes:*string uncountedTerminatedPods:*UncountedTerminatedPods
  ready:*int32;
Job = kind apiVersion metadata:ObjectMeta spec:JobSpec status:JobStatus;
JobTemplateSpec = metadata:ObjectMeta spec:JobSpec;
CronJobSpec = schedule! timeZone:*string startingDeadlineSeconds:*int64 concurrencyPolicy suspend:*bool
  jobTemplate!:JobTemplateSpec successfulJobsHistoryLimit:*int32 failedJobsHistoryLimit:*int32;
CronJobStatus = active:[ObjectReference] lastScheduleTime:*Time lastSuccessfulTime:*Time;
CronJob = kind apiVersion metadata:ObjectMeta spec:CronJobSpec status:CronJobStatus;
PodDisruptionBudgetSpec = minAvailable:*IntOrString selector:*LabelSelector maxUnavailable:*IntOrString
  unhealthyPodEvictionPolicy:*string;
PodDisruptionBudgetStatus = observedGeneration:int64 disruptedPods:{Time} disruptionsAllowed!:int32
  currentHealthy!:int32 desiredHealthy!:int32 expectedPods!:int32 conditions:[Condition];
PodDisruptionBudget = kind apiVersion metadata:ObjectMeta spec:PodDisruptionBudgetSpec
  status:PodDisruptionBudgetStatus;
CrossVersionObjectReference = kind! name! apiVersion;
MetricIdentifier = name! selector:*LabelSelector;
MetricTarget = type! value:*Quantity averageValue:*Quantity averageUtilization:*int32;
MetricValueStatus = value:*Quantity averageValue:*Quantity averageUtilization:*int32;
ObjectMetricSource = describedObject!:CrossVersionObjectReference target!:MetricTarget metric!:MetricIdentifier;
PodsMetricSource = metric!:MetricIdentifier target!:MetricTarget;
ResourceMetricSource = name! target!:MetricTarget;
ContainerResourceMetricSource = name! target!:MetricTarget container!;
ExternalMetricSource = metric!:MetricIdentifier target!:MetricTarget;
MetricSpec = type! object:*ObjectMetricSource pods:*PodsMetricSource resource:*ResourceMetricSource
  containerResource:*ContainerResourceMetricSource external:*ExternalMetricSource;
HPAScalingPolicy = type! value!:int32 periodSeconds!:int32;
HPAScalingRules = stabilizationWindowSeconds:*int32 selectPolicy:*string policies:[HPAScalingPolicy]
  tolerance:*Quantity;
HorizontalPodAutoscalerBehavior = scaleUp:*HPAScalingRules scaleDown:*HPAScalingRules;
HorizontalPodAutoscalerSpec = scaleTargetRef!:CrossVersionObjectReference minReplicas:*int32 maxReplicas!:int32
  metrics:[MetricSpec] behavior:*HorizontalPodAutoscalerBehavior;
ObjectMetricStatus = metric!:MetricIdentifier current!:MetricValueStatus
  describedObject!:CrossVersionObjectReference;
PodsMetricStatus = metric!:MetricIdentifier current!:MetricValueStatus;
ResourceMetricStatus = name! current!:MetricValueStatus;
ContainerResourceMetricStatus = name! current!:MetricValueStatus container!;
ExternalMetricStatus = metric!:MetricIdentifier current!:MetricValueStatus;
MetricStatus = type! object:*ObjectMetricStatus pods:*PodsMetricStatus resource:*ResourceMetricStatus
  containerResource:*ContainerResourceMetricStatus external:*ExternalMetricStatus;
HorizontalPodAutoscalerCondition = type! status! lastTransitionTime:Time reason message observedGeneration:int64;
HorizontalPodAutoscalerStatus = observedGeneration:*int64 lastScaleTime:*Time currentReplicas:int32
  desiredReplicas!:int32 currentMetrics!:[MetricStatus] conditions:[HorizontalPodAutoscalerCondition];
HorizontalPodAutoscaler = kind apiVersion metadata:ObjectMeta spec:HorizontalPodAutoscalerSpec
  status:HorizontalPodAutoscalerStatus;
"""

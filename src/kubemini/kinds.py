"""The kinds that the embedded API server serves: the built-in ones, and those that CustomResourceDefinitions add.

Discovery, routes and the store's tables are made from them. Core Events and events.k8s.io Events show the same stored
objects: `storage` names the kind that is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind in one version of one group."""

    group: str
    version: str
    name: str
    plural: str
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    """Fields that field selectors support, besides metadata.name and metadata.namespace."""
    generations: bool = False
    """Whether a change of the spec counts metadata.generation up."""
    namespaced: bool = True
    unconditional: bool = True
    """Whether it may be replaced without saying which version is replaced."""
    verbs: tuple[str, ...] = ALL_VERBS
    storage: str = ""
    """The `resource` under which objects are kept, if it is not this one's."""
    custom: bool = False

    @property
    def resource(self) -> str:
        """`deployments.apps`, as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def stored_as(self) -> str:
        """The name of the table that keeps its objects."""
        return self.storage or self.resource

    @property
    def api_version(self) -> str:
        """`apps/v1`, as objects carry it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """The name in small letters, as kubectl accepts it."""
        return self.name.lower()


_STATUS = ("status",)
_SCALED = ("scale", "status")
_EVENT_FIELDS = (
    *(f"involvedObject.{each}" for each in ("apiVersion", "kind", "namespace", "name", "uid", "fieldPath")),
    "reason",
    "type",
)
_POD_FIELDS = ("spec.nodeName", "spec.schedulerName", "status.phase")

POD = Kind("", "v1", "Pod", "pods", ("po",), ("all",), ("binding", "eviction", "status"), _POD_FIELDS, generations=True)
NODE = Kind("", "v1", "Node", "nodes", ("no",), (), _STATUS, ("spec.unschedulable",), namespaced=False)
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", ("ns",), (), _STATUS, ("status.phase",), namespaced=False)
CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", ("pvc",), (), _STATUS)
VOLUME = Kind("", "v1", "PersistentVolume", "persistentvolumes", ("pv",), (), _STATUS, namespaced=False)
SERVICE = Kind("", "v1", "Service", "services", ("svc",), ("all",), _STATUS)
SECRET = Kind("", "v1", "Secret", "secrets", fields=("type",))
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts", ("sa",), subresources=("token",))
CORE_EVENT = Kind("", "v1", "Event", "events", ("ev",), fields=_EVENT_FIELDS)
EVENT = Kind("events.k8s.io", "v1", "Event", "events", ("ev",), fields=_EVENT_FIELDS, storage=CORE_EVENT.resource)
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments", ("deploy",), ("all",), _SCALED, generations=True)
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets", ("rs",), ("all",), _SCALED, generations=True)
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets", ("sts",), ("all",), _SCALED, generations=True)
DAEMON_SET = Kind("apps", "v1", "DaemonSet", "daemonsets", ("ds",), ("all",), _STATUS, generations=True)
CONTROLLER_REVISION = Kind("apps", "v1", "ControllerRevision", "controllerrevisions")
JOB = Kind("batch", "v1", "Job", "jobs", (), ("all",), _STATUS, generations=True)
CRON_JOB = Kind("batch", "v1", "CronJob", "cronjobs", ("cj",), ("all",), _STATUS, generations=True)
BUDGET = Kind(
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", ("pdb",), (), _STATUS,
    generations=True, unconditional=False,
)  # fmt: skip
AUTOSCALER = Kind(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", ("hpa",), ("all",), _STATUS
)
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases", unconditional=False)
STORAGE_CLASS = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", ("sc",), namespaced=False)
CSI_NODE = Kind("storage.k8s.io", "v1", "CSINode", "csinodes", namespaced=False)
PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", ("pc",), namespaced=False)
MUTATING_WEBHOOKS = Kind(
    "admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations",
    generations=True, namespaced=False,
)  # fmt: skip
DEFINITION = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", ("crd", "crds"),
    ("api-extensions",), _STATUS, generations=True, namespaced=False, unconditional=False,
)  # fmt: skip
# Answered at once, never stored.
ACCESS_REVIEW = Kind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews",
    namespaced=False, verbs=("create",),
)  # fmt: skip
SUBJECT_REVIEW = Kind(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False, verbs=("create",)
)
TOKEN_REVIEW = Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False, verbs=("create",))
# Computed when they are read, never stored. `EmbeddedCluster.serve_metrics` adds them.
NODE_METRICS = Kind("metrics.k8s.io", "v1beta1", "NodeMetrics", "nodes", namespaced=False, verbs=("get", "list"))
POD_METRICS = Kind("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", verbs=("get", "list"))

BUILT_IN = (
    POD, NODE, NAMESPACE, CLAIM, VOLUME, SERVICE, CORE_EVENT, EVENT,
    Kind("", "v1", "ConfigMap", "configmaps", ("cm",)),
    SECRET, SERVICE_ACCOUNT,
    DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, CONTROLLER_REVISION, JOB, CRON_JOB, BUDGET, AUTOSCALER,
    LEASE,
    STORAGE_CLASS, CSI_NODE, PRIORITY_CLASS, MUTATING_WEBHOOKS, DEFINITION,
)  # fmt: skip


@dataclass
class Kinds:
    """The kinds that are served now."""

    _by_plural: dict[tuple[str, str, str], Kind] = field(default_factory=dict)
    _by_name: dict[tuple[str, str], Kind] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind in (*BUILT_IN, ACCESS_REVIEW, SUBJECT_REVIEW, TOKEN_REVIEW):
            self.add(kind)

    def __iter__(self) -> Iterator[Kind]:
        return iter(list(self._by_plural.values()))

    def add(self, kind: Kind) -> None:
        """Serve a kind from now on, or in a new shape."""
        self._by_plural[(kind.group, kind.version, kind.plural)] = kind
        self._by_name[(kind.api_version, kind.name)] = kind

    def remove(self, kind: Kind) -> None:
        """Serve a kind no longer."""
        self._by_plural.pop((kind.group, kind.version, kind.plural), None)
        self._by_name.pop((kind.api_version, kind.name), None)

    def at(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind at a place in the API's paths."""
        return self._by_plural.get((group, version, plural))

    def named(self, api_version: str, name: str) -> Kind | None:
        """The kind that an object or an owner reference names."""
        return self._by_name.get((api_version, name))

"""Pods, from the wire to rows: their shape, what they request, and what their status says about failures.

Pods share most of their parts (labels, shapes, owners, requests), so each distinct part is parsed and stored once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from sys import intern

from msgspec import Raw

from rescheduler.decode import sections, structs
from rescheduler.decode.sections import SectionCache
from rescheduler.model.labels import DO_NOT_DISRUPT, OWN_PREFIX, PREFIX, SELECTED_NODE, is_relevant
from rescheduler.model.objects import (
    HEALTHY,
    NOTHING,
    SYSTEM_PRIORITIES,
    ContainerState,
    Owner,
    Pod,
    PodCondition,
    PodFailure,
    PodHealth,
)
from rescheduler.model.quantity import MAX, raise_to, sum_requests
from rescheduler.model.selector import Labels
from rescheduler.model.shape import HostPort, Requests, Shape
from rescheduler.model.time import read_instant

_STARTING = frozenset({"ContainerCreating", "PodInitializing"})
_CRASHED = "Error"
_TELLING = frozenset({"DisruptionTarget", "PodResizePending", "PodResizeInProgress"})
"""Conditions that are unusual when they are True; all others are normally True."""


def read_health(status: structs.ApiPodStatus) -> PodHealth:
    """Return the health of a pod."""
    restarts, states = _container_states(status.container_statuses, "")
    init_restarts, init_states = _container_states(status.init_container_statuses, "init")
    states += init_states + _container_states(status.ephemeral_container_statuses, "ephemeral")[1]
    conditions: tuple[PodCondition, ...] = ()
    for each in status.conditions or ():
        if each.status != "True" or each.type in _TELLING:
            words = intern(each.type or ""), intern(each.status or ""), intern(each.reason or "")
            conditions += (PodCondition(*words, read_instant(each.last_transition_time)),)
    if not (restarts or init_restarts or states or conditions or status.reason):
        return HEALTHY
    return PodHealth(restarts, init_restarts, status.reason or "", states, conditions)


def is_usual(condition: structs.ApiCondition) -> bool:
    """Whether a condition is as on every healthy pod."""
    return condition.status == "True" and condition.type not in _TELLING


def is_ready(conditions: Sequence[structs.ApiCondition] | None, *, default: bool) -> bool:
    """Whether the Ready condition is True."""
    for condition in conditions or ():
        if condition.type == "Ready":
            return condition.status == "True"
    return default


def find_failure(status: structs.ApiPodStatus, phase: str) -> PodFailure | None:
    """Return the failure of a pod, by the container with the most restarts."""
    if phase == "Failed":
        return PodFailure(status.reason or _CRASHED)
    if phase == "Succeeded":
        return None
    found: PodFailure | None = None
    for statuses in (status.init_container_statuses, status.container_statuses):
        for each in statuses or ():
            reason = _failure_reason(each.state) if each.state is not None else ""
            if reason and (found is None or (each.restart_count or 0) > found.restarts):
                found = PodFailure(reason, each.restart_count or 0)
    return found


def _failure_reason(state: structs.ApiContainerState) -> str:
    if state.waiting is not None:
        reason = state.waiting.reason or ""
        return "" if reason in _STARTING else reason
    return _CRASHED if state.terminated is not None and state.terminated.exit_code else ""


def _container_states(
    statuses: Sequence[structs.ApiContainerStatus] | None, part: str
) -> tuple[int, tuple[ContainerState, ...]]:
    """Return the number of restarts, and the states of containers that do not run."""
    if not statuses:
        return 0, ()
    restarts = 0
    states: tuple[ContainerState, ...] = ()
    for each in statuses:
        restarts += each.restart_count or 0
        state = each.state
        if state is None:
            continue
        if state.waiting is not None:
            states += (ContainerState(state.waiting.reason or "", None, part),)
            if each.last_state is not None and each.last_state.terminated is not None:
                states += (_terminated_state(each.last_state.terminated, part),)
        elif state.terminated is not None:
            states += (_terminated_state(state.terminated, part),)
    return restarts, states


def _terminated_state(state: structs.ApiTerminated, part: str) -> ContainerState:
    return ContainerState(state.reason or "", state.exit_code or 0, part)


_RELEVANT = (
    *(PREFIX.encode(), f'"{OWN_PREFIX}'.encode(), b'"scheduling-ret', b'"kubernetes.io/config.'),
    *(SELECTED_NODE.encode(), b'"descheduler.alpha.kubernetes.io/', b'"cluster-autoscaler.kubernetes.io/'),
    *(DO_NOT_DISRUPT.encode(), b'-cost"'),
    b"\\",  # unneeded escapes (`\/`) could hide a label from the search
)
_INLINE_DISKS = (
    *("aws_elastic_block_store", "azure_disk", "cinder", "fc", "flex_volume", "gce_persistent_disk"),
    *("iscsi", "portworx_volume", "rbd", "vsphere_volume"),
)


class PodDecoder:
    """Makes rows of pods; equal parts are one object."""

    def __init__(self) -> None:
        self._labels = SectionCache[Labels](sections.string_map, "metadata.labels")
        self._owner = SectionCache[Owner | None](sections.owner, "metadata.ownerReferences")
        self._affinity = SectionCache(sections.affinity, "spec.affinity")
        self._tolerations = SectionCache(sections.tolerations, "spec.tolerations")
        self._spread = SectionCache(sections.spread, "spec.topologySpreadConstraints")
        self._node_selector = SectionCache(sections.string_map, "spec.nodeSelector")
        self._shapes: dict[tuple[object, ...], Shape] = {}
        self._held: dict[tuple[object, ...], Requests] = {}
        self._requests: dict[Requests, Requests] = {}
        self._strings: dict[str, str] = {}
        self._health: dict[PodHealth, PodHealth] = {}

    def row(self, pod: structs.ApiPod, meta: structs.ApiMeta) -> Pod:
        """Return a pod's row; SectionError if a part is invalid."""
        spec = pod.spec or structs.ApiPodSpec()
        status = pod.status or structs.ApiPodStatus()
        node = spec.node_name or ""
        phase = status.phase or ("Running" if node else "Pending")
        name = meta.name or ""
        shape = self._shape(spec, name)
        annotations = select_annotations(meta.annotations)
        return Pod(
            namespace=self._intern(meta.namespace or "default"),
            name=name,
            uid=meta.uid or "",
            shape=shape,
            labels=self._labels(meta.labels),
            node=self._intern(node),
            held=self._occupied_requests(spec, status, shape),
            owner=self._owner(meta.owner_references),
            priority=spec.priority
            if spec.priority is not None
            else SYSTEM_PRIORITIES.get(spec.priority_class_name or "", 0),
            phase=self._intern(phase),
            ready=is_ready(status.conditions, default=phase == "Running"),
            created=sections.instant(meta.creation_timestamp),
            started=sections.instant(status.start_time) if DO_NOT_DISRUPT in annotations else None,
            deleting=meta.deletion_timestamp is not None,
            nominated=self._intern(status.nominated_node_name or ""),
            annotations=annotations,
            ailment=find_failure(status, phase) if meta.deletion_timestamp is None else None,
            trouble=self._read_health(status),
        )

    def forget_all_but(self, rows: Collection[Pod]) -> None:
        """Forget parts that none of these rows uses; later pods with equal parts still share theirs."""
        used = {id(part) for row in rows for part in (row.shape, row.labels, row.owner)}
        self._labels.keep(lambda _, labels: id(labels) in used)
        self._owner.keep(lambda _, owner: id(owner) in used)
        self._shapes = {key: shape for key, shape in self._shapes.items() if id(shape) in used}
        texts = {text for key in self._shapes for text in key if isinstance(text, bytes)}
        for sections_of_shapes in (self._affinity, self._tolerations, self._spread, self._node_selector):
            sections_of_shapes.keep(lambda text, _: text in texts)
        self._held.clear()  # equal requests stay one object
        requests = {*(shape.requests for shape in self._shapes.values()), *(row.held for row in rows)}
        self._requests = {each: self._requests[each] for each in requests if each in self._requests}
        strings = {text for row in rows for text in (row.namespace, row.node, row.phase, row.nominated)}
        self._strings = {text: self._strings[text] for text in strings if text in self._strings}
        troubles = {id(row.trouble) for row in rows}
        self._health = {key: found for key, found in self._health.items() if id(found) in troubles}

    def _read_health(self, status: structs.ApiPodStatus) -> PodHealth:
        found = read_health(status)
        if found is HEALTHY or found.conditions:  # times are each pod's own
            return found
        return self._health.setdefault(found, found)

    def _intern(self, text: str) -> str:
        return self._strings.setdefault(text, text)

    def _shape(self, spec: structs.ApiPodSpec, pod_name: str) -> Shape:
        containers = tuple((bytes(c.resources), bytes(c.ports)) for c in spec.containers or ())
        inits = tuple((bytes(c.resources), bytes(c.ports), c.restart_policy) for c in spec.init_containers or ())
        claims, local, disks = _volumes(spec.volumes, pod_name) if spec.volumes else ((), (), ())
        key = (
            containers,
            inits,
            bytes(spec.node_selector),
            bytes(spec.affinity),
            bytes(spec.tolerations),
            bytes(spec.topology_spread_constraints),
            bytes(spec.resources),
            bytes(spec.overhead),
            bytes(spec.resource_claims),
            claims,
            local,
            disks,
            spec.restart_policy,
            spec.scheduler_name,
        )
        known = self._shapes.get(key)
        if known is not None:
            return known
        affinity = self._affinity(spec.affinity)
        shape = Shape(
            requests=self._unique(pod_requests(spec)),
            node_selector=tuple(sorted(self._node_selector(spec.node_selector).items())),
            node_affinity=affinity.node,
            preferred_nodes=affinity.preferred,
            tolerations=self._tolerations(spec.tolerations),
            affinity=affinity.near,
            anti_affinity=affinity.away,
            spread=self._spread(spec.topology_spread_constraints),
            host_ports=_host_ports(spec),
            claims=claims,
            local_storage=local,
            inline_disks=disks,
            resource_claims=bytes(spec.resource_claims) not in (b"", b"null", b"[]"),
            to_completion=spec.restart_policy in ("Never", "OnFailure"),
            scheduler=self._intern(spec.scheduler_name or ""),
        )
        self._shapes[key] = shape
        return shape

    def _occupied_requests(self, spec: structs.ApiPodSpec, status: structs.ApiPodStatus, shape: Shape) -> Requests:
        """Return what the pod occupies: the larger of its requests and its allocation (after an in-place resize)."""
        statuses = [*(status.init_container_statuses or ()), *(status.container_statuses or ())]
        given = tuple(
            (s.name, bytes(s.allocated_resources), bytes(s.resources))
            for s in statuses
            if s.allocated_resources is not structs.ABSENT or s.resources is not structs.ABSENT
        )
        if not given:
            return shape.requests
        specified = tuple(
            (c.name, bytes(c.resources), c.restart_policy)
            for c in (*(spec.init_containers or ()), *(spec.containers or ()))
        )
        key = (shape, given, specified)
        if key not in self._held:
            actual = {s.name: _actual_requests(s) for s in statuses}
            self._held[key] = self._unique(pod_requests(spec, actual))
        return self._held[key]

    def _unique(self, requests: Requests) -> Requests:
        return self._requests.setdefault(requests, requests)


def pod_requests(spec: structs.ApiPodSpec, actual: dict[str | None, dict[str, int]] | None = None) -> Requests:
    """Sum requests as the scheduler does: containers and sidecars, or init peak, or pod level; plus overhead."""
    running = [_requests_of(each, f"spec.containers[{n}]", actual) for n, each in enumerate(spec.containers or ())]
    starting = [
        (_requests_of(each, f"spec.initContainers[{n}]", actual), each.restart_policy == "Always")
        for n, each in enumerate(spec.init_containers or ())
    ]
    whole = sections.resource_requests(spec.resources, "spec.resources")
    total = sum_requests(running, starting, whole, dict(sections.quantity_map(spec.overhead, "spec.overhead")))
    return tuple(sorted((name, min(number, MAX)) for name, number in total.items() if number))


def select_annotations(raw: Raw) -> Labels:
    """Return the annotations that planning reads; the raw text is searched first, because most pods have none."""
    text = bytes(raw)
    for part in _RELEVANT if text else ():
        if part in text:
            found = sections.string_map(raw, "metadata.annotations")
            return {key: value for key, value in found.items() if is_relevant(key)} or NOTHING
    return NOTHING


def _requests_of(
    container: structs.ApiContainer, path: str, actual: dict[str | None, dict[str, int]] | None
) -> dict[str, int]:
    asked = sections.resource_requests(container.resources, f"{path}.resources")
    if actual:
        raise_to(asked, actual.get(container.name, {}))
    return asked


def _actual_requests(status: structs.ApiContainerStatus) -> dict[str, int]:
    path = f"status.containerStatuses[{status.name}]"
    given = dict(sections.quantity_map(status.allocated_resources, f"{path}.allocatedResources"))
    resources = sections.decode(status.resources, structs.ApiResources, f"{path}.resources")
    if resources:
        raise_to(given, sections.quantities(resources.requests, f"{path}.resources.requests"))
    return given


def _host_ports(spec: structs.ApiPodSpec) -> tuple[HostPort, ...]:
    sidecars = (c for c in spec.init_containers or () if c.restart_policy == "Always")
    serving: Iterable[structs.ApiContainer] = (*(spec.containers or ()), *sidecars)
    return tuple(sorted({port for c in serving for port in sections.host_ports(c.ports, "spec.containers.ports")}))


MEMORY = "Memory"
"""The medium of an emptyDir without data on the node."""


def _volumes(
    volumes: Sequence[structs.ApiPodVolume], pod_name: str
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return claims, local storage and inline disks; config maps, secrets and tokens are available on every node."""
    claims: list[str] = []
    local: list[str] = []
    disks: list[str] = []
    for volume in volumes:
        if volume.persistent_volume_claim:
            claims.append(volume.persistent_volume_claim.claim_name or "")
        elif structs.present(volume.ephemeral):
            claims.append(f"{pod_name}-{volume.name}")
            local.append(f"ephemeral volume {volume.name}")  # created for this pod, deleted with it
        elif structs.present(volume.host_path):
            local.append(f"hostPath {volume.name}")
        elif volume.empty_dir is not None:
            if volume.empty_dir.medium != MEMORY:  # a cache or a secret of the process, gone with it anyway
                local.append(f"emptyDir {volume.name}")
        else:
            disks.extend(f"{kind} {volume.name}" for kind in _INLINE_DISKS if structs.present(getattr(volume, kind)))
    return tuple(claims), tuple(local), tuple(disks)

"""Builders of workloads with their pods: each gives a list of rows, which `cluster` flattens."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Unpack

import msgspec

from rescheduler.model.labels import TEMPLATE_HASH
from rescheduler.model.objects import Owner, Pod, Workload
from tests.support.builders.rows import PodOptions, Row, TemplateOptions, pod, shape_of, uid_of
from tests.support.builders.terms import selector

Texts = Mapping[str, str]


def deployment(
    name: str,
    replicas: int | None = None,
    on: Sequence[str] = (),
    *,
    recreate: bool = False,
    no_surge: bool = False,
    annotations: Texts | None = None,
    pod_annotations: Texts | None = None,
    template_hash: str = "",
    **options: Unpack[TemplateOptions],
) -> list[Row]:
    """A Deployment, its ReplicaSet, and a pod for each node of `on` ("" is a pending one).

    The pods are `<name>-<hash>-0` and so on, labelled `app=<name>`, their template's hash and `labels`.
    """
    hashed = template_hash or hash_of(name)
    count = len(on) if replicas is None else replicas
    app = _app(name, options)
    labels = {**app, TEMPLATE_HASH: hashed}
    above = _workload("Deployment", name, options, count, app)
    below = _workload("ReplicaSet", f"{name}-{hashed}", options, count, labels)
    above = msgspec.structs.replace(above, recreate=recreate, no_surge=no_surge, annotations=annotations or {})
    below = msgspec.structs.replace(below, owner=Owner("Deployment", name, above.uid))
    return [above, below, *_pods(below, on, labels, options, pod_annotations)]


def replicaset(
    name: str,
    replicas: int | None = None,
    on: Sequence[str] = (),
    *,
    annotations: Texts | None = None,
    pod_annotations: Texts | None = None,
    **options: Unpack[TemplateOptions],
) -> list[Row]:
    """A ReplicaSet without an owner and without a template hash, and its pods `<name>-0` and so on."""
    return _alone("ReplicaSet", name, replicas, on, (annotations, pod_annotations), options)


def statefulset(
    name: str,
    replicas: int | None = None,
    on: Sequence[str] = (),
    *,
    claim_template: str = "",
    annotations: Texts | None = None,
    pod_annotations: Texts | None = None,
    **options: Unpack[TemplateOptions],
) -> list[Row]:
    """A StatefulSet and its pods `<name>-0` and so on; each uses its own claim `<claim_template>-<pod>`, if given."""
    rows = _alone("StatefulSet", name, replicas, on, (annotations, pod_annotations), options)
    if not claim_template:
        return rows
    claims = options.get("claims", ())
    return [
        msgspec.structs.replace(row, shape=shape_of({**options, "claims": [*claims, f"{claim_template}-{row.name}"]}))
        if isinstance(row, Pod)
        else row
        for row in rows
    ]


def daemonset(
    name: str,
    on: Sequence[str] = (),
    *,
    annotations: Texts | None = None,
    pod_annotations: Texts | None = None,
    **options: Unpack[TemplateOptions],
) -> list[Row]:
    """A DaemonSet and its pods."""
    rows = _alone("DaemonSet", name, None, on, (annotations, pod_annotations), options)
    return [msgspec.structs.replace(row, replicas=None) if isinstance(row, Workload) else row for row in rows]


def job(
    name: str,
    replicas: int | None = None,
    on: Sequence[str] = (),
    *,
    annotations: Texts | None = None,
    pod_annotations: Texts | None = None,
    **options: Unpack[TemplateOptions],
) -> list[Row]:
    """A Job of so many pods at once, and its pods."""
    return _alone("Job", name, replicas, on, (annotations, pod_annotations), options)


def hash_of(name: str) -> str:
    """The template hash that the builders give a Deployment of this name."""
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def _alone(
    kind: str,
    name: str,
    replicas: int | None,
    on: Sequence[str],
    annotations: tuple[Texts | None, Texts | None],
    options: TemplateOptions,
) -> list[Row]:
    app = _app(name, options)
    found = _workload(kind, name, options, len(on) if replicas is None else replicas, app)
    found = msgspec.structs.replace(found, annotations=annotations[0] or {})
    return [found, *_pods(found, on, app, options, annotations[1])]


def _app(name: str, options: TemplateOptions) -> dict[str, str]:
    """What a workload selects by: `app` of its pods, which is its name unless `labels` say otherwise."""
    return {"app": options.get("labels", {}).get("app", name)}


def _workload(kind: str, name: str, options: TemplateOptions, replicas: int, labels: Texts) -> Workload:
    namespace = options.get("namespace", "default")
    template = shape_of(options)
    return Workload(
        kind=kind,
        namespace=namespace,
        name=name,
        uid=uid_of(kind, namespace, name),
        replicas=replicas,
        selector=selector(labels),
        node_selector=template.node_selector,
        node_affinity=template.node_affinity,
    )


def _pods(
    owner: Workload, on: Sequence[str], labels: Texts, options: TemplateOptions, annotations: Texts | None
) -> list[Pod]:
    template: PodOptions = {
        **options,
        "labels": {**labels, **options.get("labels", {})},
        "owner": owner,
        "annotations": annotations or {},
    }
    return [pod(f"{owner.name}-{number}", where, **template) for number, where in enumerate(on)]

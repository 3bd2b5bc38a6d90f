"""The spec of pods, and of the templates that pods are made from: what is filled in, and what must hold.

`pod` and the workloads' rules ask. Containers, volumes, affinity, resources and security have files of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.affinity import affinity_faults, gate_faults, spread_faults, toleration_faults
from kubemini.rules.containers import (
    Surroundings,
    container_faults,
    default_container,
    init_container_faults,
)
from kubemini.rules.faults import (
    duplicate,
    each_wrong,
    not_allowed,
    one_of,
    required,
    too_long,
    unknown,
    wrong,
)
from kubemini.rules.metadata import annotations_faults
from kubemini.rules.pod_resources import all_containers, is_pod_level, totals
from kubemini.rules.quantities import amount, text_of
from kubemini.rules.resources import requirements_faults
from kubemini.rules.security import pod_security_faults
from kubemini.rules.selectors import labels_faults
from kubemini.rules.volumes import default_volumes, volume_faults

_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_MIRROR = "kubernetes.io/config.mirror"
_INT32 = re.compile(r"-[0-9]+|0|[1-9][0-9]*")
_MOST = 2**31 - 1
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")


def default_pod_spec(spec: Json) -> None:
    """Fill in what a spec leaves open, in pods and in templates."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in all_containers(spec):
        default_container(container)
    default_volumes(spec)


def template_faults(path: str, template: Json) -> Iterator[Fault]:
    """What is wrong with a template."""
    metadata, spec = template["metadata"], template["spec"]
    yield from labels_faults(f"{path}.labels", metadata.get("labels", {}))
    yield from annotations_faults(f"{path}.annotations", metadata.get("annotations", {}))
    yield from pod_annotations_faults(f"{path}.annotations", metadata.get("annotations", {}), spec)
    yield from pod_spec_faults(f"{path}.spec", spec)
    if spec.get("ephemeralContainers"):
        yield not_allowed(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def pod_annotations_faults(path: str, annotations: Mapping[str, str], spec: Json) -> Iterator[Fault]:
    """What is wrong with annotations that Kubernetes itself reads."""
    if _MIRROR in annotations and not spec.get("nodeName"):
        yield wrong(
            f"{path}[{_MIRROR}]", annotations[_MIRROR], "must set spec.nodeName if mirror pod annotation is set"
        )
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not (_INT32.fullmatch(cost) and -_MOST - 1 <= int(cost) <= _MOST):
        yield wrong(f"{path}[{_DELETION_COST}]", cost, "must be a 32bit integer")


def pod_spec_faults(path: str, spec: Json, pod: str = "", *, is_pod: bool = False) -> Iterator[Fault]:
    """What is wrong with a spec; `pod` is the name of its pod, if it has one by now."""
    volumes, volume_troubles = volume_faults(f"{path}.volumes", spec.get("volumes", ()), pod)
    claims = frozenset(claim["name"] for claim in spec.get("resourceClaims", ()))
    host_users = spec.get("hostUsers") is not False
    around = Surroundings(
        volumes,
        claims,
        spec.get("terminationGracePeriodSeconds"),
        spec["restartPolicy"],
        host_users,
    )
    yield from volume_troubles
    yield from _claim_faults(f"{path}.resourceClaims", spec.get("resourceClaims", ()))
    containers = spec["containers"] or []
    yield from container_faults(f"{path}.containers", containers, around)
    yield from init_container_faults(f"{path}.initContainers", spec.get("initContainers", []), containers, around)
    if "resources" in spec:
        yield from _pod_level_faults(f"{path}.resources", spec, claims)
    yield from _host_faults(path, spec, is_pod=is_pod)
    yield from one_of(f"{path}.restartPolicy", spec["restartPolicy"], ("Always", "OnFailure", "Never"))
    yield from one_of(f"{path}.dnsPolicy", spec["dnsPolicy"], _DNS_POLICIES)
    yield from labels_faults(f"{path}.nodeSelector", spec.get("nodeSelector", {}))
    yield from pod_security_faults(f"{path}.securityContext", spec["securityContext"])
    if "affinity" in spec:
        yield from affinity_faults(f"{path}.affinity", spec["affinity"])
    yield from _dns_faults(f"{path}.dnsConfig", spec)
    for number, gate in enumerate(spec.get("readinessGates", ())):
        at, sort = f"{path}.readinessGates[{number}].conditionType", gate["conditionType"]
        yield from each_wrong(at, sort, names.label_key(sort))
    yield from gate_faults(f"{path}.schedulingGates", spec.get("schedulingGates", ()))
    yield from spread_faults(f"{path}.topologySpreadConstraints", spec.get("topologySpreadConstraints", ()))
    yield from _name_faults(path, spec)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        yield from each_wrong(f"{path}.activeDeadlineSeconds", deadline, names.in_range(deadline, 1, _MOST))
    yield from toleration_faults(f"{path}.tolerations", spec.get("tolerations", ()))
    yield from _alias_faults(f"{path}.hostAliases", spec)
    if "preemptionPolicy" in spec:
        yield from one_of(f"{path}.preemptionPolicy", spec["preemptionPolicy"], ("PreemptLowerPriority", "Never"))
    if "overhead" in spec:
        yield from requirements_faults(f"{path}.overhead", {"limits": spec["overhead"]}, frozenset())
    if "os" in spec:
        yield from one_of(f"{path}.os", spec["os"]["name"], ("linux", "windows"))
    yield from _file_variable_faults(path, spec)


def _name_faults(path: str, spec: Json) -> Iterator[Fault]:
    for key in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        if spec.get(key):
            yield from each_wrong(f"{path}.{key}", spec[key], names.subdomain(spec[key]))
    for key in ("hostname", "subdomain"):
        if spec.get(key):
            yield from each_wrong(f"{path}.{key}", spec[key], names.label(spec[key]))
    override = spec.get("hostnameOverride")
    if override is not None:
        at = f"{path}.hostnameOverride"
        if spec.get("setHostnameAsFQDN"):
            yield not_allowed(at, "may not be specified when setHostnameAsFQDN is true")
        if spec.get("hostNetwork"):
            yield not_allowed(at, "may not be specified when hostNetwork is true")
        if len(override) > 64:
            yield too_long(at, 64)
        yield from each_wrong(at, override, names.subdomain(override))


def _host_faults(path: str, spec: Json, *, is_pod: bool) -> Iterator[Fault]:
    """What must hold for pods that share something with their node, and for those that must not."""
    if spec.get("hostNetwork"):
        for number, container in enumerate(spec["containers"] or ()):
            for index, port in enumerate(container.get("ports", ())):
                host = port.get("hostPort", 0)
                if (is_pod or host) and host != port["containerPort"]:
                    at = f"{path}.containers[{number}].ports[{index}].hostPort"
                    yield wrong(at, host, "must match `containerPort` when `hostNetwork` is true")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        why = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield wrong(f"{path}.shareProcessNamespace", value=True, detail=why)
    if spec.get("hostUsers") is False:
        for key, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
            if spec.get(key):
                yield not_allowed(f"{path}.{shown}", "when `hostUsers` is false")


def _dns_faults(path: str, spec: Json) -> Iterator[Fault]:
    config = spec.get("dnsConfig")
    if spec["dnsPolicy"] == "None":
        if config is None:
            yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
        elif not config.get("nameservers"):
            why = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(f"{path}.nameservers", why)
    if config is None:
        return
    servers, searches = config.get("nameservers", []), config.get("searches", [])
    if len(servers) > 3:
        yield wrong(f"{path}.nameservers", servers, "must not have more than 3 nameservers")
    for number, server in enumerate(servers):
        yield from each_wrong(f"{path}.nameservers[{number}]", server, names.address(server))
    if len(searches) > 32:
        yield wrong(f"{path}.searches", searches, "must not have more than 32 search paths")
    for number, search in enumerate(searches):
        if search != ".":
            domain = search.removesuffix(".")
            yield from each_wrong(f"{path}.searches[{number}]", domain, names.underscored_subdomain(domain))
    for number, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            yield required(f"{path}.options[{number}]", "must not be empty")


def _alias_faults(path: str, spec: Json) -> Iterator[Fault]:
    for number, alias in enumerate(spec.get("hostAliases", ())):
        yield from each_wrong(f"{path}[{number}].ip", alias["ip"], names.address(alias["ip"]))
        for index, name in enumerate(alias.get("hostnames", ())):
            yield from each_wrong(f"{path}[{number}].hostnames[{index}]", name, names.subdomain(name))


def _claim_faults(path: str, claims: list[Json]) -> Iterator[Fault]:
    seen: set[str] = set()
    for number, claim in enumerate(claims):
        at, name = f"{path}[{number}]", claim["name"]
        if name in seen:
            yield duplicate(f"{at}.name", name)
        seen.add(name)
        yield from each_wrong(f"{at}.name", name, names.label(name))
        given = [claim[key] for key in ("resourceClaimName", "resourceClaimTemplateName") if key in claim]
        if len(given) > 1:
            why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield wrong(at, claim, why)
        elif not given:
            why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield wrong(at, claim, why)


def _pod_level_faults(path: str, spec: Json, claims: frozenset[str]) -> Iterator[Fault]:
    resources = spec["resources"]
    if "claims" in resources:
        yield not_allowed(f"{path}.claims", "claims may not be set for Resources at pod-level")
    yield from requirements_faults(path, resources, claims, pod=True)
    for name, value in totals(spec, "requests").items():
        whole = resources.get("requests", {}).get(name)
        if whole is not None and value > amount(whole):
            why = f"must be greater than or equal to aggregate container requests of {text_of(value, whole)}"
            yield wrong(f"{path}.requests[{name}]", whole, why)
    for number, container in enumerate(spec["containers"] or ()):
        for name, quantity in container["resources"].get("limits", {}).items():
            whole = resources.get("limits", {}).get(name)
            if whole is not None and is_pod_level(name) and amount(quantity) > amount(whole):
                at = f"{path}.containers[{number}][{name}].limits"
                yield wrong(at, quantity, f"must be less than or equal to pod limits of {whole}")


def _file_variable_faults(path: str, spec: Json) -> Iterator[Fault]:
    volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
    for sort in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(sort) or ()):
            for index, variable in enumerate(container.get("env", ())):
                reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
                if reference is None:
                    continue
                at = f"{path}.{sort}[{number}].env[{index}].valueFrom.fileKeyRef.volumeName"
                volume = volumes.get(reference["volumeName"])
                if volume is None:
                    yield unknown(at, reference["volumeName"])
                elif "emptyDir" not in volume:
                    yield wrong(at, reference["volumeName"], "referenced volume must be of type emptyDir")

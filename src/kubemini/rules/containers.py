"""Containers, init containers and sidecars: what is filled in, and what must hold.

`pod_spec` asks for pods and templates; environment, probes, resources and security have files of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.environment import default_environment, environment_faults
from kubemini.rules.faults import (
    duplicate,
    each_wrong,
    not_allowed,
    one_of,
    required,
    too_many,
    unknown,
    unsupported,
    wrong,
)
from kubemini.rules.images import pull_policy
from kubemini.rules.probes import PROBES, default_probes, lifecycle_faults, probe_faults
from kubemini.rules.resources import requirements_faults
from kubemini.rules.security import container_security_faults
from kubemini.rules.volumes import backstep_faults, descending_faults

PROTOCOLS = ("SCTP", "TCP", "UDP")
_NOT_FOR_INIT = "may not be set for init containers without restartPolicy=Always"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What of the pod its containers are looked at with."""

    volumes: dict[str, Json] = field(default_factory=dict)
    claims: frozenset[str] = frozenset()
    grace: int | None = None
    restarts: str = "Always"
    host_users: bool = True


def default_container(container: Json) -> None:
    """Fill in what a container leaves open."""
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    default_environment(container)
    default_probes(container)


def container_faults(path: str, containers: list[Json], around: Surroundings) -> Iterator[Fault]:
    """What is wrong with the containers of a pod."""
    if not containers:
        yield required(path)
        return
    seen: set[str] = set()
    for number, container in enumerate(containers):
        at = f"{path}[{number}]"
        yield from _common(at, container, around)
        if container["name"] in seen:
            yield duplicate(f"{at}.name", container["name"])
        seen.add(container["name"])
        yield from lifecycle_faults(at, container, around.grace)
        yield from probe_faults(at, container, around.grace)
        yield from _restart_faults(at, container)
    yield from _host_port_faults(path, containers)


def init_container_faults(
    path: str, containers: list[Json], others: list[Json], around: Surroundings
) -> Iterator[Fault]:
    """What is wrong with the init containers of a pod, sidecars among them."""
    seen = {container["name"] for container in others}
    for number, container in enumerate(containers):
        at = f"{path}[{number}]"
        yield from _common(at, container, around)
        yield from _restart_faults(at, container)
        if container["name"] in seen:
            yield duplicate(f"{at}.name", container["name"])
        elif container["name"]:
            seen.add(container["name"])
        yield from _host_port_faults(path, [container])
        if container.get("restartPolicy") == "Always":
            yield from lifecycle_faults(at, container, around.grace)
            yield from probe_faults(at, container, around.grace)
        else:
            for key in ("lifecycle", *PROBES):
                if key in container:
                    yield not_allowed(f"{at}.{key}", _NOT_FOR_INIT)
            for index, policy in enumerate(container.get("resizePolicy", ())):
                if policy["restartPolicy"] == "RestartContainer":
                    why = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                    yield wrong(f"{at}.resizePolicy[{index}].restartPolicy", "RestartContainer", why)


def _common(path: str, container: Json, around: Surroundings) -> Iterator[Fault]:
    if not container["name"]:
        yield required(f"{path}.name")
    else:
        yield from each_wrong(f"{path}.name", container["name"], names.label(container["name"]))
    if not container.get("image"):
        yield required(f"{path}.image")
    policy = container.get("terminationMessagePolicy", "")
    yield from one_of(f"{path}.terminationMessagePolicy", policy, ("File", "FallbackToLogsOnError"))
    yield from one_of(f"{path}.imagePullPolicy", container["imagePullPolicy"], ("Always", "IfNotPresent", "Never"))
    yield from _port_faults(f"{path}.ports", container.get("ports", ()))
    if "env" in container or "envFrom" in container:
        yield from environment_faults(path, container)
    if "volumeMounts" in container or "volumeDevices" in container:
        yield from _mount_faults(f"{path}.volumeMounts", container, around)
        yield from _device_faults(f"{path}.volumeDevices", container, around)
    if container["resources"]:
        yield from requirements_faults(f"{path}.resources", container["resources"], around.claims)
    yield from _resize_faults(f"{path}.resizePolicy", container.get("resizePolicy", ()), around.restarts)
    if (context := container.get("securityContext")) is not None:
        yield from container_security_faults(f"{path}.securityContext", context, host_users=around.host_users)


def _port_faults(path: str, ports: Iterable[Json]) -> Iterator[Fault]:
    seen: set[str] = set()
    for number, port in enumerate(ports):
        at, name = f"{path}[{number}]", port.get("name", "")
        if name and (details := names.port_name(name)):
            yield from each_wrong(f"{at}.name", name, details)
        elif name in seen:
            yield duplicate(f"{at}.name", name)
        elif name:
            seen.add(name)
        if not port["containerPort"]:
            yield required(f"{at}.containerPort")
        else:
            yield from each_wrong(
                f"{at}.containerPort", port["containerPort"], names.port_number(port["containerPort"])
            )
        if port.get("hostPort"):
            yield from each_wrong(f"{at}.hostPort", port["hostPort"], names.port_number(port["hostPort"]))
        yield from one_of(f"{at}.protocol", port["protocol"], PROTOCOLS)


def _host_port_faults(path: str, containers: Iterable[Json]) -> Iterator[Fault]:
    seen: set[str] = set()
    for number, container in enumerate(containers):
        for index, port in enumerate(container.get("ports", ())):
            if port.get("hostPort"):
                this = f"{port['protocol']}/{port.get('hostIP', '')}/{port['hostPort']}"
                if this in seen:
                    yield duplicate(f"{path}[{number}].ports[{index}].hostPort", this)
                seen.add(this)


def _mount_faults(path: str, container: Json, around: Surroundings) -> Iterator[Fault]:
    devices = {device["name"]: device["devicePath"] for device in container.get("volumeDevices", ())}
    taken: set[str] = set()
    for number, mount in enumerate(container.get("volumeMounts", ())):
        at, name, where = f"{path}[{number}]", mount["name"], mount["mountPath"]
        if not name:
            yield required(f"{at}.name")
        if name not in around.volumes:
            yield unknown(f"{at}.name", name)
        if not where:
            yield required(f"{at}.mountPath")
        if where in taken:
            yield wrong(f"{at}.mountPath", where, "must be unique")
        taken.add(where)
        if name in devices:
            yield wrong(f"{at}.name", name, "must not already exist in volumeDevices")
        if where in devices.values():
            yield wrong(f"{at}.mountPath", where, "must not already exist as a path in volumeDevices")
        yield from descending_faults(f"{path}.subPath", mount.get("subPath", ""))
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                why = "subPathExpr and subPath are mutually exclusive"
                yield wrong(f"{at}.subPathExpr", mount["subPathExpr"], why)
            yield from descending_faults(f"{path}.subPathExpr", mount["subPathExpr"])
        yield from _propagation_faults(path, mount, container)


def _propagation_faults(path: str, mount: Json, container: Json) -> Iterator[Fault]:
    spread, read_only = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
    allowed = ("Bidirectional", "HostToContainer", "None")
    if spread is not None and spread not in allowed:
        yield unsupported(f"{path}.mountPropagation", spread, allowed)
    if spread == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        why = "Bidirectional mount propagation is available only to privileged containers"
        yield not_allowed(f"{path}.mountPropagation", why)
    if read_only in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            yield not_allowed(f"{path}.recursiveReadOnly", "may only be specified when readOnly is true")
        if spread not in (None, "None"):
            why = "may only be specified when mountPropagation is None or not specified"
            yield not_allowed(f"{path}.recursiveReadOnly", why)
    elif read_only not in (None, "Disabled"):
        yield unsupported(f"{path}.recursiveReadOnly", read_only, ("Disabled", "Enabled", "IfPossible"))


def _device_faults(path: str, container: Json, around: Surroundings) -> Iterator[Fault]:
    mounts = {mount["name"]: mount["mountPath"] for mount in container.get("volumeMounts", ())}
    names_taken: set[str] = set()
    paths_taken: set[str] = set()
    for number, device in enumerate(container.get("volumeDevices", ())):
        at, name, where = f"{path}[{number}]", device["name"], device["devicePath"]
        volume = around.volumes.get(name)
        if not name:
            yield required(f"{at}.name")
        if name in names_taken:
            yield wrong(f"{at}.name", name, "must be unique")
        if volume is None:
            yield unknown(f"{at}.name", name)
        elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield wrong(f"{at}.name", name, why)
        if not where:
            yield required(f"{at}.devicePath")
        if where in paths_taken:
            yield wrong(f"{at}.devicePath", where, "must be unique")
        if list(backstep_faults(at, where)):
            yield wrong(f"{at}.devicePath", where, "can not contain backsteps ('..')")
        if name in mounts:
            yield wrong(f"{at}.name", name, "must not already exist in volumeMounts")
        if where in mounts.values():
            yield wrong(f"{at}.devicePath", where, "must not already exist as a path in volumeMounts")
        names_taken.add(name)
        paths_taken.add(where)


def _resize_faults(path: str, policies: Iterable[Json], restarts: str) -> Iterator[Fault]:
    seen: set[str] = set()
    for number, policy in enumerate(policies):
        resource, way = policy["resourceName"], policy["restartPolicy"]
        if resource in seen:
            yield duplicate(f"{path}[{number}]", resource)
        seen.add(resource)
        yield from one_of(path, resource, ("cpu", "memory"))
        yield from one_of(path, way, ("NotRequired", "RestartContainer"))
        if restarts == "Never" and way != "NotRequired":
            yield wrong(path, way, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def _restart_faults(path: str, container: Json) -> Iterator[Fault]:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules", ())
    if policy is None:
        if rules:
            yield required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    elif policy not in ("Always", "Never", "OnFailure"):
        yield unsupported(f"{path}.restartPolicy", policy, ("Always", "Never", "OnFailure"))
    if len(rules) > 20:
        yield too_many(f"{path}.restartPolicyRules", len(rules), 20)
    for number, rule in enumerate(rules):
        at = f"{path}.restartPolicyRules[{number}]"
        actions = ("Restart", "RestartAllContainers")
        if rule.get("action") not in actions:
            yield unsupported(f"{at}.action", rule.get("action", ""), actions)
        codes = rule.get("exitCodes")
        if codes is None:
            yield required(f"{at}.exitCodes", "must be specified")
        elif codes.get("operator") not in ("In", "NotIn"):
            yield unsupported(f"{at}.exitCodes.operator", codes.get("operator", ""), ("In", "NotIn"))
        elif len(codes.get("values", ())) > 255:
            yield too_many(f"{at}.exitCodes.values", len(codes["values"]), 255)

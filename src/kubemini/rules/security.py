"""The security contexts of pods and containers: what must hold for them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.faults import duplicate, each_wrong, required, unsupported, wrong
from kubemini.rules.volumes import descending_faults

_MOST = 2**31 - 1
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")


def pod_security_faults(path: str, context: Json) -> Iterator[Fault]:
    """What is wrong with the security context of a whole pod."""
    for key in ("fsGroup", "runAsUser", "runAsGroup"):
        yield from _identity(f"{path}.{key}", context.get(key))
    for number, group in enumerate(context.get("supplementalGroups", ())):
        yield from _identity(f"{path}.supplementalGroups[{number}]", group)
    seen: set[str] = set()
    for number, setting in enumerate(context.get("sysctls", ())):
        at, name = f"{path}.sysctls[{number}].name", setting["name"]
        if not name:
            yield required(at)
        elif len(name) > 253 or not _SYSCTL.fullmatch(name):
            yield wrong(at, name, f"must have at most 253 characters and match regex ^{_SYSCTL.pattern}$")
        elif name in seen:
            yield duplicate(at, name)
        seen.add(name)
    for key, allowed in (
        ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
        ("supplementalGroupsPolicy", ("Merge", "Strict")),
        ("seLinuxChangePolicy", ("MountOption", "Recursive")),
    ):
        if key in context and context[key] not in allowed:
            yield unsupported(f"{path}.{key}", context[key], allowed)
    yield from _profiles(path, context)


def container_security_faults(path: str, context: Json, *, host_users: bool) -> Iterator[Fault]:
    """What is wrong with the security context of a container."""
    for key in ("runAsUser", "runAsGroup"):
        yield from _identity(f"{path}.{key}", context.get(key))
    if "procMount" in context:
        if context["procMount"] not in ("Default", "Unmasked"):
            yield unsupported(f"{path}.procMount", context["procMount"], ("Default", "Unmasked"))
        elif context["procMount"] == "Unmasked" and host_users:
            yield wrong(f"{path}.procMount", "Unmasked", "`hostUsers` must be false to use `Unmasked`")
    if context.get("allowPrivilegeEscalation") is False:
        both = "cannot set `allowPrivilegeEscalation` to false and"
        if context.get("privileged"):
            yield wrong(path, context, f"{both} `privileged` to true")
        if "CAP_SYS_ADMIN" in (context.get("capabilities") or {}).get("add", ()):
            yield wrong(path, context, f"{both} `capabilities.Add` CAP_SYS_ADMIN")
    yield from _profiles(path, context)


def _identity(path: str, number: int | None) -> Iterator[Fault]:
    if number is not None:
        yield from each_wrong(path, number, names.in_range(number, 0, _MOST))


def _profiles(path: str, context: Json) -> Iterator[Fault]:
    for key, sort in (("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")):
        profile = context.get(key)
        if profile is None:
            continue
        at, chosen = f"{path}.{key}", profile["type"]
        if not chosen:
            yield required(f"{at}.type", f"type is required when {key} is set")
        elif chosen not in _PROFILES:
            yield unsupported(f"{at}.type", chosen, _PROFILES)
        elif chosen == "Localhost":
            if not profile.get("localhostProfile"):
                yield required(f"{at}.localhostProfile", f"must be set when {sort} type is Localhost")
            elif key == "seccompProfile":
                yield from descending_faults(f"{at}.localhostProfile", profile["localhostProfile"])
        elif "localhostProfile" in profile:
            why = f"can only be set when {sort} type is Localhost"
            yield wrong(f"{at}.localhostProfile", profile["localhostProfile"], why)

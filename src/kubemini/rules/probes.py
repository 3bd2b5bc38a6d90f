"""Probes and lifecycle hooks of containers: what is filled in, and what must hold."""

from __future__ import annotations

from collections.abc import Iterator

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.faults import each_wrong, negative, not_allowed, required, unsupported, wrong

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_DEFAULTS = (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3))


def default_probes(container: Json) -> None:
    """Fill in what a container's probes and hooks leave open."""
    for name in PROBES:
        if (probe := container.get(name)) is not None:
            for key, value in _DEFAULTS:
                probe.setdefault(key, value)
            _default_handler(probe)
            if "grpc" in probe and probe["grpc"]["service"] is None:
                probe["grpc"]["service"] = ""
    lifecycle = container.get("lifecycle") or {}
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            _default_handler(lifecycle[hook])


def probe_faults(path: str, container: Json, grace: int | None) -> Iterator[Fault]:
    """What is wrong with the probes of a container."""
    for name in PROBES:
        probe = container.get(name)
        if probe is None:
            continue
        at = f"{path}.{name}"
        yield from _handler(at, probe, grace)
        for key in ("initialDelaySeconds", *(key for key, _ in _DEFAULTS)):
            yield from negative(f"{at}.{key}", probe.get(key))
        own_grace = probe.get("terminationGracePeriodSeconds")
        if own_grace is not None and own_grace <= 0:
            yield wrong(f"{at}.terminationGracePeriodSeconds", own_grace, "must be greater than 0")
        if own_grace is not None and name == "readinessProbe":
            yield wrong(f"{at}.terminationGracePeriodSeconds", own_grace, "must not be set for readinessProbes")
        if name != "readinessProbe" and probe.get("successThreshold") != 1:
            yield wrong(f"{at}.successThreshold", probe.get("successThreshold", 0), "must be 1")


def lifecycle_faults(path: str, container: Json, grace: int | None) -> Iterator[Fault]:
    """What is wrong with the hooks of a container."""
    lifecycle = container.get("lifecycle") or {}
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            yield from _handler(f"{path}.lifecycle.{hook}", lifecycle[hook], grace)


def _default_handler(handler: Json) -> None:
    if (get := handler.get("httpGet")) is not None:
        get.setdefault("path", "/")
        get.setdefault("scheme", "HTTP")


def _handler(path: str, handler: Json, grace: int | None) -> Iterator[Fault]:
    given = [each for each in _HANDLERS if each in handler]
    if not given:
        yield required(path, "must specify a handler type")
        return
    for more in given[1:]:
        yield not_allowed(f"{path}.{more}", "may not specify more than 1 handler type")
    sort = given[0]
    at, action = f"{path}.{sort}", handler[sort]
    if sort == "exec" and not action.get("command"):
        yield required(f"{at}.command")
    if sort in ("httpGet", "tcpSocket", "grpc"):
        yield from each_wrong(f"{at}.port", action["port"], names.port(action["port"]))
    if sort == "httpGet":
        if action.get("scheme") not in ("HTTP", "HTTPS"):
            yield unsupported(f"{at}.scheme", action.get("scheme", ""), ("HTTP", "HTTPS"))
        for header in action.get("httpHeaders", ()):
            yield from each_wrong(f"{at}.httpHeaders", header["name"], names.header(header["name"]))
    if sort == "sleep" and grace is not None and not 0 <= action["seconds"] <= grace:
        why = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        yield wrong(at, action["seconds"], why)

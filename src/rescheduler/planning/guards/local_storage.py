from __future__ import annotations

from rescheduler.model import labels
from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext

_OF_SIDECARS = frozenset(
    {
        *("istio-data", "istio-envoy", "workload-socket", "credential-socket", "workload-certs"),  # Istio
        *("linkerd-proxy-init-xtables-lock", "linkerd-identity-end-entity"),  # Linkerd
        *("kuma-init-tmp", "kuma-sidecar-tmp"),  # Kuma
    }
)
"""The emptyDirs that injectors add, for sockets, locks and certificates: each new pod gets its own."""


@Guard(
    order=280,
    caption="Data on its node",
    changed_by=f"`allow.localStorage`, the pod's annotation `{labels.SAFE_LOCAL_VOLUMES}`",
)
def local_storage(pod: Pod, context: GuardContext) -> str:
    """Pods with data on their node, unless allow.localStorage; emptyDirs of memory or of known sidecars don't count."""
    kept = pod.shape.local_storage
    if not kept or context.policy.allow.local_storage or context.lifts_caution(pod):
        return ""
    safe = {name.strip() for name in pod.annotations.get(labels.SAFE_LOCAL_VOLUMES, "").split(",")}
    lost = [each for each in kept if not _is_safe(each, safe)]
    return f"it has local storage ({', '.join(lost)})" if lost else ""


def _is_safe(volume: str, named: set[str]) -> bool:
    kind, _, name = volume.rpartition(" ")
    return name in named or (kind == "emptyDir" and name in _OF_SIDECARS)

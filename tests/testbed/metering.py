"""The real metrics-server behind the real API server's aggregation layer: metrics.k8s.io, from what KWOK simulates.

A test starts it on a running control plane for the length of a block. It reads the kubelets of nodes that were made
with `NodeShape(kubelet_port=cluster.kubelet_port)`, all of them served by KWOK (see stages/usage.yaml), and is called
by the API server through an ExternalName Service, since nothing routes to pods here. It reads every 10 s, the least it
allows, and has the CPU of a pod after two reads.
"""

import base64
import contextlib
from collections.abc import Iterator

from rescheduler.model.json import Json
from tests.testbed.api import ApiError
from tests.testbed.binaries import metrics_server
from tests.testbed.cluster import ControlPlane
from tests.testbed.processes import Child, listening, until

SERVICE = "/api/v1/namespaces/kube-system/services"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
NAME = "v1beta1.metrics.k8s.io"


@contextlib.contextmanager
def metered(cluster: ControlPlane) -> Iterator[Child]:
    """metrics.k8s.io is served in the block, and gone after it."""
    child, port = _start(cluster)
    service = {
        "metadata": {"name": "metrics-server"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }
    try:
        cluster.api.post(SERVICE, service)
        cluster.api.post(API_SERVICES, _registration(cluster, port))
        until("metrics.k8s.io is available", lambda: _available(cluster), [child])
        yield child
    finally:
        for path in (f"{API_SERVICES}/{NAME}", f"{SERVICE}/metrics-server"):
            with contextlib.suppress(ApiError):  # it failed before this was made
                cluster.api.delete(path)
        child.kill()


def _start(cluster: ControlPlane) -> tuple[Child, int]:
    program = metrics_server()
    serving = cluster.serving_pair("metrics-server-serving", "metrics-server.kube-system.svc")
    # It reads nodes and pods, and asks the API server to authenticate and authorise its callers.
    kubeconfig = cluster.kubeconfig_as("metrics-server", "system:masters")
    options = [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        "--kubelet-preferred-address-types=ExternalIP",
        "--kubelet-use-node-status-port",
        f"--kubelet-certificate-authority={cluster.certificate_authority}",
        "--kubelet-request-timeout=5s",
        "--metric-resolution=10s",
    ]

    def start(port: int) -> Child:
        log = cluster.log_of("metrics-server")
        return Child("metrics-server", program, [*options, f"--secure-port={port}"], log)

    return listening(start, lambda port: _listens(cluster, port))


def _listens(cluster: ControlPlane, port: int) -> bool:
    try:
        with contextlib.closing(cluster.another_server(port)) as api:
            api.text("/livez")
    except ApiError:
        return True  # it answers, whatever it says
    except OSError:
        return False
    return True


def _registration(cluster: ControlPlane, port: int) -> Json:
    bundle = base64.b64encode(cluster.certificate_authority.read_bytes()).decode()
    spec = {
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "caBundle": bundle,
        "service": {"namespace": "kube-system", "name": "metrics-server", "port": port},
    }
    return {"metadata": {"name": NAME}, "spec": spec}


def _available(cluster: ControlPlane) -> bool:
    found = cluster.api.get(f"{API_SERVICES}/{NAME}").get("status", {}).get("conditions", ())
    return any(each["type"] == "Available" and each["status"] == "True" for each in found)

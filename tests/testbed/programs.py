"""With which options each program of the control plane runs, and the configuration files that it reads.

`cluster` starts them in the order below. All listen on loopback only, all speak TLS with certificates of this one
cluster (so that a program can never mistake another run's etcd or API server for its own, even if it got hold of the
same port), and RBAC is on: the controller manager and the scheduler have the rights that they have in a real cluster.
Requests of all other users than these programs and the administrator are in the API server's audit log.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from rescheduler.model.json import Json
from tests.testbed.pki import Authority, Pair

STAGES = Path(__file__).with_name("stages")
OWN_USERS = (
    "admin",
    "kwok",
    "metrics-server",
    "system:aggregator",
    "system:apiserver",
    "system:kube-controller-manager",
    "system:kube-scheduler",
)
PROXY = "system:aggregator"
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [
        {"level": "None", "users": list(OWN_USERS)},
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system", "system:unauthenticated"]},
        {"level": "Metadata"},
    ],
}
Question = Callable[[], object]


@dataclass(frozen=True)
class Layout:
    """Where things are in one control plane."""

    folder: Path
    authority: Authority
    port: int
    etcd_port: int
    kubelet_port: int

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def service_account_key(self) -> Path:
        return self.folder / "pki" / "service-accounts.key"

    @property
    def audit_log(self) -> Path:
        return self.folder / "logs" / "audit.log"

    def kubeconfig(self, user: str, *groups: str) -> str:
        client = self.authority.client(user, *groups)
        return str(self.authority.kubeconfig(self.folder / f"{user.replace(':', '-')}.kubeconfig", self.server, client))


def etcd(layout: Layout) -> list[str]:
    serving = layout.authority.server("etcd")
    url = f"https://127.0.0.1:{layout.etcd_port}"
    return [
        f"--data-dir={layout.folder / 'etcd'}",
        "--unsafe-no-fsync",  # the data need not outlive us
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        "--listen-peer-urls=http://127.0.0.1:0",  # there are no peers: any port will do
        "--quota-backend-bytes=8589934592",
        f"--cert-file={serving.certificate}",
        f"--key-file={serving.key}",
        f"--trusted-ca-file={layout.authority.certificate}",
        "--client-cert-auth",
        "--log-level=warn",
    ]


def kube_apiserver(layout: Layout) -> list[str]:
    serving = layout.authority.server("kube-apiserver")
    etcd_client = layout.authority.client("kube-apiserver-etcd-client")
    proxy = layout.authority.client(PROXY)
    accounts: Pair = layout.authority.signing_key("service-accounts")
    policy = layout.folder / "audit-policy.yaml"
    policy.write_text(yaml.safe_dump(AUDIT_POLICY))
    return [
        f"--etcd-servers=https://127.0.0.1:{layout.etcd_port}",
        f"--etcd-cafile={layout.authority.certificate}",
        f"--etcd-certfile={etcd_client.certificate}",
        f"--etcd-keyfile={etcd_client.key}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={layout.port}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--client-ca-file={layout.authority.certificate}",
        # With these it can stand for its callers before servers of other APIs: metrics-server (see metering.py).
        f"--proxy-client-cert-file={proxy.certificate}",
        f"--proxy-client-key-file={proxy.key}",
        f"--requestheader-client-ca-file={layout.authority.certificate}",
        f"--requestheader-allowed-names={PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--authorization-mode=RBAC",
        "--anonymous-auth=true",
        "--allow-privileged=true",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={accounts.certificate}",
        f"--service-account-signing-key-file={accounts.key}",
        "--endpoint-reconciler-type=none",  # loopback is no address for an endpoint: without this it never gets ready
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=1000",
        "--profiling=false",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={layout.audit_log}",
        "--audit-log-mode=blocking",  # an answer that has come is in the log
    ]


def kube_controller_manager(layout: Layout) -> list[str]:
    return [
        f"--kubeconfig={layout.kubeconfig('system:kube-controller-manager')}",
        "--secure-port=0",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.service_account_key}",
        f"--root-ca-file={layout.authority.certificate}",
        "--allocate-node-cidrs=false",
        # One that cannot renew its Lease in time ends, and a busy machine may keep it from that for longer than 10 s.
        "--leader-elect-lease-duration=900s",
        "--leader-elect-renew-deadline=600s",
        # A kubelet that has missed four renewals of its Lease is given up, as ever, but they are 3 s apart (kwok.yaml),
        # so a dead node is noticed in seconds where a real cluster takes most of a minute.
        "--node-monitor-grace-period=12s",
        "--node-monitor-period=2s",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--profiling=false",
    ]


def kwok(layout: Layout) -> list[str]:
    # KWOK acts for every kubelet at once, and for that there is no role in Kubernetes.
    configs = [f"--config={path}" for path in sorted(STAGES.glob("*.yaml"))]
    serving = layout.authority.server("kubelets")
    return [
        f"--kubeconfig={layout.kubeconfig('kwok', 'system:masters')}",
        f"--server-address=127.0.0.1:{layout.kubelet_port}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        *configs,
    ]


def kube_scheduler(layout: Layout, port: int, fields: Json) -> list[str]:
    """Without leader election: after a restart no program waits for the lease of the one that was killed."""
    config = layout.folder / "kube-scheduler.yaml"
    connection = {"kubeconfig": layout.kubeconfig("system:kube-scheduler"), "qps": 500, "burst": 1000}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": connection,
        **fields,
    }
    config.write_text(yaml.safe_dump(document))
    serving = layout.authority.server("kube-scheduler")
    return [
        f"--config={config}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
    ]

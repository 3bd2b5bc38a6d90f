"""What is needed to talk to one API server, as plain values: no file is read and no plugin is run here.

Made by `kubeconfig.py` from a kubeconfig or from a pod's service account; used by `auth.py`, `tls.py` and `client.py`.
`Credential` is what comes of them for one request. Every value that can be wrong carries `where`, the file and the
path in it, so that an error found much later (a certificate that does not load, a plugin that is missing) still names
the line the user has to change. Secrets are kept out of `repr`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

InteractiveMode = Literal["Never", "IfAvailable", "Always"]


@dataclass(frozen=True, slots=True)
class Pem:
    """PEM text that stands in the kubeconfig (`data`) or in a file of its own (`path`), which may be rewritten."""

    where: str
    path: Path | None = None
    data: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    certificate: Pem
    key: Pem


@dataclass(frozen=True, slots=True)
class BearerToken:
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A token that something else keeps fresh (the kubelet, for a pod's service account)."""

    path: Path
    where: str


@dataclass(frozen=True, slots=True)
class BasicLogin:
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A command that prints credentials (`client.authentication.k8s.io`)."""

    where: str
    command: str
    api_version: str
    interactive_mode: InteractiveMode
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    install_hint: str = ""
    provide_cluster_info: bool = False
    # The cluster's `client.authentication.k8s.io/exec` extension, handed to the plugin as it stands.
    cluster_config: Any = None


Login = BearerToken | TokenFile | BasicLogin | ExecPlugin


@dataclass(frozen=True, slots=True)
class AuthInfo:
    """Who we are: at most one login (a header, or a plugin that gives one), and a certificate of our own beside it."""

    login: Login | None = None
    certificate: ClientCertificate | None = None


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Whom we act as (`--as`, `--as-group`, `--as-uid`, `--as-user-extra`, or the same in the kubeconfig)."""

    user: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Connection:
    """One API server and who we are there. `source` names where this came from, for messages."""

    server: str
    source: str
    ca: Pem | None = None
    tls_server_name: str | None = None
    insecure: bool = False
    proxy_url: str | None = field(default=None, repr=False)  # it may hold a password
    compression: bool = True
    namespace: str = "default"
    credentials: AuthInfo = AuthInfo()
    impersonation: Impersonation = Impersonation()


@dataclass(frozen=True, slots=True)
class CertificatePair:
    """A client certificate and its key, as PEM. `where` is for messages and does not make two pairs differ."""

    certificate: bytes
    key: bytes = field(repr=False)
    where: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Credential:
    """What one request carries: an Authorization header, a client certificate, both or neither.

    `generation` counts the runs of an exec plugin: it tells a caller whose token was refused that another caller has
    renewed it already.
    """

    authorization: str | None = field(default=None, repr=False)
    certificate: CertificatePair | None = None
    generation: int = field(default=0, compare=False)

"""From flags, environment and kubeconfig files to one Connection: which server, and who we are there.

Called once by each command that needs a cluster; `client.py` takes the Connection from there. Only the kubeconfig
itself is read here: the files it refers to are read when they are used, because they may change. The order is
kubectl's: `--kubeconfig`, else the files in KUBECONFIG, else `~/.kube/config`, else the pod's service account.
"""

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from yarl import URL

from rescheduler.cluster.connection import Connection, Credentials, ExecPlugin, Impersonation, Pem, TokenFile
from rescheduler.cluster.errors import KubeconfigError
from rescheduler.cluster.kubeconfig_entries import (
    ca_of,
    checked_impersonation,
    credentials_of,
    impersonation_of,
    proxy_of,
    server_of,
)
from rescheduler.cluster.kubeconfig_file import (
    ClusterFields,
    ContextFields,
    Entry,
    Kubeconfig,
    UserFields,
    exec_extension,
    label_of,
    merge,
)
from rescheduler.cluster.proxy import proxy_from_environment

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class KubeconfigOptions:
    """The flags: `--kubeconfig`, `--context`, and `--as` with its companions."""

    kubeconfig: Path | None = None
    context: str | None = None
    impersonation: Impersonation = field(default_factory=Impersonation)


def load_connection(
    options: KubeconfigOptions, environ: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT
) -> Connection:
    """The Connection that the flags and the environment ask for, or a KubeconfigError that says what is missing."""
    home = _home(environ)
    files = _files(options, environ, home)
    config = merge((path for path in files if options.kubeconfig is not None or path.exists()), home)
    labels = [label_of(path, home) for path in files]
    if config.is_empty() and options.kubeconfig is None:
        # A context was asked for by name: the pod's own account would be another cluster than the user thinks.
        if options.context is None and _is_in_cluster(environ, service_account):
            return _in_cluster(environ, service_account, options.impersonation)
        raise KubeconfigError(_nothing_found(labels, environ, service_account))
    return _from_context(config, options, environ, ", ".join(labels))


def _home(environ: Mapping[str, str]) -> Path | None:
    home = environ.get("HOME") or environ.get("USERPROFILE")
    return Path(home) if home else None


def _files(options: KubeconfigOptions, environ: Mapping[str, str], home: Path | None) -> list[Path]:
    if options.kubeconfig is not None:
        return [options.kubeconfig]
    listed = [Path(name) for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if listed:
        return list(dict.fromkeys(listed))
    return [home / ".kube" / "config"] if home is not None else []


def _is_in_cluster(environ: Mapping[str, str], service_account: Path) -> bool:
    variables = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
    return all(environ.get(name) for name in variables) and (service_account / "token").is_file()


def _in_cluster(environ: Mapping[str, str], folder: Path, impersonation: Impersonation) -> Connection:
    host = environ["KUBERNETES_SERVICE_HOST"]
    server = f"https://{f'[{host}]' if ':' in host else host}:{environ['KUBERNETES_SERVICE_PORT']}"
    namespace = folder / "namespace"
    source = "the pod's service account"
    return Connection(
        server=server,
        source=source,
        ca=Pem(source, folder / "ca.crt"),
        proxy_url=proxy_from_environment(URL(server), environ),
        namespace=(namespace.read_text().strip() if namespace.is_file() else "") or "default",
        credentials=Credentials(TokenFile(folder / "token", source)),
        impersonation=checked_impersonation(impersonation, "--as"),
    )


def _nothing_found(labels: list[str], environ: Mapping[str, str], service_account: Path) -> str:
    looked = " and ".join(labels) or "no kubeconfig (HOME is not set)"
    named_by = "KUBECONFIG names" if environ.get("KUBECONFIG") else "--kubeconfig and KUBECONFIG are not set, so it is"
    pod = (
        f"{service_account / 'token'} is missing"
        if environ.get("KUBERNETES_SERVICE_HOST")
        else "this is not a pod (KUBERNETES_SERVICE_HOST is not set)"
    )
    return (
        f"no cluster to talk to: {named_by} {looked}, which does not exist or is empty, and {pod}; "
        "give --kubeconfig, or set KUBECONFIG to your kubeconfig"
    )


def _from_context(config: Kubeconfig, options: KubeconfigOptions, environ: Mapping[str, str], files: str) -> Connection:
    name = options.context or config.current_context
    if not name:
        raise KubeconfigError(f"{files}: current-context: is not set; give --context. {_known(config.contexts)}")
    context = config.contexts.get(name)
    if context is None:
        asked = "--context" if options.context else "current-context"
        raise KubeconfigError(f"{files}: {asked}: there is no context {name}{_hint(name, config.contexts)}")
    cluster = _cluster_of(context, config)
    user = _user_of(context, config)
    return Connection(
        server=server_of(cluster),
        source=f"context {name} of {context.label}",
        ca=ca_of(cluster),
        tls_server_name=cluster.fields.tls_server_name or None,
        insecure=cluster.fields.insecure_skip_tls_verify,
        proxy_url=proxy_of(cluster, environ),
        compression=not cluster.fields.disable_compression,
        namespace=context.fields.namespace or "default",
        credentials=_with_cluster_config(credentials_of(user), cluster, context.fields.cluster)
        if user is not None
        else Credentials(),
        impersonation=impersonation_of(user, options.impersonation),
    )


def _with_cluster_config(credentials: Credentials, cluster: Entry[ClusterFields], name: str) -> Credentials:
    login = credentials.login
    if not isinstance(login, ExecPlugin) or not login.provide_cluster_info:
        return credentials
    return replace(credentials, login=replace(login, cluster_config=exec_extension(cluster, name)))


def _cluster_of(context: Entry[ContextFields], config: Kubeconfig) -> Entry[ClusterFields]:
    name = context.fields.cluster
    if not name:
        raise KubeconfigError(f"{context.where('cluster')}: is not set. {_known(config.clusters)}")
    if name not in config.clusters:
        raise KubeconfigError(f"{context.where('cluster')}: there is no cluster {name}{_hint(name, config.clusters)}")
    return config.clusters[name]


def _user_of(context: Entry[ContextFields], config: Kubeconfig) -> Entry[UserFields] | None:
    """None is nobody: a server that lets anyone in needs no user."""
    name = context.fields.user
    if name and name not in config.users:
        raise KubeconfigError(f"{context.where('user')}: there is no user {name}{_hint(name, config.users)}")
    return config.users.get(name)


def _hint(name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}? {_known(known)}" if near else f". {_known(known)}"


def _known(names: Mapping[str, object]) -> str:
    return f"Known: {', '.join(sorted(names))}" if names else "None is known"

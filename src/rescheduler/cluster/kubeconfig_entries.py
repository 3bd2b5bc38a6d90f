"""One cluster entry and one user entry of a kubeconfig, checked and turned into the parts of a Connection.

`kubeconfig.py` picks the two entries by context and calls these. Only what the chosen context uses is checked, so a
broken entry of another context does no harm, as in kubectl. The precedences are client-go's. Every error names the
file and the path in it, and what to write instead.
"""

import base64
import binascii
import os
from collections.abc import Mapping
from typing import Any, get_args

from yarl import URL

from rescheduler.cluster.connection import (
    BasicLogin,
    BearerToken,
    ClientCertificate,
    Credentials,
    ExecPlugin,
    Impersonation,
    InteractiveMode,
    Login,
    Pem,
    TokenFile,
)
from rescheduler.cluster.errors import KubeconfigError
from rescheduler.cluster.kubeconfig_file import ClusterFields, Entry, ExecFields, UserFields
from rescheduler.cluster.proxy import checked_proxy, proxy_from_environment

EXEC_API = "client.authentication.k8s.io"


def server_of(cluster: Entry[ClusterFields]) -> str:
    where, server = cluster.where("server"), cluster.fields.server
    try:
        url = URL(server)
        port = url.port
    except ValueError as error:
        raise KubeconfigError(f"{where}: {server} is not a URL: {error}") from error
    # kubectl guesses http for a bare host. A guess that may send a token in the clear is not worth the convenience.
    if url.scheme not in {"http", "https"} or not url.host or port is None:
        raise KubeconfigError(f"{where}: {server or 'nothing'} is not a server's URL; write it as https://host:port")
    return server.rstrip("/")


def proxy_of(cluster: Entry[ClusterFields], environ: Mapping[str, str]) -> str | None:
    if cluster.fields.proxy_url:
        return checked_proxy(cluster.fields.proxy_url, cluster.where("proxy-url"))
    return proxy_from_environment(URL(cluster.fields.server), environ)


def ca_of(cluster: Entry[ClusterFields]) -> Pem | None:
    fields = cluster.fields
    ca = _pem(cluster, "certificate-authority", fields.certificate_authority, fields.certificate_authority_data)
    if ca is not None and fields.insecure_skip_tls_verify:
        raise KubeconfigError(f"{ca.where}: has no effect beside insecure-skip-tls-verify: true; remove one of the two")
    return ca


def credentials_of(user: Entry[UserFields]) -> Credentials:
    fields = user.fields
    if fields.auth_provider is not None:
        provider = f"the {fields.auth_provider.name} provider" if fields.auth_provider.name else "this kind of login"
        raise KubeconfigError(
            f"{user.where('auth-provider')}: {provider} is not supported, Kubernetes has replaced it by exec plugins; "
            "use one (such as gke-gcloud-auth-plugin or kubelogin) under `exec`, or get a new kubeconfig"
        )
    certificate = _pem(user, "client-certificate", fields.client_certificate, fields.client_certificate_data)
    key = _pem(user, "client-key", fields.client_key, fields.client_key_data)
    if certificate is None:
        return Credentials(_login(user))
    if key is None:
        raise KubeconfigError(f"{user.where('client-key')}: is not set, but a client certificate is; set both")
    return Credentials(_login(user), ClientCertificate(certificate, key))


def impersonation_of(user: Entry[UserFields] | None, flags: Impersonation) -> Impersonation:
    """Flags over file, field by field."""
    if user is None:
        return checked_impersonation(flags, "--as")
    fields = user.fields
    merged = Impersonation(
        user=flags.user or fields.as_user,
        groups=flags.groups or tuple(fields.as_groups),
        uid=flags.uid or fields.as_uid,
        extra=flags.extra or {key: tuple(values) for key, values in fields.as_user_extra.items()},
    )
    return checked_impersonation(merged, user.where("as"))


def checked_impersonation(impersonation: Impersonation, where: str) -> Impersonation:
    if not impersonation.user and (impersonation.groups or impersonation.uid or impersonation.extra):
        raise KubeconfigError(f"{where}: is not set, but groups, a UID or extras to act as are; name the user as well")
    extras = (value for values in impersonation.extra.values() for value in values)
    if not all(text.isprintable() for text in (impersonation.user, impersonation.uid, *impersonation.groups, *extras)):
        raise KubeconfigError(f"{where}: holds characters that cannot be sent in a header, such as line breaks")
    return impersonation


def _pem(entry: Entry[ClusterFields] | Entry[UserFields], name: str, path: str, data: str) -> Pem | None:
    """Data wins over a path, as in kubectl."""
    if not data:
        return Pem(entry.where(name), entry.resolve(path)) if path else None
    where = entry.where(f"{name}-data")
    try:
        # Line breaks inside are fine (a folded YAML scalar); anything else that is not base64 is a mistake.
        return Pem(where, data=base64.b64decode("".join(data.split()), validate=True))
    except (binascii.Error, ValueError) as error:
        raise KubeconfigError(f"{where}: is not valid base64: {error}") from error


def _login(user: Entry[UserFields]) -> Login | None:
    """A token file wins over a token, and both over an exec plugin; a token beside a password is a mistake."""
    fields = user.fields
    has_password = bool(fields.username or fields.password)
    if has_password and (fields.token or fields.token_file):
        raise KubeconfigError(f"{user.where('username')}: there is a token as well; remove one of the two")
    if fields.token_file:
        return TokenFile(user.resolve(fields.token_file), user.where("tokenFile"))
    if fields.token:
        if not (fields.token.isascii() and fields.token.isprintable()):
            raise KubeconfigError(f"{user.where('token')}: holds characters that no token has, such as line breaks")
        return BearerToken(fields.token)
    if has_password:
        return BasicLogin(fields.username, fields.password)
    return _exec_plugin(user, fields.exec_) if fields.exec_ is not None else None


def _exec_plugin(user: Entry[UserFields], fields: ExecFields) -> ExecPlugin:
    if fields.api_version not in {f"{EXEC_API}/v1", f"{EXEC_API}/v1beta1"}:
        shown = fields.api_version or "nothing"
        raise KubeconfigError(f"{user.where('exec.apiVersion')}: {shown} is not supported; use v1 or v1beta1")
    if not fields.command:
        raise KubeconfigError(f"{user.where('exec.command')}: is not set; name the command that prints credentials")
    # A bare name is looked up in PATH; anything else is a path, relative to the kubeconfig.
    command = str(user.resolve(fields.command)) if os.sep in fields.command else fields.command
    return ExecPlugin(
        where=user.where("exec"),
        command=command,
        api_version=fields.api_version,
        interactive_mode=_interactive_mode(user, fields),
        args=tuple(fields.args),
        env=tuple((variable.name, variable.value) for variable in fields.env),
        install_hint=fields.install_hint,
        provide_cluster_info=fields.provide_cluster_info,
    )


def _interactive_mode(user: Entry[UserFields], fields: ExecFields) -> InteractiveMode:
    allowed: dict[str, Any] = {mode: mode for mode in get_args(InteractiveMode)}
    if not fields.interactive_mode and fields.api_version.endswith("/v1beta1"):
        return "IfAvailable"  # the default that v1 did away with
    if fields.interactive_mode not in allowed:
        shown = fields.interactive_mode or "nothing"
        where = user.where("exec.interactiveMode")
        raise KubeconfigError(f"{where}: {shown} is not allowed; use {', '.join(allowed)}")
    mode: InteractiveMode = allowed[fields.interactive_mode]
    return mode

"""Kubeconfig files: read, merged by kubectl's rules, and turned into a Connection.

Unknown fields are ignored and null means absent, as in kubectl. Scalars stay text, since kubectl too takes
`password: 1234` for a string; only booleans are converted. Errors name the file and the path in it.
"""

import base64
import binascii
import difflib
import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar, get_args

import msgspec
import yaml
from yarl import URL

from rescheduler.kube.connection import (
    AuthInfo,
    BasicLogin,
    BearerToken,
    ClientCertificate,
    Connection,
    ExecPlugin,
    Impersonation,
    InlinePem,
    InteractiveMode,
    Login,
    Pem,
    RereadFile,
    TokenFile,
    is_token,
)
from rescheduler.kube.errors import KubeconfigError
from rescheduler.model.yaml import load_yaml, resolve_only

EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class ClusterFields(msgspec.Struct, rename="kebab", frozen=True):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False


class ExecVariable(msgspec.Struct, frozen=True):
    name: str
    value: str = ""


class ExecFields(msgspec.Struct, rename="camel", frozen=True):
    command: str = ""
    args: list[str] = []
    env: list[ExecVariable] = []
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AuthProviderFields(msgspec.Struct, frozen=True):
    name: str = ""


class UserFields(msgspec.Struct, rename="kebab", frozen=True):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    as_user: str = msgspec.field(name="as", default="")
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}
    username: str = ""
    password: str = ""
    auth_provider: AuthProviderFields | None = None
    exec_: ExecFields | None = msgspec.field(name="exec", default=None)


class ContextFields(msgspec.Struct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: ClusterFields = ClusterFields()


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: UserFields = UserFields()


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: ContextFields = ContextFields()


class _File(msgspec.Struct, rename="kebab", frozen=True):
    kind: str = ""
    current_context: str = ""
    clusters: list[_NamedCluster] = []
    users: list[_NamedUser] = []
    contexts: list[_NamedContext] = []


T = TypeVar("T")
FieldsT = TypeVar("FieldsT", ClusterFields, UserFields, ContextFields)


class KubeconfigEntry(msgspec.Struct, Generic[FieldsT], frozen=True):
    """A named entry and its file, which relative paths and errors refer to."""

    file: Path
    label: str
    path: str
    fields: FieldsT

    def where(self, field: str) -> str:
        return f"{self.label}: {self.path}.{field}"

    def resolve(self, path: str) -> Path:
        # Absolute, else `./login` beside a kubeconfig in this folder would become a bare name to look up in PATH.
        return self.file.absolute().parent / path


class Kubeconfig(msgspec.Struct):
    """Merged files: for each name, and for the current context, the first file that has it wins."""

    current_context: str = ""
    clusters: dict[str, KubeconfigEntry[ClusterFields]] = {}
    users: dict[str, KubeconfigEntry[UserFields]] = {}
    contexts: dict[str, KubeconfigEntry[ContextFields]] = {}

    def is_empty(self) -> bool:
        return not (self.current_context or self.clusters or self.users or self.contexts)


def label_of(path: Path, home: Path | None) -> str:
    """Return a path as users write it: `~/.kube/config`."""
    if home is not None and path.is_relative_to(home) and path != home:
        return f"~/{path.relative_to(home).as_posix()}"
    return str(path)


def merge_kubeconfigs(paths: Iterable[Path], home: Path | None) -> Kubeconfig:
    merged = Kubeconfig()
    for path in paths:
        label = label_of(path, home)
        content = _decode_file(_read(path, label), label)
        merged.current_context = merged.current_context or content.current_context
        for cluster in content.clusters:
            entry = KubeconfigEntry(path, label, f"clusters[{cluster.name}].cluster", cluster.cluster)
            merged.clusters.setdefault(cluster.name, entry)
        for user in content.users:
            merged.users.setdefault(user.name, KubeconfigEntry(path, label, f"users[{user.name}].user", user.user))
        for context in content.contexts:
            place = f"contexts[{context.name}].context"
            merged.contexts.setdefault(context.name, KubeconfigEntry(path, label, place, context.context))
    return merged


def exec_extension(entry: KubeconfigEntry[ClusterFields], name: str) -> Any:
    """Return the cluster entry's extension for exec plugins, with its own types: text, numbers and booleans.

    The file is parsed again for it, because the merge keeps every scalar as text.
    """
    content = _read(entry.file, entry.label)
    as_text = _parse(content, entry.label, _TextLoader)["clusters"]
    as_typed = _parse(content, entry.label, yaml.CSafeLoader)["clusters"]
    # Found by its name as text, because the typed name 0123 would be a number.
    found = next(typed for text, typed in zip(as_text, as_typed, strict=True) if text and text["name"] == name)
    for extension in found["cluster"].get("extensions") or ():
        if isinstance(extension, dict) and extension.get("name") == EXEC_EXTENSION:
            return extension.get("extension")
    return None


class _TextLoader(yaml.CSafeLoader):
    """CSafeLoader that keeps scalars as text, except null and merge keys."""


resolve_only(_TextLoader, frozenset({"null", "merge"}).__contains__)


def _read(path: Path, label: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KubeconfigError(f"{label}: cannot be read: {error.strerror}") from error


def _parse(content: bytes, label: str, loader: type[yaml.CSafeLoader]) -> Any:
    try:
        return load_yaml(content, loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise KubeconfigError(f"{label}: {line}not valid YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise KubeconfigError(f"{label}: not valid YAML: {error}") from error


def _decode_file(content: bytes, label: str) -> _File:
    document = _drop_nulls(_parse(content, label, _TextLoader))
    if document is None:
        return _File()
    if not isinstance(document, dict):
        raise KubeconfigError(f"{label}: is not a kubeconfig: expected a mapping with clusters, users and contexts")
    try:
        decoded = msgspec.convert(document, _File, strict=False)
    except msgspec.ValidationError as error:
        raise KubeconfigError(f"{label}: {_with_names(str(error), document)}") from error
    if decoded.kind not in {"", "Config"}:
        raise KubeconfigError(f"{label}: kind: {decoded.kind} is not a kubeconfig; its kind is Config")
    for section, entries in (("clusters", decoded.clusters), ("users", decoded.users), ("contexts", decoded.contexts)):
        _refuse_duplicates([entry.name for entry in entries], f"{label}: {section}")
    return decoded


def _refuse_duplicates(names: list[str], where: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise KubeconfigError(f"{where}: the name {name} occurs twice; remove or rename one")
        seen.add(name)


def _drop_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _drop_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_drop_nulls(item) for item in value if item is not None]
    return value


def _with_names(problem: str, document: dict[str, Any]) -> str:
    """msgspec's ``Expected `str`, got `array` - at `$.users[0].user.token` `` as `users[dev].user.token: expected…`."""
    what, _, at = problem.partition(" - at ")
    path = at.strip("`").removeprefix("$").lstrip(".").replace("[...]", "[]")

    def name_for(match: re.Match[str]) -> str:
        entry = document[match["section"]][int(match["index"])]
        name = entry.get("name") if isinstance(entry, dict) else None
        return f"{match['section']}[{name}]" if isinstance(name, str) else match[0]

    path = re.sub(r"^(?P<section>clusters|users|contexts)\[(?P<index>\d+)\]", name_for, path)
    what = what[:1].lower() + what[1:]
    return f"{path}: {what}" if path else what


EXEC_API = "client.authentication.k8s.io"


def server_of(cluster: KubeconfigEntry[ClusterFields]) -> str:
    where, server = cluster.where("server"), cluster.fields.server
    try:
        url = URL(server)
        port = url.port
    except ValueError as error:
        raise KubeconfigError(f"{where}: {server} is not a URL: {error}") from error
    # kubectl assumes http for a bare host. That could send a token in the clear, so it is an error here.
    if url.scheme not in {"http", "https"} or not url.host or port is None:
        raise KubeconfigError(f"{where}: {server or 'nothing'} is not a server's URL; write it as https://host:port")
    return server.rstrip("/")


def proxy_of(cluster: KubeconfigEntry[ClusterFields], environ: Mapping[str, str]) -> str | None:
    if cluster.fields.proxy_url:
        return check_proxy(cluster.fields.proxy_url, cluster.where("proxy-url"))
    return proxy_from_environment(URL(cluster.fields.server), environ)


def check_proxy(url: str, where: str) -> str:
    """Return the proxy's URL; the error has `where` it was set."""
    try:
        proxy = URL(url)
        port = proxy.port
    except ValueError as error:
        raise KubeconfigError(f"{where}: is not a URL: {error}") from error
    if proxy.scheme not in {"http", "https"}:
        # The URL may hold a password, so only its scheme is shown.
        shown = f"{proxy.scheme}:// proxies are" if proxy.scheme else "a proxy without a scheme is"
        raise KubeconfigError(f"{where}: {shown} not supported; use an http:// or https:// proxy")
    if not proxy.host or port is None:
        raise KubeconfigError(f"{where}: has no host; write it as http://host:port")
    return url


def proxy_from_environment(server: URL, environ: Mapping[str, str]) -> str | None:
    """Return the proxy for a server by HTTPS_PROXY (HTTP_PROXY for an http server) and NO_PROXY, if any.

    The rules are those of kubectl (Go's `httpproxy`). aiohttp's `trust_env` is not used: it does not support CIDRs in
    NO_PROXY, and clusters use `NO_PROXY=10.0.0.0/8`.
    """
    name = f"{server.scheme}_proxy"
    variable = next((key for key in (name.upper(), name) if environ.get(key)), None)
    no_proxy = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if variable is None or _is_direct(server, no_proxy):
        return None
    url = environ[variable]
    return check_proxy(url if "://" in url else f"http://{url}", variable)


def _is_direct(server: URL, no_proxy: str) -> bool:
    host = (server.host or "").lower().rstrip(".")
    address = _address(host)
    # A proxy for the outside world never applies to the machine itself.
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = (entry.strip().lower() for entry in no_proxy.split(","))
    return any(_covers(entry, host, server.port) for entry in entries if entry)


def _covers(entry: str, host: str, port: int | None) -> bool:
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False  # Go ignores an invalid entry too
    if _address(entry.strip("[]")) is None:
        name, colon, entry_port = entry.rpartition(":")
        if colon and entry_port.isdigit():
            if int(entry_port) != port:
                return False
            entry = name
    entry = entry.strip("[]")
    if address is not None:
        return address == _address(entry)
    domain = entry.removeprefix("*")
    if domain.startswith("."):
        return host.endswith(domain)
    return host == domain or host.endswith(f".{domain}")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def ca_of(cluster: KubeconfigEntry[ClusterFields]) -> Pem | None:
    fields = cluster.fields
    ca = _pem(cluster, "certificate-authority", fields.certificate_authority, fields.certificate_authority_data)
    if ca is not None and fields.insecure_skip_tls_verify:
        raise KubeconfigError(f"{ca.where}: has no effect beside insecure-skip-tls-verify: true; remove one of the two")
    return ca


def credentials_of(user: KubeconfigEntry[UserFields]) -> AuthInfo:
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
        return AuthInfo(_login(user))
    if key is None:
        raise KubeconfigError(f"{user.where('client-key')}: is not set, but a client certificate is; set both")
    return AuthInfo(_login(user), ClientCertificate(certificate, key))


def impersonation_of(user: KubeconfigEntry[UserFields] | None, flags: Impersonation) -> Impersonation:
    """Flags over file, field by field."""
    if user is None:
        return check_impersonation(flags, "--as")
    fields = user.fields
    merged = Impersonation(
        user=flags.user or fields.as_user,
        groups=flags.groups or tuple(fields.as_groups),
        uid=flags.uid or fields.as_uid,
        extra=flags.extra or {key: tuple(values) for key, values in fields.as_user_extra.items()},
    )
    return check_impersonation(merged, user.where("as"))


def check_impersonation(impersonation: Impersonation, where: str) -> Impersonation:
    if not impersonation.user and (impersonation.groups or impersonation.uid or impersonation.extra):
        raise KubeconfigError(f"{where}: is not set, but groups, a UID or extras to act as are; name the user as well")
    extras = (value for values in impersonation.extra.values() for value in values)
    if not all(text.isprintable() for text in (impersonation.user, impersonation.uid, *impersonation.groups, *extras)):
        raise KubeconfigError(f"{where}: holds characters that cannot be sent in a header, such as line breaks")
    return impersonation


def _pem(
    entry: KubeconfigEntry[ClusterFields] | KubeconfigEntry[UserFields], name: str, path: str, data: str
) -> Pem | None:
    """Data wins over a path, as in kubectl."""
    if not data:
        return RereadFile(entry.resolve(path), entry.where(name)) if path else None
    where = entry.where(f"{name}-data")
    try:
        # Line breaks are fine (a folded YAML scalar); anything else that is not base64 is an error.
        return InlinePem(where, base64.b64decode("".join(data.split()), validate=True))
    except (binascii.Error, ValueError) as error:
        raise KubeconfigError(f"{where}: is not valid base64: {error}") from error


def _login(user: KubeconfigEntry[UserFields]) -> Login | None:
    """Return the login: a token file wins over a token, both over an exec plugin; a token and a password conflict."""
    fields = user.fields
    has_password = bool(fields.username or fields.password)
    if has_password and (fields.token or fields.token_file):
        raise KubeconfigError(f"{user.where('username')}: there is a token as well; remove one of the two")
    if fields.token_file:
        return TokenFile(user.resolve(fields.token_file), user.where("tokenFile"))
    if fields.token:
        if not is_token(fields.token):
            raise KubeconfigError(f"{user.where('token')}: holds characters that no token has, such as line breaks")
        return BearerToken(fields.token)
    if has_password:
        return BasicLogin(fields.username, fields.password)
    return _exec_plugin(user, fields.exec_) if fields.exec_ is not None else None


def _exec_plugin(user: KubeconfigEntry[UserFields], fields: ExecFields) -> ExecPlugin:
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


def _interactive_mode(user: KubeconfigEntry[UserFields], fields: ExecFields) -> InteractiveMode:
    allowed: dict[str, Any] = {mode: mode for mode in get_args(InteractiveMode)}
    if not fields.interactive_mode and fields.api_version.endswith("/v1beta1"):
        return "IfAvailable"  # the default, which v1 removed
    if fields.interactive_mode not in allowed:
        shown = fields.interactive_mode or "nothing"
        where = user.where("exec.interactiveMode")
        raise KubeconfigError(f"{where}: {shown} is not allowed; use {', '.join(allowed)}")
    mode: InteractiveMode = allowed[fields.interactive_mode]
    return mode


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
    """Return the Connection for the flags and the environment; KubeconfigError says what is missing."""
    home = _home(environ)
    files = _files(options, environ, home)
    config = merge_kubeconfigs((path for path in files if options.kubeconfig is not None or path.exists()), home)
    labels = [label_of(path, home) for path in files]
    if config.is_empty() and options.kubeconfig is None:
        # Not if a context is named: the pod's own cluster would be another one than the user expects.
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
        ca=RereadFile(folder / "ca.crt", source),
        proxy_url=proxy_from_environment(URL(server), environ),
        namespace=(namespace.read_text().strip() if namespace.is_file() else "") or "default",
        credentials=AuthInfo(TokenFile(folder / "token", source)),
        impersonation=check_impersonation(impersonation, "--as"),
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
    asked = "--context" if options.context else "current-context"
    context = _find(config.contexts, "context", name, f"{files}: {asked}")
    named = context.fields
    if not named.cluster:
        raise KubeconfigError(f"{context.where('cluster')}: is not set. {_known(config.clusters)}")
    cluster = _find(config.clusters, "cluster", named.cluster, context.where("cluster"))
    # A context may have no user, since a server may allow anonymous access.
    user = _find(config.users, "user", named.user, context.where("user")) if named.user else None
    return Connection(
        server=server_of(cluster),
        source=f"context {name} of {context.label}",
        ca=ca_of(cluster),
        tls_server_name=cluster.fields.tls_server_name or None,
        insecure=cluster.fields.insecure_skip_tls_verify,
        proxy_url=proxy_of(cluster, environ),
        compression=not cluster.fields.disable_compression,
        namespace=named.namespace or "default",
        credentials=_with_cluster_config(credentials_of(user), cluster, named.cluster)
        if user is not None
        else AuthInfo(),
        impersonation=impersonation_of(user, options.impersonation),
    )


def _with_cluster_config(credentials: AuthInfo, cluster: KubeconfigEntry[ClusterFields], name: str) -> AuthInfo:
    login = credentials.login
    if not isinstance(login, ExecPlugin) or not login.provide_cluster_info:
        return credentials
    return replace(credentials, login=replace(login, cluster_config=exec_extension(cluster, name)))


def _find(entries: Mapping[str, T], kind: str, name: str, where: str) -> T:
    if name not in entries:
        raise KubeconfigError(f"{where}: there is no {kind} {name}{_hint(name, entries)}")
    return entries[name]


def _hint(name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}? {_known(known)}" if near else f". {_known(known)}"


def _known(names: Mapping[str, object]) -> str:
    return f"Known: {', '.join(sorted(names))}" if names else "None is known"

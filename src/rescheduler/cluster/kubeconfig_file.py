"""Kubeconfig files as typed values: one file read, then several merged by kubectl's rules.

`kubeconfig.py` asks for the files it chose and picks a context from the result. Unknown fields are ignored and null
means absent, as in kubectl. Scalars are kept as the text that was written, since kubectl too takes `password: 1234`
for a string; only booleans are then converted. What is wrong is reported with the file and the path in it.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import yaml

from rescheduler.cluster.errors import KubeconfigError
from rescheduler.model.nesting import refuse_deep_nesting

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


FieldsT = TypeVar("FieldsT", ClusterFields, UserFields, ContextFields)


class Entry(msgspec.Struct, Generic[FieldsT], frozen=True):
    """One named entry, with the file it stands in: relative paths and errors refer to that file."""

    file: Path
    label: str
    path: str
    fields: FieldsT

    def where(self, field: str) -> str:
        return f"{self.label}: {self.path}.{field}"

    def resolve(self, path: str) -> Path:
        # Absolute, or `./login` beside a kubeconfig in this folder would become a bare name to look up in PATH.
        return self.file.absolute().parent / path


class Kubeconfig(msgspec.Struct):
    """Several files merged: of each name, and of the current context, the first file that has it wins."""

    current_context: str = ""
    clusters: dict[str, Entry[ClusterFields]] = {}
    users: dict[str, Entry[UserFields]] = {}
    contexts: dict[str, Entry[ContextFields]] = {}

    def is_empty(self) -> bool:
        return not (self.current_context or self.clusters or self.users or self.contexts)


def label_of(path: Path, home: Path | None) -> str:
    """The file as a user writes it: `~/.kube/config`."""
    if home is not None and path.is_relative_to(home) and path != home:
        return f"~/{path.relative_to(home).as_posix()}"
    return str(path)


def merge(paths: Iterable[Path], home: Path | None) -> Kubeconfig:
    merged = Kubeconfig()
    for path in paths:
        label = label_of(path, home)
        content = _decoded(_read(path, label), label)
        merged.current_context = merged.current_context or content.current_context
        for cluster in content.clusters:
            entry = Entry(path, label, f"clusters[{cluster.name}].cluster", cluster.cluster)
            merged.clusters.setdefault(cluster.name, entry)
        for user in content.users:
            merged.users.setdefault(user.name, Entry(path, label, f"users[{user.name}].user", user.user))
        for context in content.contexts:
            place = f"contexts[{context.name}].context"
            merged.contexts.setdefault(context.name, Entry(path, label, place, context.context))
    return merged


def exec_extension(entry: Entry[ClusterFields], name: str) -> Any:
    """What the cluster entry tells exec plugins (`extensions`), with its own types: text, numbers and booleans.

    The file is parsed once more for it, because the merge above keeps every scalar as text.
    """
    content = _read(entry.file, entry.label)
    as_text = _parse(content, entry.label, _TextLoader)["clusters"]
    as_typed = _parse(content, entry.label, yaml.CSafeLoader)["clusters"]
    # Found by its name as text: typed, the name 0123 would be a number.
    found = next(typed for text, typed in zip(as_text, as_typed, strict=True) if text and text["name"] == name)
    for extension in found["cluster"].get("extensions") or ():
        if isinstance(extension, dict) and extension.get("name") == EXEC_EXTENSION:
            return extension.get("extension")
    return None


class _TextLoader(yaml.CSafeLoader):
    """CSafeLoader that leaves scalars as the text they are, but for null and merge keys."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (the shape PyYAML reads it in)
        first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith((":null", ":merge"))]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


def _read(path: Path, label: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KubeconfigError(f"{label}: cannot be read: {error.strerror}") from error


def _parse(content: bytes, label: str, loader: type[yaml.CSafeLoader]) -> Any:
    try:
        refuse_deep_nesting(content)
        return yaml.load(content, Loader=loader)  # noqa: S506 (both loaders are safe ones)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise KubeconfigError(f"{label}: {line}not valid YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise KubeconfigError(f"{label}: not valid YAML: {error}") from error


def _decoded(content: bytes, label: str) -> _File:
    document = _without_nulls(_parse(content, label, _TextLoader))
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
            raise KubeconfigError(f"{where}: the name {name} stands there twice; remove or rename one")
        seen.add(name)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
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

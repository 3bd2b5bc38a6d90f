"""The rules for Secrets: plain text is kept like the rest, and each type that Kubernetes knows asks for its keys."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

from kubemini.refusals import Fault, Json
from kubemini.rules.faults import changed, required, too_long, wrong
from kubemini.rules.small_kinds import DATA_SIZE, key_faults, lock_faults
from kubemini.rules.typed import TypedRules

_ACCOUNT = "kubernetes.io/service-account.name"
_DOCKER = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}
_REDACTED = "<secret contents redacted>"


class SecretRules(TypedRules):
    """What holds for Secrets."""

    def prepare_create(self, body: Json) -> None:
        """What is given in plain text is kept like the rest."""
        super().prepare_create(body)
        _encode(body)

    def prepare_update(self, body: Json, before: Json, subresource: str) -> None:
        """What is given in plain text is kept like the rest."""
        super().prepare_update(body, before, subresource)
        _encode(body)

    def default(self, body: Json) -> None:
        """Fill in what is open."""
        body.setdefault("type", "Opaque")

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a Secret."""
        data = body.get("data", {})
        found = list(key_faults("data", data))
        if sum(len(base64.b64decode(value)) for value in data.values()) > DATA_SIZE:
            found.append(too_long("data", DATA_SIZE))
        found += _type_faults(body["type"], data, body["metadata"].get("annotations", {}))
        if before is not None:
            found += changed("type", body["type"], before["type"])
        return [*found, *lock_faults(body, before, ("data",))]


def _type_faults(sort: str, data: Json, annotations: Json) -> Iterator[Fault]:
    match sort:
        case "kubernetes.io/tls":
            yield from (required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data)
        case "kubernetes.io/service-account-token":
            if not annotations.get(_ACCOUNT):
                yield required(f"metadata.annotations[{_ACCOUNT}]")
        case "kubernetes.io/basic-auth":
            keys = ("username", "password")
            if not data.keys() & set(keys):
                yield from (required(f"data[{key}]") for key in keys)
        case "kubernetes.io/ssh-auth":
            if not data.get("ssh-privatekey"):
                yield required("data[ssh-privatekey]")
        case "kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson":
            yield from _docker_faults(_DOCKER[sort], data)


def _docker_faults(key: str, data: Json) -> Iterator[Fault]:
    if key not in data:
        yield required(f"data[{key}]")
        return
    try:
        read = json.loads(base64.b64decode(data[key]))
    except ValueError:
        read = "nothing that can be read"
    if read is not None and not isinstance(read, dict):
        yield wrong(f"data[{key}]", _REDACTED, "it is no JSON object")


def _encode(body: Json) -> None:
    for key, text in body.pop("stringData", {}).items():
        body.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()

"""One Secret of ours, by its name: read by every replica, written by the leader, and never over somebody else's write.

`admission` keeps the webhook's certificates in it. A Secret without our label is somebody else's, whatever its name:
it is neither used nor changed, and the error says what to do.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import NOT_KUBERNETES, ApiError, ClusterError
from rescheduler.kube.objects import FIELD_MANAGER
from rescheduler.model.json import Json
from rescheduler.model.labels import MANAGED_BY, MANAGER

_WRITTEN = {"fieldManager": FIELD_MANAGER}


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """A Secret as it was read."""

    data: Mapping[str, bytes]
    version: str
    whole: Json


class SecretStore:
    """The Secret of one name in one namespace; as text, it is that name."""

    def __init__(self, client: ApiClient, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._all = f"/api/v1/namespaces/{quote(namespace, safe='')}/secrets"
        self._path = f"{self._all}/{quote(name, safe='')}"

    def __str__(self) -> str:
        return f"Secret {self._namespace}/{self._name}"

    async def read(self) -> StoredSecret | None:
        """What is there; a ClusterError if it is not ours."""
        answer = await self._client.find(self._path)
        if answer is None:
            return None
        try:
            whole: Json = msgspec.json.decode(answer, type=Json)
            metadata = whole["metadata"]
            data = {key: base64.b64decode(value, validate=True) for key, value in (whole.get("data") or {}).items()}
            version = str(metadata["resourceVersion"])
        except (msgspec.MsgspecError, binascii.Error, KeyError, TypeError, ValueError) as error:
            raise ApiError(None, NOT_KUBERNETES, f"{self} does not decode: {error}", self._path) from error
        if (metadata.get("labels") or {}).get(MANAGED_BY) != MANAGER:
            cure = f"delete it, or label it {MANAGED_BY}={MANAGER} if it may be overwritten"
            raise ClusterError(f"{self} is not ours, and is left alone; {cure}")
        return StoredSecret(data, version, whole)

    async def create(self, data: Mapping[str, bytes]) -> bool:
        """Make it; no if somebody has been faster."""
        metadata = {"name": self._name, "namespace": self._namespace, "labels": {MANAGED_BY: MANAGER}}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": _encoded(data)}
        return await self._write("POST", self._all, body)

    async def replace(self, found: StoredSecret, data: Mapping[str, bytes]) -> bool:
        """Give it another content; no if it is not what was found any more."""
        return await self._write("PUT", self._path, found.whole | {"data": _encoded(data)})

    async def remove(self) -> bool:
        """Delete it, if it is there and ours; whether it was."""
        found = await self.read()
        if found is None:
            return False
        options = {"preconditions": {"uid": found.whole["metadata"]["uid"]}}
        return await self._write("DELETE", self._path, options)

    async def _write(self, method: str, path: str, body: Json) -> bool:
        params = {} if method == "DELETE" else _WRITTEN
        answers = frozenset({404, 409})
        try:
            await self._client.send(ApiRequest(method, path, params, msgspec.json.encode(body), answers=answers))
        except ApiError as error:
            # A 404 on a replacement: it was deleted meanwhile. On a creation it is the namespace that is not there.
            if error.status == 409 or (error.status == 404 and method != "POST"):
                return False
            raise
        return True


def _encoded(data: Mapping[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(value).decode() for key, value in data.items()}

"""A Secret of the controller: every replica reads it, the leader writes it, and no write goes over another writer's.

`admission` keeps the webhook's certificates in it. A Secret without the controller's label is not ours: it
is neither used nor changed, and the error says what to do.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import NOT_KUBERNETES, ApiError, ClusterError
from rescheduler.kube.objects import FIELD_MANAGER, path_of
from rescheduler.model.json import Json
from rescheduler.model.labels import MANAGED_BY, MANAGER


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """A Secret as it was read."""

    data: Mapping[str, bytes]
    version: str
    whole: Json


class SecretStore:
    """The Secret of one name in one namespace."""

    def __init__(self, client: ApiClient, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._path = path_of("Secret", namespace, name)

    def __str__(self) -> str:
        return f"Secret {self._namespace}/{self._name}"

    async def read(self) -> StoredSecret | None:
        """Return the Secret, or None; ClusterError if it is not ours."""
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
        """Create the Secret; False if another writer was faster."""
        metadata = {"name": self._name, "namespace": self._namespace, "labels": {MANAGED_BY: MANAGER}}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": _encode(data)}
        return await self._write("POST", path_of("Secret", self._namespace), body)

    async def replace(self, found: StoredSecret, data: Mapping[str, bytes]) -> bool:
        """Replace the data; False if the Secret is no longer what was found."""
        return await self._write("PUT", self._path, found.whole | {"data": _encode(data)})

    async def remove(self) -> bool:
        """Delete the Secret, if it exists and is the controller's; return whether it was deleted."""
        found = await self.read()
        if found is None:
            return False
        options = {"preconditions": {"uid": found.whole["metadata"]["uid"]}}
        return await self._write("DELETE", self._path, options)

    async def _write(self, method: str, path: str, body: Json) -> bool:
        params = {} if method == "DELETE" else {"fieldManager": FIELD_MANAGER}
        return await self._client.write(ApiRequest(method, path, params, msgspec.json.encode(body))) is not None


def _encode(data: Mapping[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(value).decode() for key, value in data.items()}

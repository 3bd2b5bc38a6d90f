"""What the unit tests of rules and admission share: a cluster of rules alone, objects that are fine, and refusals."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubemini.admission import AdmissionChain
from kubemini.api import Api, Target
from kubemini.errors import Json, StatusError
from kubemini.kinds import NAMESPACE, POD, PRIORITY_CLASS, Kind
from kubemini.store import Store

SPACE = "default"
ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
CONTAINER: Json = {"name": "main", "image": "hollow:1"}


async def cluster(*, admission: bool = False) -> Api:
    """An API with a namespace; with admission also what that looks for: an account and the system's classes."""
    store = Store()
    api = Api(store, admission=AdmissionChain(store)) if admission else Api(store)
    await api.create(Target(NAMESPACE), {"metadata": {"name": SPACE}})
    if admission:
        await api.create(at(ACCOUNT), {"metadata": {"name": "default"}})
        for name, value in (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)):
            await api.create(Target(PRIORITY_CLASS), {"metadata": {"name": name}, "value": value})
    return api


def at(kind: Kind, name: str = "", subresource: str = "") -> Target:
    return Target(kind, SPACE if kind.namespaced else "", name, subresource)


def pod(name: str = "a", *, labels: dict[str, str] | None = None, **spec: Any) -> Json:
    made = {"metadata": {"name": name, "labels": labels or {"app": "a"}}, "spec": {"containers": [CONTAINER]} | spec}
    return copy.deepcopy(made)


async def create(api: Api, kind: Kind, body: Json) -> Json:
    return await api.create(at(kind), copy.deepcopy(body))


async def running(api: Api, name: str = "a", *, ready: bool = True, **fields: Any) -> Json:
    """A pod that runs on a node."""
    await create(api, POD, pod(name, nodeName="node-1", **fields))

    def runs(body: Json) -> Json:
        status = {"type": "Ready", "status": "True" if ready else "False"}
        return body | {"status": body["status"] | {"phase": "Running", "conditions": [status]}}

    return await api.edit(at(POD, name, "status"), runs)


async def refused(awaitable: Any) -> StatusError:
    """How the API says no."""
    with pytest.raises(StatusError) as caught:
        await awaitable
    return caught.value


def fields_of(refusal: StatusError) -> list[str]:
    """The fields at fault."""
    return [cause["field"] for cause in refusal.details.get("causes", ())]

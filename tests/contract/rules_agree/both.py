"""Both API servers, asked the same: what each says to an object, in a form that can be compared.

An answer is either a refusal (code, reason, the fields at fault) or the object as it would be kept, without what is
different by nature: times, identities, addresses that are given out, and the random end of the token volume's name.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import json
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubemini.admission import AdmissionChain
from kubemini.api import Api as EmbeddedApi
from kubemini.api import Target
from kubemini.kinds import BUILT_IN, NAMESPACE, PRIORITY_CLASS, Kind
from kubemini.patches import merge_patched
from kubemini.refusals import Refusal
from kubemini.store import Store
from tests.contract.rules_agree.cases import HERE, Case, Update
from tests.testbed.api import Api, ApiError, Json

KINDS = {(kind.name if kind.group != "events.k8s.io" else "NewEvent"): kind for kind in BUILT_IN}
_TIMES = re.compile(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"')
_TOKEN = re.compile(r"kube-api-access-[a-z0-9]{5}")
_ADDRESS = re.compile(r'"10\.96\.\d+\.\d+"')
# Both are added so that storage in use is not lost; who takes them off again is not part of the embedded cluster.
_PROTECTION = {"kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"}
_OWN = ("uid", "creationTimestamp", "resourceVersion", "managedFields", "generation")


Renew = Callable[[Json], tuple[str, Json]]
"""From an object to a new version of it, and what is new about it in words."""


@dataclass(frozen=True)
class Answer:
    """What an API server says to a request."""

    code: int
    reason: str = ""
    fields: tuple[str, ...] = ()
    """The fields at fault, each with the sort of fault."""
    kept: str = ""
    """The object as it would be kept, as sorted JSON."""
    said: str = ""
    """The message: not compared, but good to read when something else differs."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answer) and self._compared == other._compared

    def __hash__(self) -> int:
        return hash(self._compared)

    @property
    def _compared(self) -> tuple[Any, ...]:
        return (self.code, self.reason, self.fields, self.kept)


class Real:
    """The API server of the test bed."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    def create(self, case: Case) -> Answer:
        """Ask for a new object, without making it."""
        return self._asked(
            lambda: self._api.post(f"{self._path(case.kind)}?dryRun=All", _placed(case.body, self._namespace)), 201
        )

    def update(self, case: Update) -> tuple[Json, Answer]:
        """Make the object, ask for the change, and take the object away: how it was when asked, and the answer."""
        name = f"subject-{secrets.token_hex(4)}"
        named = {"metadata": {**case.body["metadata"], "name": name}}
        self._api.post(self._path(case.kind), copy.deepcopy(case.body) | named)
        path = f"{self._path(case.kind)}/{name}"
        asked = f"{path}/{case.subresource}" if case.subresource else path
        try:
            while True:
                there = self._api.get(path)
                patch = copy.deepcopy(case.patch)
                patch.setdefault("metadata", {})["resourceVersion"] = there["metadata"]["resourceVersion"]
                answer = self._asked(functools.partial(self._api.patch, f"{asked}?dryRun=All", patch), 200)
                if answer.reason != "Conflict":  # else a controller was faster
                    return there, answer
        finally:
            self._api.delete(path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})

    def stand(self, case: Case) -> str:
        """Make an object that stays for a while; the answer is its name."""
        name = f"standing-{secrets.token_hex(4)}"
        body = _placed(case.body, self._namespace)
        body["metadata"]["name"] = name
        self._api.post(self._path(case.kind), body)
        return name

    def fall(self, case: Case, name: str) -> None:
        """Take such an object away."""
        self._api.delete(f"{self._path(case.kind)}/{name}", {"gracePeriodSeconds": 0})

    def replace(self, kind: str, name: str, subresource: str, renew: Renew) -> tuple[str, Json, Json, Answer]:
        """Ask for a new version: what is new in words, how the object was, the new version, and the answer."""
        path = f"{self._path(kind)}/{name}"
        while True:
            there = self._api.get(path)
            words, body = renew(there)
            asked = f"{path}/{subresource}" if subresource else path
            answer = self._asked(functools.partial(self._api.put, f"{asked}?dryRun=All", body), 200)
            if "please apply your changes to the latest version" not in answer.said:  # else a controller was faster
                return words, there, body, answer

    def _asked(self, ask: Any, code: int) -> Answer:
        try:
            return _kept(ask(), code)
        except ApiError as error:
            return _refused(error.code, error.reason, error.causes, error.message)

    def _path(self, kind: str) -> str:
        return path_of(KINDS[kind], self._namespace)


class Embedded:
    """The rules and the admission of the embedded cluster, without its HTTP server."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def create(self, case: Case) -> Answer:
        return asyncio.run(self._create(case))

    def update(self, case: Update, there: Json) -> Answer:
        """Ask for a change of an object that is there."""
        return asyncio.run(self._update(case, there))

    def replace(self, kind: str, subresource: str, there: Json, body: Json) -> Answer:
        """Ask for a new version of an object that is there."""
        return asyncio.run(self._replace(kind, subresource, there, body))

    async def _create(self, case: Case) -> Answer:
        api = await self._cluster()
        try:
            made = await api.create(self._target(case.kind), _placed(case.body, self._namespace), dry_run=True)
        except Refusal as refusal:
            return _refusal(refusal)
        return _kept(made, 201)

    async def _update(self, case: Update, there: Json) -> Answer:
        api = await self._cluster()
        there = copy.deepcopy(there)
        there["metadata"].pop("managedFields", None)
        api.store.create(KINDS[case.kind], there)
        wanted = self._target(case.kind, there["metadata"]["name"], case.subresource)
        try:
            seen = await api.edit(wanted, lambda body: merge_patched(copy.deepcopy(case.patch), body), dry_run=True)
        except Refusal as refusal:
            return _refusal(refusal)
        return _kept(seen, 200)

    async def _replace(self, kind: str, subresource: str, there: Json, body: Json) -> Answer:
        api = await self._cluster()
        there, body = copy.deepcopy(there), copy.deepcopy(body)
        there["metadata"].pop("managedFields", None)
        api.store.create(KINDS[kind], there)
        body["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"]  # which the store has just given
        try:
            seen = await api.replace(self._target(kind, there["metadata"]["name"], subresource), body, dry_run=True)
        except Refusal as refusal:
            return _refusal(refusal)
        return _kept(seen, 200)

    async def _cluster(self) -> EmbeddedApi:
        """A cluster with what every real one has."""
        store = Store()
        api = EmbeddedApi(store, admission=AdmissionChain(store))
        await api.create(Target(NAMESPACE), {"metadata": {"name": self._namespace}})
        for name, value in (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)):
            await api.create(Target(PRIORITY_CLASS), {"metadata": {"name": name}, "value": value})
        await api.create(self._target("ServiceAccount"), {"metadata": {"name": "default"}})
        return api

    def _target(self, kind: str, name: str = "", subresource: str = "") -> Target:
        found = KINDS[kind]
        return Target(found, self._namespace if found.namespaced else "", name, subresource)


def _placed(body: Json, namespace: str) -> Json:
    """A copy of an object that names the namespace it is made in."""
    placed: Json = json.loads(json.dumps(body).replace(HERE, namespace))
    return placed


def path_of(kind: Kind, namespace: str) -> str:
    """Where objects of a kind are in the API."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    return f"{root}/namespaces/{namespace}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"


def _refusal(refusal: Refusal) -> Answer:
    return _refused(refusal.code, refusal.reason, refusal.details.get("causes", []), refusal.message)


def _refused(code: int, reason: str, causes: list[Json], said: str) -> Answer:
    faults = {f"{cause.get('field', '')} {cause.get('reason', '')}" for cause in causes}
    return Answer(code, reason, tuple(sorted(faults)), said=said)


def _kept(body: Json, code: int) -> Answer:
    body = copy.deepcopy(body)
    metadata = body["metadata"]
    uid = metadata.get("uid", "")
    for key in _OWN:
        metadata.pop(key, None)
    kept = [each for each in metadata.get("finalizers", ()) if each not in _PROTECTION]
    metadata.pop("finalizers", None)
    if kept:
        metadata["finalizers"] = kept
    text = json.dumps(body, sort_keys=True, indent=1)
    if uid:
        text = text.replace(uid, "UID")
    text = _ADDRESS.sub('"ADDRESS"', _TOKEN.sub("kube-api-access-X", _TIMES.sub('"TIME"', text)))
    return Answer(code, kept=text)

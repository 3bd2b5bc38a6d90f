"""The revisions of DaemonSets: each template that one has had is kept, numbered, and named by its hash.

The hash of the present revision is on its pods, so that one can tell old pods from new; `kubectl rollout undo` goes
back to what an old revision says. Old ones beyond the limit are removed, unless a pod is still of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from kubemini.api import Api, Target
from kubemini.controllers.children import Family, controller_reference, everyone, selector_in
from kubemini.controllers.daemon_nodes import HASH_LABEL
from kubemini.controllers.templates import name_with_hash, template_hash
from kubemini.kinds import CONTROLLER_REVISION, DAEMON_SET
from kubemini.refusals import Json, Refusal, conflict
from kubemini.store import Entry


@dataclass(frozen=True)
class History:
    """The revisions of one DaemonSet."""

    current: Json
    old: list[Json]
    """By their number."""

    @property
    def hashed(self) -> str:
        """What the pods of the present revision are labelled with."""
        label: str = self.current["metadata"]["labels"][HASH_LABEL]
        return label


class DaemonRevisions:
    """Keeps the revisions."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.family = Family(api, DAEMON_SET, CONTROLLER_REVISION)

    async def history(self, daemon_set: Json) -> History:
        """The revisions as they should be: the present template has one, and it has the highest number."""
        selector = selector_in(daemon_set["spec"])
        claimed = await self.family.claim(daemon_set, selector, everyone, everyone) if selector else []
        revisions = sorted((entry.object() for entry in claimed), key=lambda each: int(each["revision"]))
        data = _data(daemon_set)
        same = [each for each in revisions if each["data"] == data]
        old = [each for each in revisions if each["data"] != data]
        number = max((int(each["revision"]) for each in old), default=0) + 1
        if not same:
            return History(await self._create(daemon_set, number), old)
        *doubles, current = same
        for double in doubles:
            await self._remove(double)
        if current["revision"] < number:
            current = await self._api.edit(_target(current), lambda body: body | {"revision": number})
        return History(current, old)

    async def clean(self, daemon_set: Json, history: History, pods: list[Entry]) -> None:
        """Remove old revisions beyond the limit, the oldest first."""
        limit: int = daemon_set["spec"].get("revisionHistoryLimit", 10)
        surplus = len(history.old) - limit
        alive = {pod.labels.get(HASH_LABEL) for pod in pods}
        for revision in history.old:
            if surplus <= 0:
                return
            if revision["metadata"]["labels"].get(HASH_LABEL) not in alive:
                await self._remove(revision)
                surplus -= 1

    async def _create(self, daemon_set: Json, number: int) -> Json:
        metadata, template = daemon_set["metadata"], daemon_set["spec"]["template"]
        collisions = (daemon_set.get("status") or {}).get("collisionCount")
        hashed = template_hash(template, collisions)
        name = name_with_hash(metadata["name"], hashed)
        labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: hashed}
        head: Json = {"name": name, "labels": labels, "ownerReferences": [controller_reference(daemon_set)]}
        if metadata.get("annotations"):
            head["annotations"] = metadata["annotations"]
        body = {"metadata": head, "data": _data(daemon_set), "revision": number}
        try:
            return await self._api.create(Target(CONTROLLER_REVISION, metadata["namespace"]), body)
        except Refusal as refusal:
            if refusal.reason != "AlreadyExists":
                raise
        there = self._api.find(CONTROLLER_REVISION, (metadata["namespace"], name))
        if there is not None and there["data"] == _data(daemon_set):
            return there
        await self._count_collision(daemon_set)
        raise conflict(CONTROLLER_REVISION, name, "another template has the same hash; a new one is tried")

    async def _count_collision(self, daemon_set: Json) -> None:
        def counted(body: Json) -> Json:
            status = body.setdefault("status", {})
            status["collisionCount"] = (status.get("collisionCount") or 0) + 1
            return body

        metadata = daemon_set["metadata"]
        await self._api.edit(Target(DAEMON_SET, metadata["namespace"], metadata["name"], "status"), counted)

    async def _remove(self, revision: Json) -> None:
        try:
            await self._api.delete(_target(revision))
        except Refusal as refusal:
            if refusal.code != 404:
                raise


def _data(daemon_set: Json) -> Json:
    """The patch that brings a DaemonSet back to its present template."""
    return {"spec": {"template": {**daemon_set["spec"]["template"], "$patch": "replace"}}}


def _target(revision: Json) -> Target:
    return Target(CONTROLLER_REVISION, revision["metadata"]["namespace"], revision["metadata"]["name"])

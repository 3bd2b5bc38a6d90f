"""ControllerRevisions: the templates that a StatefulSet or DaemonSet has had, for `kubectl rollout history` and `undo`.

Each revision keeps a template as the patch that brings the workload back to it. Going back to an older template gives
its revision a new number. Beyond revisionHistoryLimit, the oldest that no pod was made from are deleted.
"""

from __future__ import annotations

from kubemini.api import Api, Deletion, Target
from kubemini.controllers.controller_refs import controller_reference
from kubemini.controllers.pods import REVISION_HASH, hash_template, name_with_hash
from kubemini.controllers.writes import delete_if_present
from kubemini.kinds import CONTROLLER_REVISION
from kubemini.refusals import Json


class RevisionHistory:
    """Keeps the revisions of workloads."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def update(self, owner: Json, in_use: set[str]) -> None:
        """Have a revision for the present template, with the highest number, and delete old ones.

        `in_use` are the values of the hash label of the owner's pods.
        """
        metadata, spec = owner["metadata"], owner["spec"]
        if "deletionTimestamp" in metadata:
            return
        owned = self._api.store.owned(CONTROLLER_REVISION, metadata["uid"])
        revisions = sorted((entry.object() for entry in owned), key=lambda each: int(each["revision"]))
        hashed = hash_template(spec["template"])
        name = name_with_hash(metadata["name"], hashed)
        old = [each for each in revisions if each["metadata"]["name"] != name]
        number = max((int(each["revision"]) for each in old), default=0) + 1
        target = Target(CONTROLLER_REVISION, metadata["namespace"], name)
        there = self._api.find(CONTROLLER_REVISION, target.key)
        if there is None:
            body = _revision(owner, name, hashed, number)
            await self._api.create(Target(CONTROLLER_REVISION, metadata["namespace"]), body)
        elif there["revision"] < number or len(old) == len(revisions):  # an old one, or left by an owner that is gone
            references = [controller_reference(owner)]
            new = {"revision": number, "metadata": there["metadata"] | {"ownerReferences": references}}
            await self._api.edit(target, lambda body: body | new)
        unused = [each for each in old if not in_use & {each["metadata"]["name"], _hash(each)}]
        for each in unused[: max(len(old) - spec.get("revisionHistoryLimit", 10), 0)]:
            target = Target(CONTROLLER_REVISION, metadata["namespace"], each["metadata"]["name"])
            await delete_if_present(self._api, target, Deletion())


def _hash(revision: Json) -> str:
    label: str = revision["metadata"]["labels"][REVISION_HASH]
    return label


def _revision(owner: Json, name: str, hashed: str, number: int) -> Json:
    template = owner["spec"]["template"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), REVISION_HASH: hashed}
    return {
        "metadata": {"name": name, "labels": labels, "ownerReferences": [controller_reference(owner)]},
        "data": {"spec": {"template": {**template, "$patch": "replace"}}},
        "revision": number,
    }

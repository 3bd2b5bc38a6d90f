"""ControllerRevisions: the templates that a StatefulSet or DaemonSet has had, for `kubectl rollout history` and `undo`.

Each revision keeps a template as the patch that brings the workload back to it. Going back to an older template gives
its revision a new number.
"""

from __future__ import annotations

from kubemini.api import Api, Deletion, Target
from kubemini.controllers.controller_refs import controller_reference
from kubemini.controllers.pods import REVISION_HASH, hash_template
from kubemini.controllers.writes import delete_if_present
from kubemini.errors import Json
from kubemini.kinds import CONTROLLER_REVISION


async def update_history(api: Api, owner: Json) -> None:
    """Have a revision for the present template, with the highest number; the oldest go."""
    metadata, template = owner["metadata"], owner["spec"]["template"]
    hashed = hash_template(template)
    target = Target(CONTROLLER_REVISION, metadata["namespace"], f"{metadata['name']}-{hashed}")
    owned = [entry.object() for entry in api.store.owned(CONTROLLER_REVISION, metadata["uid"])]
    old = sorted((each for each in owned if each["metadata"]["name"] != target.name), key=lambda each: each["revision"])
    number: int = old[-1]["revision"] + 1 if old else 1
    there = api.find(CONTROLLER_REVISION, target.key)
    references = [controller_reference(owner)]
    if there is None:
        labels = {**((template.get("metadata") or {}).get("labels") or {}), REVISION_HASH: hashed}
        body = {
            "metadata": {"name": target.name, "labels": labels, "ownerReferences": references},
            "data": {"spec": {"template": {**template, "$patch": "replace"}}},
            "revision": number,
        }
        await api.create(Target(CONTROLLER_REVISION, metadata["namespace"]), body)
    elif there["revision"] < number or len(old) == len(owned):  # an old one, or left by an owner that is gone
        new = {"revision": number, "metadata": there["metadata"] | {"ownerReferences": references}}
        await api.edit(target, lambda body: body | new)
    for each in old[: max(len(old) - owner["spec"].get("revisionHistoryLimit", 10), 0)]:
        target = Target(CONTROLLER_REVISION, metadata["namespace"], each["metadata"]["name"])
        await delete_if_present(api, target, Deletion())

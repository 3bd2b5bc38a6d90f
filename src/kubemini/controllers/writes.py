"""Writes that all controllers make: only to the very object that was read, and only while it is there."""

from __future__ import annotations

from kubemini.api import Api, Deletion, Edit, Target
from kubemini.errors import Json, StatusError
from kubemini.kinds import Kind


async def edit_if_present(api: Api, target: Target, uid: str, edit: Edit) -> Json | None:
    """Edit the object with this uid. Returns its new version, or None if it is gone."""

    def edit_same(body: Json) -> Json:
        return edit(body) if body["metadata"]["uid"] == uid else body

    try:
        edited = await api.edit(target, edit_same)
    except StatusError as error:
        if error.code != 404:
            raise
        return None
    return edited if edited["metadata"]["uid"] == uid else None


async def delete_if_present(api: Api, target: Target, deletion: Deletion) -> None:
    """Delete an object, unless it is gone or another object has its name now."""
    try:
        await api.delete(target, deletion)
    except StatusError:
        there = api.store.get(target.kind, target.key)
        if there is not None and (not deletion.uid or there.uid == deletion.uid):
            raise


async def write_status(api: Api, kind: Kind, body: Json, status: Json) -> None:
    """Replace the status of the object that was read, if the new status differs from the one that was read."""
    if status == body.get("status"):
        return
    metadata = body["metadata"]
    target = Target(kind, metadata.get("namespace", ""), metadata["name"], "status")
    await edit_if_present(api, target, metadata["uid"], lambda newest: newest | {"status": status})


async def drop_finalizer(api: Api, target: Target, uid: str, finalizer: str) -> None:
    """Take a finalizer off an object."""

    def edit(body: Json) -> Json:
        finalizers = [each for each in body["metadata"].pop("finalizers", None) or () if each != finalizer]
        if finalizers:
            body["metadata"]["finalizers"] = finalizers
        return body

    await edit_if_present(api, target, uid, edit)


def without_owners(body: Json, uids: set[str]) -> Json:
    """Take owners out of the references of an object; an empty list is left out."""
    metadata = body["metadata"]
    left = [each for each in metadata.pop("ownerReferences", None) or () if each["uid"] not in uids]
    if left:
        metadata["ownerReferences"] = left
    return body

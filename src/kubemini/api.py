"""What the embedded API server does with a request, once HTTP is peeled off: read, create, replace, patch, delete.

The HTTP server and the embedded controllers call the same functions. Writing goes the way of the real one: what the
client may not set is put right, webhooks may change the object, open fields are filled in, faults are refused, and
the store takes it only if nobody was faster. Nothing here waits unless a webhook is asked, so a write that no webhook
is told of happens in one step.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from kubemini import clock
from kubemini.kinds import NAMESPACE, Kind, Kinds
from kubemini.ownership import noted
from kubemini.refusals import (
    Fault,
    Json,
    Refusal,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
)
from kubemini.rules.metadata import metadata_faults
from kubemini.rules.table import rules_of
from kubemini.store import Entry, Key, Store, key_of

SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, so that no words come about
_LONGEST_PREFIX = 58  # with the five letters of the suffix a generated name is a DNS label
_ATTEMPTS = 10
_FINALIZERS_OF = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}

Edit = Callable[[Json], Json]
"""From the newest version (its own copy) to the version that is wanted."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    manager: str = ""
    """Who writes, as managedFields name him; the embedded controllers have no name."""

    @property
    def key(self) -> Key:
        """Where the store keeps it."""
        return (self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Deletion:
    """How an object is to be deleted."""

    grace: int | None = None
    uid: str = ""
    version: str = ""
    propagation: str = "Background"
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Review:
    """A write that admission is asked about."""

    operation: str
    target: Target
    body: Json
    before: Json | None = None
    dry_run: bool = False
    name_generated: bool = False
    """Whether the API server made up the name; the real one does so after its webhooks, so they must not see it."""


class Admission(Protocol):
    """Whoever may change or refuse what is written."""

    async def admit(self, review: Review) -> Json:
        """The object as it shall be; a Refusal if it shall not."""


class NoAdmission:
    """Everything may be written as it is."""

    async def admit(self, review: Review) -> Json:
        """Nothing to say."""
        return review.body


@dataclass
class Api:
    """The embedded cluster's API."""

    store: Store = field(default_factory=Store)
    kinds: Kinds = field(default_factory=Kinds)
    admission: Admission = field(default_factory=NoAdmission)

    def find(self, kind: Kind, key: Key) -> Json | None:
        """An object, if it is there; the caller may change it."""
        entry = self.store.get(kind, key)
        return entry.object() if entry else None

    def get(self, target: Target) -> Json:
        """An object."""
        return self._entry(target).object()

    async def create(self, target: Target, body: Json, *, dry_run: bool = False) -> Json:
        """Make an object; `body` is used up."""
        kind, rules = target.kind, rules_of(target.kind)
        body = {"apiVersion": kind.api_version, "kind": kind.name, **body}
        metadata = self._checked_head(target, body)
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        self._check_namespace(kind, metadata)
        generated = not metadata.get("name") and metadata.get("generateName")
        for attempt in range(_ATTEMPTS):
            if generated:
                metadata["name"] = generated[:_LONGEST_PREFIX] + "".join(
                    secrets.choice(SUFFIX_LETTERS) for _ in range(5)
                )
            taken = self.store.get(kind, (metadata.get("namespace", ""), metadata.get("name", "")))
            if not (generated and taken and attempt < _ATTEMPTS - 1):
                break
        for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"):
            metadata.pop(key, None)
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = clock.stamp(clock.now())
        if kind.generations:
            metadata["generation"] = 1
        rules.prepare_create(body)
        rules.default(body)
        review = Review("CREATE", target, body, dry_run=dry_run, name_generated=bool(generated))
        body = await self.admission.admit(review)
        rules.default(body)
        if faults := [*metadata_faults(kind, body, None), *rules.faults(body, None, "")]:
            raise invalid(kind, body["metadata"].get("name", ""), faults)
        self._check_namespace(kind, body["metadata"])  # it may have gone while a webhook was asked
        if dry_run:
            if self.store.get(kind, key_of(body)) is not None:
                raise already_exists(kind, body["metadata"]["name"])
            return body
        return self.store.create(kind, body).object()

    async def replace(self, target: Target, body: Json, *, dry_run: bool = False) -> Json:
        """Put a whole new version in the place of an object."""
        metadata = self._checked_head(target, body)
        if not metadata.get("name"):
            raise bad_request("name must be provided")
        entry = self._entry(target)
        if metadata.get("uid") and metadata["uid"] != entry.uid:
            why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {entry.uid}"
            raise conflict(target.kind, target.name, why)
        reached = target.subresource == "" or target.kind.custom
        if not metadata.get("resourceVersion") and not target.kind.unconditional and reached:
            fault = Fault("metadata.resourceVersion", "Invalid value", "must be specified for an update", 0)
            raise invalid(target.kind, target.name, [fault])
        return await self.edit(target, lambda _: body, dry_run=dry_run)

    async def edit(self, target: Target, edit: Edit, *, dry_run: bool = False) -> Json:
        """Bring an object into a new version, made from the newest one; done again if another writer was faster.

        If the new version names a resourceVersion other than the newest, the caller meant that one: a conflict.
        """
        for attempt in range(_ATTEMPTS):
            entry = self._entry(target)
            try:
                return await self._write(target, entry, edit, dry_run=dry_run)
            except Refusal as refusal:
                lost_the_race = refusal.code == 409 and self.store.get(target.kind, target.key) is not entry
                if not lost_the_race or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def delete(self, target: Target, deletion: Deletion = Deletion()) -> Json:  # noqa: B008  it is immutable
        """Delete an object, or begin to: the answer is how it looks now or looked at last."""
        entry = self._entry(target)
        body = entry.object()
        metadata = body["metadata"]
        for name, wanted, there in (
            ("UID", deletion.uid, entry.uid),
            ("ResourceVersion", deletion.version, str(entry.version)),
        ):
            if wanted and wanted != there:
                why = (
                    f"the {name} in the precondition ({wanted}) does not match the {name} in record ({there}). "
                    "The object might have been deleted and then recreated"
                )
                raise conflict(target.kind, target.name, why)
        await self.admission.admit(Review("DELETE", target, body, body, deletion.dry_run))
        grace = max(rules_of(target.kind).grace(body, deletion.grace), 0)
        finalizers = self._finalizers(target.kind, metadata, deletion)
        if entry.deleting:
            grace = min(grace, metadata.get("deletionGracePeriodSeconds", 0))
        if deletion.dry_run:
            return body
        if not grace and not finalizers and not body.get("spec", {}).get("finalizers"):
            metadata["deletionTimestamp"] = metadata.get("deletionTimestamp") or clock.stamp(clock.now())
            metadata["deletionGracePeriodSeconds"] = 0
            return self.store.delete(target.kind, body, entry.version).object()
        unchanged = grace == metadata.get("deletionGracePeriodSeconds") and finalizers == metadata.get("finalizers", [])
        if entry.deleting and unchanged:
            return body
        if finalizers:
            metadata["finalizers"] = finalizers
        if not entry.deleting or grace < metadata["deletionGracePeriodSeconds"]:
            metadata["deletionTimestamp"] = clock.stamp(clock.now() + timedelta(seconds=grace))
            metadata["deletionGracePeriodSeconds"] = grace
        if target.kind.generations and not entry.deleting:
            metadata["generation"] = metadata.get("generation", 0) + 1
        rules_of(target.kind).deleting(body)
        return self.store.replace(target.kind, body, entry.version).object()

    async def _write(self, target: Target, entry: Entry, edit: Edit, *, dry_run: bool) -> Json:
        kind, rules, before = target.kind, rules_of(target.kind), entry.object()
        body = edit(entry.object())
        metadata = body["metadata"]
        self._check_identity(target, metadata, entry)
        rules.prepare_update(body, before, target.subresource)
        metadata = body["metadata"]
        for key in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
            metadata.pop(key, None)
            if key in before["metadata"]:
                metadata[key] = before["metadata"][key]
        metadata["resourceVersion"] = str(entry.version)
        rules.default(body)
        review = Review("UPDATE", target, body, before, dry_run)
        body = await self.admission.admit(review)
        rules.default(body)
        metadata = body["metadata"]
        if faults := [*metadata_faults(kind, body, before), *rules.faults(body, before, target.subresource)]:
            raise invalid(kind, target.name, faults)
        if "managedFields" in before["metadata"]:
            metadata.setdefault("managedFields", before["metadata"]["managedFields"])
        if body == before:
            return body
        noted(kind, before, body, target.manager, target.subresource)
        if kind.generations and target.subresource != "status" and _desire(body) != _desire(before):
            metadata["generation"] = before["metadata"].get("generation", 0) + 1
        if dry_run:
            return body
        held = metadata.get("finalizers") or body.get("spec", {}).get("finalizers")
        if entry.deleting and not held and not metadata.get("deletionGracePeriodSeconds"):
            return self.store.delete(kind, body, entry.version).object()
        return self.store.replace(kind, body, entry.version).object()

    def _entry(self, target: Target) -> Entry:
        entry = self.store.get(target.kind, target.key)
        if entry is None:
            raise not_found(target.kind, target.name)
        return entry

    def _checked_head(self, target: Target, body: Json) -> Json:
        """The metadata of a body that says the same as the request's path."""
        kind = target.kind
        if body.get("metadata") is None:
            body["metadata"] = {}
        if not isinstance(body["metadata"], dict):
            raise bad_request(f"the body is not a {kind.name}: its metadata must be an object")
        for key in ("namespace", "name", "generateName"):
            if not isinstance(body["metadata"].get(key) or "", str):
                raise bad_request(f"the body is not a {kind.name}: metadata.{key} must be a text")
        for key, wanted in (("apiVersion", kind.api_version), ("kind", kind.name)):
            if body.setdefault(key, wanted) != wanted:
                raise bad_request(f"the {key} in the data ({body[key]}) does not match the expected {key} ({wanted})")
        metadata: Json = body["metadata"]
        for key, wanted in (("namespace", target.namespace if kind.namespaced else ""), ("name", target.name)):
            given = metadata.get(key) or ""
            if wanted and given and given != wanted:
                raise bad_request(
                    f"the {key} of the provided object does not match the {key} sent on the request: "
                    f"{given!r} is not {wanted!r}"
                )
            if key == "namespace" and given and not kind.namespaced:
                raise bad_request(f"{kind.name} has no namespace, but metadata.namespace is {given!r}")
            if wanted:
                metadata[key] = wanted
        return metadata

    def _check_namespace(self, kind: Kind, metadata: Json) -> None:
        """Refuse new objects in a namespace that is not there or about to go."""
        if not kind.namespaced:
            return
        name = metadata.get("namespace", "")
        namespace = self.store.get(NAMESPACE, ("", name))
        if namespace is None:
            raise not_found(NAMESPACE, name)
        if namespace.deleting:
            why = f"unable to create new content in namespace {name} because it is being terminated"
            raise forbidden(kind, metadata.get("name", ""), why)

    def _check_identity(self, target: Target, metadata: Json, entry: Entry) -> None:
        """Refuse a new version of another object, or of an older version."""
        if metadata.get("name") != target.name:
            given = metadata.get("name")
            raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({target.name})")
        uid = metadata.get("uid")
        if uid and uid != entry.uid:
            fault = Fault("metadata.uid", "Invalid value", "field is immutable", uid)
            raise invalid(target.kind, target.name, [fault])
        version = metadata.get("resourceVersion")
        if version and version != str(entry.version):
            raise conflict(target.kind, target.name)

    def _finalizers(self, kind: Kind, metadata: Json, deletion: Deletion) -> list[str]:
        """Who has to let go before the object may go, with the garbage collector's own."""
        own = [each for each in metadata.get("finalizers", []) if each not in _FINALIZERS_OF.values()]
        if "deletionTimestamp" not in metadata:
            own += [each for each in rules_of(kind).finalizers if each not in own]
        wanted = _FINALIZERS_OF.get(deletion.propagation)
        return [*own, wanted] if wanted else own


def _desire(body: Json) -> Json:
    """The part of an object whose changes count as a new generation; of a Deployment, that is its annotations, too."""
    desire = {key: value for key, value in body.items() if key not in ("metadata", "status")}
    if body.get("kind") == "Deployment" and str(body.get("apiVersion", "")).startswith("apps/"):
        desire["annotations"] = body["metadata"].get("annotations") or {}
    return desire

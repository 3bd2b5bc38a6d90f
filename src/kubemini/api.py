"""The API of the embedded cluster, without HTTP: get, create, replace, edit and delete.

The HTTP server and the controllers call the same functions. A write goes the way of the real API server: reset what
the client may not set, fill in defaults, call admission for new objects, validate, and store. Only webhooks, which are
called for new objects alone, are waited for, so all other writes happen in one step.
"""

from __future__ import annotations

import contextlib
import secrets
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from kubemini import clock
from kubemini.custom import CustomKind
from kubemini.defaults import prepare_create, prepare_update, set_defaults
from kubemini.errors import (
    FieldError,
    Json,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
)
from kubemini.kinds import DEFINITION, DEPLOYMENT, NAMESPACE, POD, Kind, Kinds
from kubemini.pods import TERMINAL
from kubemini.store import Entry, Key, Store, key_of
from kubemini.validation import DEFINITION_CLEANUP, check_metadata_types, find_faults, malformed

SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, so that no words come about
_LONGEST_PREFIX = 58  # with the five letters of the suffix a generated name is a DNS label
_ATTEMPTS = 10
_SET_BY_SERVER = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_FINALIZERS_OF = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}

Edit = Callable[[Json], Json]
"""From the newest version (its own copy) to the version that is wanted."""


@dataclass(frozen=True, slots=True)
class Target:
    """The object, or the part of an object, that a request is about."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> Key:
        """Its key in the store."""
        return (self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Deletion:
    """The options of a deletion."""

    grace: int | None = None
    uid: str = ""
    version: str = ""
    propagation: str = "Background"
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Creation:
    """A new object that admission decides about."""

    kind: Kind
    body: Json
    dry_run: bool = False
    name_generated: bool = False
    """Whether the API server made up the name; the real one does so after its webhooks, so they must not see it."""


class Admission(Protocol):
    """Changes or refuses what is created."""

    async def admit(self, creation: Creation) -> Json:
        """The object to store; a StatusError if it is refused."""


@dataclass
class Api:
    """The embedded cluster's API."""

    store: Store = field(default_factory=Store)
    kinds: Kinds = field(default_factory=Kinds)
    admission: Admission | None = None

    def find(self, kind: Kind, key: Key) -> Json | None:
        """An object, if it exists; the caller may change it."""
        entry = self.store.get(kind, key)
        return entry.object() if entry else None

    def get(self, target: Target) -> Json:
        """An object."""
        return self._entry(target).object()

    async def create(self, target: Target, body: Json, *, dry_run: bool = False) -> Json:
        """Create an object; `body` is used up."""
        kind = target.kind
        body = _with_head(target, body)
        metadata = body["metadata"]
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        if target.name:
            metadata.setdefault("name", target.name)
            _check_name(target, metadata)
        self._check_namespace(kind, metadata)
        if isinstance(kind, CustomKind) and kind.terminating:
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(kind, metadata.get("name", ""), why)
        generated = self._generate_name(kind, metadata)
        for key in (*_SET_BY_SERVER, "selfLink"):
            metadata.pop(key, None)
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = clock.stamp(clock.now())
        if kind.generations:
            metadata["generation"] = 1
        with _malformed_is_a_bad_request(kind):
            prepare_create(kind, body)
            set_defaults(kind, body)
        if self.admission is not None:
            body = await self.admission.admit(Creation(kind, body, dry_run, generated))
        _complete(kind, body, None)
        self._check_namespace(kind, body["metadata"])  # it may have gone while a webhook was called
        if dry_run:
            if self.store.get(kind, key_of(body)) is not None:
                raise already_exists(kind, body["metadata"]["name"])
            return body
        return self.store.create(kind, body).object()

    async def replace(self, target: Target, body: Json, *, dry_run: bool = False) -> Json:
        """Replace an object by a new version."""
        metadata = _with_head(target, body)["metadata"]
        _check_name(target, metadata)
        entry = self._entry(target)
        if metadata.get("uid") and metadata["uid"] != entry.uid:
            why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {entry.uid}"
            raise conflict(target.kind, target.name, why)
        needs_version = not target.kind.unconditional and (target.subresource == "" or target.kind.custom)
        if not metadata.get("resourceVersion") and needs_version:
            fault = FieldError("metadata.resourceVersion", "must be specified for an update")
            raise invalid(target.kind, target.name, [fault])
        return await self.edit(target, lambda _: body, dry_run=dry_run)

    async def edit(self, target: Target, edit: Edit, *, dry_run: bool = False) -> Json:
        """Make a new version from the newest one.

        A new version that names a resourceVersion other than the newest is a conflict.
        """
        kind, entry = target.kind, self._entry(target)
        before = entry.object()
        body = _with_head(target, edit(entry.object()))
        self._check_identity(target, body["metadata"], entry)
        with _malformed_is_a_bad_request(kind):
            prepare_update(kind, body, before, target.subresource)
        metadata = body["metadata"]
        for key in _SET_BY_SERVER:
            metadata.pop(key, None)
            if key in before["metadata"]:
                metadata[key] = before["metadata"][key]
        metadata["resourceVersion"] = str(entry.version)
        _complete(kind, body, before, target.subresource)
        if body == before:
            return body
        if kind.generations and target.subresource != "status" and _generation_part(body) != _generation_part(before):
            metadata["generation"] = before["metadata"].get("generation", 0) + 1
        if dry_run:
            return body
        held = metadata.get("finalizers") or body.get("spec", {}).get("finalizers")
        if entry.deleting and not held and not metadata.get("deletionGracePeriodSeconds"):
            return self.store.delete(kind, body, entry.version).object()
        return self.store.replace(kind, body, entry.version).object()

    async def delete(self, target: Target, deletion: Deletion = Deletion()) -> Json:  # noqa: B008  it is immutable
        """Delete an object, or mark it as deleted; returns its last or its current state."""
        entry = self._entry(target)
        body = entry.object()
        metadata = body["metadata"]
        self.check_preconditions(target, deletion)
        grace = _grace_of(target.kind, body, deletion.grace)
        finalizers = _finalizers_of(target.kind, metadata, deletion)
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
        if target.kind == NAMESPACE:
            body["status"]["phase"] = "Terminating"
        return self.store.replace(target.kind, body, entry.version).object()

    def check_preconditions(self, target: Target, deletion: Deletion) -> None:
        """Refuse to delete another object, or another version, than the client means."""
        entry = self._entry(target)
        for name, wanted, there in (
            ("UID", deletion.uid, entry.uid),
            ("ResourceVersion", deletion.version, str(entry.version)),
        ):
            if wanted and wanted != there:
                why = f"the {name} in the precondition ({wanted}) does not match the {name} in record ({there})"
                raise conflict(target.kind, target.name, why)

    def _entry(self, target: Target) -> Entry:
        entry = self.store.get(target.kind, target.key)
        if entry is None:
            raise not_found(target.kind, target.name)
        return entry

    def _generate_name(self, kind: Kind, metadata: Json) -> bool:
        """Make up a name, where only its prefix is given; whether it was."""
        prefix = metadata.get("generateName")
        if metadata.get("name") or not prefix:
            return False
        for _ in range(_ATTEMPTS):
            suffix = "".join(secrets.choice(SUFFIX_LETTERS) for _ in range(5))
            metadata["name"] = prefix[:_LONGEST_PREFIX] + suffix
            if self.store.get(kind, (metadata.get("namespace", ""), metadata["name"])) is None:
                break
        return True

    def _check_namespace(self, kind: Kind, metadata: Json) -> None:
        """Refuse new objects in a namespace that does not exist or is being deleted."""
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
        _check_name(target, metadata)
        uid = metadata.get("uid")
        if uid and uid != entry.uid:
            fault = FieldError("metadata.uid", f"is {entry.uid}, not {uid}")
            raise invalid(target.kind, target.name, [fault])
        version = metadata.get("resourceVersion")
        if version and version != str(entry.version):
            raise conflict(target.kind, target.name)


def _with_head(target: Target, body: Json) -> Json:
    """A body that begins with what it is, as the store keeps it; refused if it is something else, or malformed."""
    kind = target.kind
    head = {"apiVersion": body.get("apiVersion") or kind.api_version, "kind": body.get("kind") or kind.name}
    if head != {"apiVersion": kind.api_version, "kind": kind.name}:
        raise bad_request(
            f"the object is a {head['kind']} of {head['apiVersion']}, not a {kind.name} of {kind.api_version}"
        )
    body = {**head, **body, **head}
    metadata = body["metadata"] = body.get("metadata") or {}
    for key in ("metadata", "spec", "status"):
        if not isinstance(body.get(key) or {}, dict):
            raise malformed(kind, f"{key} must be an object")
    check_metadata_types(kind, metadata)
    place = target.namespace if kind.namespaced else ""
    given = metadata.get("namespace") or place
    if given != place and (place or not kind.namespaced):
        raise bad_request(f"the namespace of the object ({given}) is not the namespace on the URL ({place})")
    if place:
        metadata["namespace"] = place
    return body


def _check_name(target: Target, metadata: Json) -> None:
    if metadata.get("name") != target.name:
        given = metadata.get("name")
        raise bad_request(f"the name of the object ({given}) is not the name on the URL ({target.name})")


def _complete(kind: Kind, body: Json, before: Json | None, subresource: str = "") -> None:
    """Fill in the defaults of an object, and refuse it if it is not valid."""
    with _malformed_is_a_bad_request(kind):
        set_defaults(kind, body)
        faults = find_faults(kind, body, before, subresource)
    if faults:
        raise invalid(kind, body["metadata"].get("name", ""), faults)


@contextlib.contextmanager
def _malformed_is_a_bad_request(kind: Kind) -> Iterator[None]:
    """Built-in kinds have no schema here: a field of the wrong type shows when a default or a check looks at it."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise malformed(kind, f"{type(error).__name__}: {error}") from error


def _grace_of(kind: Kind, body: Json, asked: int | None) -> int:
    """For how many seconds a deleted object stays. Only a pod that runs on a node gets any, to end in order."""
    if kind != POD or not body["spec"].get("nodeName") or body.get("status", {}).get("phase") in TERMINAL:
        return 0
    seconds: int = body["spec"].get("terminationGracePeriodSeconds", 0) if asked is None else asked
    return max(seconds, 0)


def _finalizers_of(kind: Kind, metadata: Json, deletion: Deletion) -> list[str]:
    """The finalizers of a deleted object, with the garbage collector's own."""
    finalizers = [each for each in metadata.get("finalizers", []) if each not in _FINALIZERS_OF.values()]
    if kind == DEFINITION and "deletionTimestamp" not in metadata and DEFINITION_CLEANUP not in finalizers:
        finalizers.append(DEFINITION_CLEANUP)
    if wanted := _FINALIZERS_OF.get(deletion.propagation):
        finalizers.append(wanted)
    return finalizers


def _generation_part(body: Json) -> Json:
    """The part of an object whose changes increase the generation; for a Deployment this includes annotations."""
    part = {key: value for key, value in body.items() if key not in ("metadata", "status")}
    if (body.get("apiVersion"), body.get("kind")) == (DEPLOYMENT.api_version, DEPLOYMENT.name):
        part["annotations"] = body["metadata"].get("annotations") or {}
    return part

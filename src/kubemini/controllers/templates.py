"""Pod templates: whether two say the same, the hash that names their ReplicaSet, and the pods made from them.

A Deployment finds the ReplicaSet of its template by equality, never by hash. The API keeps every object in one form
(what is zero is left out, `1000m` is `1`), so equality here is that of Kubernetes: `affinity: {}` is not the same as
no affinity, and would roll out on a real cluster, too.
"""

from __future__ import annotations

import hashlib

import msgspec

from kubemini.api import SUFFIX_LETTERS
from kubemini.controllers.children import controller_reference
from kubemini.refusals import Json

HASH_LABEL = "pod-template-hash"
_LONGEST_NAME = 253

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder().decode


def same_template(one: Json, other: Json) -> bool:
    """Whether pods made from the two are the same, but for the label with the hash."""
    return _without_hash(one) == _without_hash(other)


def template_hash(template: Json, collisions: int | None) -> str:
    """The value of the hash label: the same for the same template; collisions make it another one."""
    return text_hash(_encode(_without_hash(template)), collisions)


def text_hash(text: bytes, collisions: int | None) -> str:
    """A hash in Kubernetes' form: 32 bits as a decimal number, its digits written in letters that make no words."""
    salt = b"" if collisions is None else str(collisions).encode()
    number = int.from_bytes(hashlib.blake2s(text, digest_size=4, key=salt).digest(), "little")
    return "".join(SUFFIX_LETTERS[ord(digit) % len(SUFFIX_LETTERS)] for digit in str(number))


def name_with_hash(name: str, hashed: str) -> str:
    """`web-5d8f9c7b6`; the name is cut so that the whole fits."""
    return f"{name[: _LONGEST_NAME - 1 - len(hashed)]}-{hashed}"


def name_prefix(owner: str) -> str:
    """What the names of an owner's pods begin with."""
    return f"{owner}-" if len(owner) < _LONGEST_NAME else owner


class PodMould:
    """Makes pods of one template for one owner; each is the caller's own."""

    def __init__(self, template: Json, owner: Json) -> None:
        given = template.get("metadata") or {}
        metadata: Json = {key: given[key] for key in ("labels", "annotations", "finalizers") if given.get(key)}
        metadata["ownerReferences"] = [controller_reference(owner)]
        self._bytes = _encode({"metadata": metadata, "spec": template.get("spec") or {}})

    def pod(self) -> Json:
        """One more."""
        made: Json = _decode(self._bytes)
        return made


def _without_hash(template: Json) -> Json:
    metadata = template.get("metadata") or {}
    labels = metadata.get("labels") or {}
    kept = {key: text for key, text in labels.items() if key != HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": kept}}

"""The rules that all built-in kinds share: an object is read by its type's form before anything else looks at it.

A kind's own rules are a subclass that fills in what is open (`default`) and says what is wrong (`faults`); `table`
says which. What the status endpoint may change of an object is here, too, because it is nearly the same for all.
"""

from __future__ import annotations

from typing import ClassVar

from kubemini.kinds import Kind
from kubemini.refusals import Json, bad_request
from kubemini.rules.base import Rules
from kubemini.rules.fields_cluster import CLUSTER_FIELDS
from kubemini.rules.fields_pods import POD_FIELDS
from kubemini.rules.fields_workloads import WORKLOAD_FIELDS
from kubemini.rules.forms import Form, WrongType, forms_of

_FORMS = forms_of(POD_FIELDS, CLUSTER_FIELDS, WORKLOAD_FIELDS)
_RENAMED = {("events.k8s.io", "Event"): "NewEvent"}


def form_of(kind: Kind) -> Form | None:
    """How objects of a kind are read; none for custom kinds, whose schema says it."""
    return None if kind.custom else _FORMS.get(_RENAMED.get((kind.group, kind.name), kind.name))


def read(kind: Kind, body: Json) -> None:
    """Bring an object into the form of its kind, in place; refused if a value is of the wrong type."""
    form = form_of(kind)
    if form is None:
        return
    try:
        form.read(body)
        _once(body["metadata"])
    except WrongType as wrong:
        why = f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: json: {wrong}'
        raise bad_request(why) from None


def _once(metadata: Json) -> None:
    """An owner that is named twice in the same words is named once."""
    owners = metadata.get("ownerReferences", [])
    if len(owners) > 1:
        metadata["ownerReferences"] = [each for number, each in enumerate(owners) if each not in owners[:number]]


def read_as(name: str, body: Json) -> Json:
    """The same for what is only sent and never kept: Binding, Eviction, Scale."""
    try:
        _FORMS[name].read(body)
    except WrongType as wrong:
        raise bad_request(f"the body cannot be handled as a {name}: json: {wrong}") from None
    return body


class TypedRules(Rules):
    """The rules of a built-in kind."""

    kept_by_status: ClassVar[tuple[str, ...]] = ()
    """What of the metadata stays as it was when only the status is written."""

    def prepare_create(self, body: Json) -> None:
        """Read the object; a status that has a subresource of its own is not the client's to give."""
        super().prepare_create(body)
        read(self.kind, body)

    def prepare_update(self, body: Json, before: Json, subresource: str) -> None:
        """Read the new version; the part that this way of writing does not reach stays as it was."""
        read(self.kind, body)
        if subresource == "status":
            for key in [*body, *before]:
                if key in ("metadata", "status"):
                    continue
                if key in before:
                    body[key] = before[key]
                else:
                    del body[key]
            for key in self.kept_by_status:
                body["metadata"].pop(key, None)
                if key in before["metadata"]:
                    body["metadata"][key] = before["metadata"][key]
        elif "status" in self.kind.subresources and "status" in before:
            body["status"] = before["status"]

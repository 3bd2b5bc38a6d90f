"""What the objects of a kind are made of, and whether an object is made of that.

Patches and apply ask for shapes, whatever the kind; the types of built-in kinds are read by the rules' own tables. Of
a custom resource only the metadata has types that all kinds share; its schema is in the hands of its rules.
"""

from __future__ import annotations

from kubemini.copies import fresh
from kubemini.custom_kind import CustomKind
from kubemini.kinds import DEFINITION, EVENT, Kind
from kubemini.refusals import Json
from kubemini.rules.fields_pods import POD_FIELDS
from kubemini.rules.forms import Form, WrongType, forms_of
from kubemini.rules.typed import form_of
from kubemini.schemas.built_in import METADATA, TYPES
from kubemini.schemas.custom import custom_shape
from kubemini.schemas.definition_fields import DEFINITION_FIELDS
from kubemini.schemas.shapes import Struct
from kubemini.structural import HEAD, prune

_FORMS = forms_of(POD_FIELDS, DEFINITION_FIELDS)
_HEAD = forms_of(POD_FIELDS, "Head = kind apiVersion metadata:ObjectMeta;")["Head"]
_SHAPES = {EVENT.resource: "NewEvent"}  # there are two kinds called Event


def shape_of(kind: Kind) -> Struct:
    """What the objects of a kind are made of."""
    if isinstance(kind, CustomKind):
        return custom_shape(kind.schema, METADATA, kind.name)
    return TYPES[_SHAPES.get(kind.resource, kind.name)]


def definition_form() -> Form:
    """How a CustomResourceDefinition is read."""
    return _FORMS["CustomResourceDefinition"]


def wrong_type(kind: Kind, body: Json) -> str:
    """Where in an object there is a value of a wrong type, and which; nothing if it is well typed."""
    form = _form(kind)
    try:
        if form is None:
            _HEAD.read({key: fresh(body[key]) for key in HEAD if key in body})
        else:
            form.read(fresh(body))
    except WrongType as wrong:
        return str(wrong)
    return ""


def unknown_fields(kind: Kind, body: Json) -> list[str]:
    """The paths of fields that a kind does not have, for clients that want to be told."""
    if isinstance(kind, CustomKind):
        return prune(kind.schema, fresh(body))
    form = _form(kind)
    return form.unknown(body) if form else []


def _form(kind: Kind) -> Form | None:
    return definition_form() if kind.resource == DEFINITION.resource else form_of(kind)

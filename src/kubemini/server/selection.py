"""Which objects of a collection a request means: its namespace, its label selector and its field selector.

Lists, watches and deletions of whole collections ask. Everything is decided from what the store keeps beside the
bytes of an object, so nothing is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kubemini.kinds import EVENT, SERVICE, Kind
from kubemini.refusals import bad_request
from kubemini.store import Entry, Store
from rescheduler.model.selector import EVERYTHING, Selector, SelectorError, parse_selector

_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"
_TERM = re.compile(r"(?P<path>(?:[^=!\\]|\\.)*?)(?P<operator>==|!=|=)(?P<value>.*)", re.DOTALL)
_EVENT_LABELS = {"reportingController": "reportingComponent", "reason": "reason", "type": "type"}
_SEPARATOR = re.compile(r"(?<!\\),")


@dataclass(frozen=True, slots=True)
class Term:
    """One condition on one field."""

    path: str
    value: str
    equal: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects of one kind that are meant."""

    kind: Kind
    namespace: str = ""
    labels: Selector = EVERYTHING
    fields: tuple[Term, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether all objects of the kind, or of its namespace, are meant."""
        return not self.labels.requirements and not self.fields

    @property
    def name(self) -> str:
        """The one name that may match, if there is only one."""
        return next((term.value for term in self.fields if term.equal and term.path == _NAME), "")

    def matches(self, entry: Entry) -> bool:
        """Whether an object is meant."""
        if self.namespace and entry.key[0] != self.namespace:
            return False
        if self.fields and not all((_value(entry, term.path) == term.value) is term.equal for term in self.fields):
            return False
        return self.labels.matches(entry.labels)

    def of(self, store: Store) -> list[Entry]:
        """The objects that are meant, in the order of their keys."""
        if self.name and (self.namespace or not self.kind.namespaced):
            entry = store.get(self.kind, (self.namespace, self.name))
            return [entry] if entry is not None and self.matches(entry) else []
        return self.among(store.entries(self.kind, self.namespace))

    def among(self, entries: Sequence[Entry]) -> list[Entry]:
        """Those of some objects that are meant."""
        return list(entries) if self.everything else [entry for entry in entries if self.matches(entry)]


def selection(kind: Kind, namespace: str, labels: str, fields: str) -> Selection:
    """Read the selectors of a request."""
    try:
        selector = parse_selector(labels)
    except SelectorError as error:
        raise bad_request(f"unable to parse requirement: {error}") from None
    terms = [_term(kind, text) for text in _SEPARATOR.split(fields) if text]
    return Selection(kind, namespace, selector, tuple(terms))


def one(kind: Kind, namespace: str, name: str) -> Selection:
    """The selection of a single object."""
    return Selection(kind, namespace, fields=(Term(_NAME, name, equal=True),))


def _term(kind: Kind, text: str) -> Term:
    found = _TERM.fullmatch(text)
    if found is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    value = re.sub(r"\\(.)", r"\1", found["value"])
    return Term(_known(kind, found["path"]), value, equal=found["operator"] != "!=")


def _known(kind: Kind, path: str) -> str:
    """The field that a label means; not every field can be selected by, and each kind says no in its own words."""
    if (kind.group, kind.name) == (EVENT.group, EVENT.name):
        shown = path.replace("regarding.", "involvedObject.", 1) if path.startswith("regarding.") else ""
        stored = shown if shown in kind.fields else _EVENT_LABELS.get(path, "")
        if stored or path in (_NAME, _NAMESPACE):
            return stored or path
    elif path in kind.fields or path == _NAME or (path == _NAMESPACE and (kind.namespaced or not kind.fields)):
        return path
    if kind.custom or kind.fields or kind is SERVICE:
        raise bad_request(f"field label not supported: {path}")
    raise bad_request(f'"{path}" is not a known field selector: only "{_NAME}", "{_NAMESPACE}"')


def _value(entry: Entry, path: str) -> str:
    if path == _NAME:
        return entry.key[1]
    if path == _NAMESPACE:
        return entry.key[0]
    return entry.fields.get(path, "")

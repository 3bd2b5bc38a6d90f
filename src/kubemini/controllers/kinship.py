"""Two indexes by labels: the selectors of all parents, and the children that have no parent.

`children` keeps them as changes pass by. A child that nobody manages is shown to the parents that may want it, and a
parent to the orphans that it may want, without a look at anybody else; a namespace may hold thousands of either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kubemini.store import Entry, Key
from rescheduler.model.selector import Labels, Operator, Requirement, Selector

Label = tuple[str, str, str]
"""Namespace, key and value."""


def matcher(selector: Selector) -> Callable[[Labels], bool]:
    """Whether labels match, for asking it often: most selectors want nothing but labels with one value each."""
    equal = {each.key: each.values[0] for each in selector.requirements if _is_equality(each)}
    if len(equal) < len(selector.requirements):
        return selector.matches
    wanted = equal.items()
    return lambda labels: wanted <= labels.items()


class Selectors:
    """The selectors of parents, found by the labels of a child."""

    def __init__(self) -> None:
        self._by_uid: dict[str, _Selecting] = {}
        self._by_label: dict[Label, set[str]] = {}
        self._others: dict[str, set[str]] = {}
        """By namespace: those that ask for no label with one value."""

    def of(self, uid: str) -> Selector | None:
        """The selector of a parent, if it is known; it never changes."""
        selecting = self._by_uid.get(uid)
        return selecting.selector if selecting else None

    def add(self, entry: Entry, selector: Selector) -> None:
        """A parent, and what it selects."""
        selecting = self._by_uid[entry.uid] = _Selecting(entry.key, selector, _must_have(entry.key[0], selector))
        self._place(selecting).add(entry.uid)

    def remove(self, entry: Entry) -> None:
        """A parent that is gone."""
        selecting = self._by_uid.pop(entry.uid, None)
        if selecting is None:
            return
        place = self._place(selecting)
        place.discard(entry.uid)
        if not place and selecting.label is not None:
            del self._by_label[selecting.label]

    def matching(self, child: Entry) -> Iterator[Key]:
        """The parents whose selector matches a child."""
        namespace = child.key[0]
        found = set(self._others.get(namespace, ()))
        for key, value in child.labels.items():
            found |= self._by_label.get((namespace, key, value), set())
        for uid in sorted(found):
            selecting = self._by_uid[uid]
            if selecting.selector.matches(child.labels):
                yield selecting.key

    def _place(self, selecting: _Selecting) -> set[str]:
        if selecting.label is None:
            return self._others.setdefault(selecting.key[0], set())
        return self._by_label.setdefault(selecting.label, set())


class Orphans:
    """The children without a parent, found by a selector."""

    def __init__(self) -> None:
        self._known: dict[Key, Entry] = {}
        self._by_label: dict[Label, set[Key]] = {}
        self._by_namespace: dict[str, set[Key]] = {}

    def add(self, entry: Entry) -> None:
        """An orphan, or its new version."""
        self.remove(entry)
        self._known[entry.key] = entry
        self._by_namespace.setdefault(entry.key[0], set()).add(entry.key)
        for label in _labels(entry):
            self._by_label.setdefault(label, set()).add(entry.key)

    def remove(self, entry: Entry) -> None:
        """Gone, or no orphan."""
        known = self._known.pop(entry.key, None)
        if known is None:
            return
        self._by_namespace[entry.key[0]].discard(entry.key)
        for label in _labels(known):
            self._by_label[label].discard(entry.key)
            if not self._by_label[label]:
                del self._by_label[label]

    def matching(self, namespace: str, selector: Selector) -> list[Key]:
        """The orphans that a selector may mean, in the order of their names."""
        label = _must_have(namespace, selector)
        found = self._by_label.get(label, ()) if label else self._by_namespace.get(namespace, ())
        return sorted(key for key in found if selector.matches(self._known[key].labels))


@dataclass(frozen=True)
class _Selecting:
    key: Key
    selector: Selector
    label: Label | None
    """One that whatever it selects must have."""


def _must_have(namespace: str, selector: Selector) -> Label | None:
    """A label to find a selector by; a Deployment's hash tells its ReplicaSets apart best."""
    equal = [each for each in selector.requirements if _is_equality(each)]
    if not equal:
        return None
    chosen = next((each for each in equal if each.key == "pod-template-hash"), equal[0])
    return (namespace, chosen.key, chosen.values[0])


def _is_equality(requirement: Requirement) -> bool:
    return requirement.operator is Operator.IN and len(requirement.values) == 1


def _labels(entry: Entry) -> Iterator[Label]:
    for key, value in entry.labels.items():
        yield (entry.key[0], key, value)

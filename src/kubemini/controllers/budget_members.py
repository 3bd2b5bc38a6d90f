"""Which pods each PodDisruptionBudget selects, kept as changes pass by.

`disruption` tells it of every change of budgets and pods. Pods and selectors are indexed by the labels that they have
and ask for: a pod is held against the few selectors that it can match, and a new selector against the few pods,
in a namespace with thousands of either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubemini.controllers.selectors import label_selector
from kubemini.kinds import POD
from kubemini.store import Change, Entry, Key, Store
from rescheduler.model.selector import Labels, Operator, Selector, SelectorError

_Pair = tuple[str, str, str]
"""Namespace, key and value of a label."""


class BudgetMembers:
    """The pods of all budgets, and the budgets of all pods."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._selectors: dict[Key, Selector] = {}
        self._asking: dict[_Pair, set[Key]] = {}
        """Budgets, by a label that their pods must have."""
        self._asking_else: dict[str, set[Key]] = {}
        """Budgets whose selector asks for no label with one value, by namespace."""
        self._having: dict[_Pair, set[Key]] = {}
        """Pods, by each of their labels."""
        self._pods: dict[Key, set[Key]] = {}
        self._budgets: dict[Key, tuple[Key, ...]] = {}

    def pods(self, budget: Key) -> list[Entry]:
        """The pods that a budget selects, by name."""
        found = (self._store.get(POD, key) for key in sorted(self._pods.get(budget, ())))
        return [entry for entry in found if entry is not None]

    def budget_changed(self, change: Change) -> None:
        """Remember, replace or forget a selector."""
        key = change.entry.key
        selector = None if change.type == "DELETED" else _selector(change.entry)
        if selector is not None and self._selectors.get(key) == selector:
            return
        self._forget(key)
        if selector is None:
            return
        self._selectors[key] = selector
        self._place(key, selector).add(key)
        for pod in self._candidates(key[0], selector):
            if pod.key in self._budgets and selector.matches(pod.labels):
                self._join(pod.key, (*self._budgets[pod.key], key))

    def pod_changed(self, change: Change) -> tuple[Key, ...]:
        """The budgets that select a pod as it is now, or when it went."""
        key, before = change.entry.key, change.before
        if change.type == "DELETED":
            self._index(key, change.entry.labels, {})
            return self._leave(key)
        labels, old = change.entry.labels, before.labels if before else {}
        if key not in self._budgets or labels != old:
            self._index(key, old, labels)
            self._leave(key)
            self._join(key, tuple(self._matching(key[0], labels)))
        return self._budgets[key]

    def _candidates(self, namespace: str, selector: Selector) -> Iterable[Entry]:
        """Pods that a selector may match: those with the rarest of the labels that it asks for."""
        pairs = list(_pairs(namespace, selector))
        if not pairs:
            return self._store.entries(POD, namespace)
        fewest = min((self._having.get(pair, set()) for pair in pairs), key=len)
        found = (self._store.get(POD, key) for key in sorted(fewest))
        return [entry for entry in found if entry is not None]

    def _matching(self, namespace: str, labels: Labels) -> Iterator[Key]:
        found = set(self._asking_else.get(namespace, ()))
        for key, value in labels.items():
            found |= self._asking.get((namespace, key, value), set())
        for budget in sorted(found):
            if self._selectors[budget].matches(labels):
                yield budget

    def _join(self, pod: Key, budgets: tuple[Key, ...]) -> None:
        self._budgets[pod] = budgets
        for budget in budgets:
            self._pods.setdefault(budget, set()).add(pod)

    def _leave(self, pod: Key) -> tuple[Key, ...]:
        budgets = self._budgets.pop(pod, ())
        for budget in budgets:
            self._pods[budget].discard(pod)
        return budgets

    def _index(self, pod: Key, old: Labels, new: Labels) -> None:
        for pair in ((pod[0], key, value) for key, value in old.items() if new.get(key) != value):
            if pair in self._having:
                self._having[pair].discard(pod)
                if not self._having[pair]:
                    del self._having[pair]
        for key, value in new.items():
            self._having.setdefault((pod[0], key, value), set()).add(pod)

    def _forget(self, budget: Key) -> None:
        selector = self._selectors.pop(budget, None)
        if selector is None:
            return
        self._place(budget, selector).discard(budget)
        for pod in self._pods.pop(budget, ()):
            self._budgets[pod] = tuple(each for each in self._budgets[pod] if each != budget)

    def _place(self, budget: Key, selector: Selector) -> set[Key]:
        """Where a selector is found by the labels of a pod."""
        for pair in _pairs(budget[0], selector):
            return self._asking.setdefault(pair, set())
        return self._asking_else.setdefault(budget[0], set())


def _pairs(namespace: str, selector: Selector) -> Iterator[_Pair]:
    """The labels that whatever it selects must have."""
    for rule in selector.requirements:
        if rule.operator is Operator.IN and len(rule.values) == 1:
            yield (namespace, rule.key, rule.values[0])


def _selector(entry: Entry) -> Selector | None:
    try:
        return label_selector(entry.object()["spec"].get("selector"))
    except SelectorError:
        return None

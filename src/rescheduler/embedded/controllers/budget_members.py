"""Which pods each PodDisruptionBudget selects, kept as changes pass by.

`disruption` tells it of every change of budgets and pods. A pod is held against the few selectors that its labels can
match, not against all; a new selector is held once against the pods of its namespace.
"""

from __future__ import annotations

from collections.abc import Iterator

from rescheduler.embedded.controllers.selectors import label_selector
from rescheduler.embedded.kinds import POD
from rescheduler.embedded.store import Change, Entry, Key, Store
from rescheduler.model.selector import Labels, Operator, Selector, SelectorError

_Pair = tuple[str, str, str]
"""Namespace, key and value of a label."""


class BudgetMembers:
    """The pods of all budgets, and the budgets of all pods."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._selectors: dict[Key, Selector] = {}
        self._by_pair: dict[_Pair, set[Key]] = {}
        self._by_namespace: dict[str, set[Key]] = {}
        """Budgets whose selector asks for no label with one value."""
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
        for pod in self._store.entries(POD, key[0]):
            if selector.matches(pod.labels):
                self._join(pod.key, (*self._budgets.get(pod.key, ()), key))

    def pod_changed(self, change: Change) -> tuple[Key, ...]:
        """The budgets that select a pod as it is now, or when it went."""
        key, before = change.entry.key, change.before
        if change.type == "DELETED":
            return self._leave(key)
        if before is None or before.labels != change.entry.labels or key not in self._budgets:
            self._leave(key)
            self._join(key, tuple(self._matching(key[0], change.entry.labels)))
        return self._budgets.get(key, ())

    def _matching(self, namespace: str, labels: Labels) -> Iterator[Key]:
        found = set(self._by_namespace.get(namespace, ()))
        for key, value in labels.items():
            found |= self._by_pair.get((namespace, key, value), set())
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

    def _forget(self, budget: Key) -> None:
        selector = self._selectors.pop(budget, None)
        if selector is None:
            return
        place = self._place(budget, selector)
        place.discard(budget)
        for pod in self._pods.pop(budget, ()):
            self._budgets[pod] = tuple(each for each in self._budgets[pod] if each != budget)

    def _place(self, budget: Key, selector: Selector) -> set[Key]:
        """Where a selector is found by the labels of a pod."""
        for rule in selector.requirements:
            if rule.operator is Operator.IN and len(rule.values) == 1:
                return self._by_pair.setdefault((budget[0], rule.key, rule.values[0]), set())
        return self._by_namespace.setdefault(budget[0], set())


def _selector(entry: Entry) -> Selector | None:
    try:
        return label_selector(entry.object()["spec"].get("selector"))
    except SelectorError:
        return None

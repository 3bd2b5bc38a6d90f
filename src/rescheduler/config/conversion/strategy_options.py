"""Options that several plugins have in common, each for one strategy of ours.

The tables of descheduler's and koordinator's plugins are made of these and of options of their own.
"""

from __future__ import annotations

from rescheduler.config.conversion.draft import Draft
from rescheduler.config.conversion.options import Convert, Given, Option
from rescheduler.config.conversion.values import (
    flag,
    namespaces,
    selector,
    texts,
)


def fields_of(strategy: str, *fields: str) -> tuple[str, ...]:
    """Settings of a strategy, as the documentation names them."""
    return tuple(f"strategies.{strategy}.{name}" for name in fields)


def namespaces_of(strategy: str, name: str = "namespaces") -> Option:
    """`{include, exclude}`."""
    fields = fields_of(strategy, "namespaces", "excludedNamespaces")
    return Option(name, fields, namespaces("strategies", strategy), "one of the two")


def labels_of(strategy: str) -> Option:
    """`labelSelector`."""
    return Option(
        "labelSelector", fields_of(strategy, "podSelector"), selector("strategies", strategy, "podSelector"), "as text"
    )


def excluded_kinds_of(strategy: str) -> Option:
    """`excludeOwnerKinds`."""
    path = ("strategies", strategy, "excludedOwnerKinds")
    words = "a kind may be the controller's or the workload's above it"
    return Option("excludeOwnerKinds", fields_of(strategy, path[-1]), texts(*path), words)


def init_containers_of(strategy: str) -> Option:
    """`includingInitContainers`."""
    field = "includeInitContainers"
    return Option("includingInitContainers", fields_of(strategy, field), flag("strategies", strategy, field))


def setting(name: str, strategy: str, field: str, convert: Convert, words: str = "") -> Option:
    """An option that is one setting here."""
    return Option(name, fields_of(strategy, field), convert, words)


def later(draft: Draft, given: Given) -> None:
    """`finish` sees to it, together with other options."""

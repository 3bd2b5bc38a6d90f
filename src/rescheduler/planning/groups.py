"""Pod groups: pods that move together or not at all, because none of them is of use without the others.

A group is all pods of one namespace with the same value of `scheduling.x-k8s.io/pod-group`, or of a label that the
operator names. The planner widens every proposal by the other members of the groups that it touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from rescheduler.model.selector import Labels
from rescheduler.planning.columns import Columns

_Key = tuple[str, str, str]
"""Namespace, label, value."""


class Groups:
    """Looks up the groups of pods."""

    def __init__(self, columns: Columns, labels: Sequence[str]) -> None:
        self._columns = columns
        self._labels = labels

    def name(self, pod: int) -> str:
        """What the pod's group is called; empty when it is in none."""
        key = self._by_group[self._columns.pod_group[pod]] if self._grouped else None
        return key[2] if key is not None else ""

    def members(self, pod: int) -> tuple[int, ...]:
        """The pods of the pod's group that are on nodes, itself among them; none when it is in no group.

        One that is still expected on a node, or has ended, has no place to be moved from: it neither moves nor holds.
        """
        key = self._by_group[self._columns.pod_group[pod]] if self._grouped else None
        return self._members.get(key, ()) if key is not None else ()

    @cached_property
    def _grouped(self) -> bool:
        return any(key is not None for key in self._by_group)

    @cached_property
    def _by_group(self) -> list[_Key | None]:
        return [self._key(namespace, labels) for namespace, labels in self._columns.groups]

    def _key(self, namespace: str, labels: Labels) -> _Key | None:
        return next(((namespace, label, labels[label]) for label in self._labels if labels.get(label)), None)

    @cached_property
    def _members(self) -> dict[_Key, tuple[int, ...]]:
        found: dict[_Key, list[int]] = {}
        for group, key in enumerate(self._by_group):
            if key is not None:
                pods: list[int] = self._columns.pods_of_group(group).tolist()
                found.setdefault(key, []).extend(pod for pod in pods if self._is_placed(pod))
        return {key: tuple(sorted(pods)) for key, pods in found.items()}

    def _is_placed(self, pod: int) -> bool:
        return bool(self._columns.pod_at[pod] >= 0) and bool(self._columns.pods[pod].node)

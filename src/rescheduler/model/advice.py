"""Advice about placing a new pod: the migration that waits for it, and nodes to avoid.

`admission.advisor` gives it from its caches; the webhook turns it into a patch, the extender into a filter and scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rescheduler.model.objects import NOTHING, Owner
from rescheduler.model.selector import Labels


@dataclass(frozen=True, slots=True)
class NewPod:
    """A pod that is being created or scheduled, as far as it identifies its owner; it may have no name yet."""

    namespace: str
    name: str = ""
    generate_name: str = ""
    uid: str = ""
    labels: Labels = field(default_factory=lambda: NOTHING)
    annotations: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    owner: Owner | None = None
    """Its controller."""


@dataclass(frozen=True, slots=True)
class ExpectedMove:
    """The migration that waits for this pod."""

    migration: str
    source: str
    target: str
    strategy: str = ""
    original_uid: str = ""
    original_name: str = ""
    gate: bool = False
    """Whether the pod is gated until room at the target is reserved for it (`steering: nominate`)."""
    target_host: str = ""
    """The label kubernetes.io/hostname of the target, where it is known; it need not be the node's name."""
    source_host: str = ""


@dataclass(frozen=True, slots=True)
class PlacementAdvice:
    """What to do about a new pod; nothing if it is empty."""

    expected: ExpectedMove | None = None
    avoid: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    """Nodes where pods of its workload have failed, and why; shown in the pod's Events."""

"""What we know about a pod that is being made or placed: where it is expected, and which nodes it had better avoid.

`admission.knowledge` gives it, from memory; the webhook makes a patch of it, the extender a filter and scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rescheduler.model.objects import NOTHING, Owner
from rescheduler.model.selector import Labels


@dataclass(frozen=True, slots=True)
class NewPod:
    """A pod as far as it can be told whose it is; one that is being made may have no name yet."""

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
    """The migration that waits for a pod like this one."""

    migration: str
    source: str
    target: str
    strategy: str = ""
    original_uid: str = ""
    original_name: str = ""
    gate: bool = False
    """Whether the pod is held back until room at the target is reserved for it (`steering: nominate`)."""
    target_host: str = ""
    """The label kubernetes.io/hostname of the target, where it is known; it need not be the node's name."""
    source_host: str = ""


@dataclass(frozen=True, slots=True)
class PlacementAdvice:
    """What to do about a newcomer; nothing, if it is empty."""

    expected: ExpectedMove | None = None
    avoid: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    """Nodes where its like have failed, and why, as people read it in the pod's events."""

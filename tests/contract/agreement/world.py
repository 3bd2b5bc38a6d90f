"""What a world is: Kubernetes objects as JSON, and candidate pods to be asked about; and the dice that make it.

A world is plain data, so that the one in which both sides disagree can be written to a file and replayed. What JSON
alone cannot bring about (a pod that is being deleted, one that has ended) stands as a fate in an annotation, which
`stage` carries out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TypeVar

from rescheduler.model.json import Json

T = TypeVar("T")

FATE = "agreement.test/fate"  # what becomes of an existing pod, see `stage`
NODE = "agreement.test/node"  # the node that a case asks about; the doorkeeper reads it
HOLD = "agreement.test/hold"  # the doorkeeper lets no pod through: its claims would wait for a provisioner for ever

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
HOSTNAME = "kubernetes.io/hostname"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION = "failure-domain.beta.kubernetes.io/region"


@dataclass
class World:
    """Objects in the order in which they are made, and the candidates."""

    name: str
    objects: list[Json] = field(default_factory=list)
    candidates: list[Json] = field(default_factory=list)

    @property
    def nodes(self) -> list[str]:
        return [made["metadata"]["name"] for made in self.objects if made["kind"] == "Node"]

    @property
    def namespaces(self) -> list[str]:
        return [made["metadata"]["name"] for made in self.objects if made["kind"] == "Namespace"]

    def of_kind(self, *kinds: str) -> list[Json]:
        return [made for made in self.objects if made["kind"] in kinds]

    def to_json(self) -> Json:
        return asdict(self)


class Dice:
    """Choices from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def number(self, low: int, high: int) -> int:
        """A number between these, both included."""
        return self._random.randint(low, high)

    def chance(self, percent: int) -> bool:
        return self._random.randrange(100) < percent

    def pick(self, options: Sequence[T]) -> T:
        return options[self._random.randrange(len(options))]

    def some(self, options: Sequence[T], least: int, most: int) -> list[T]:
        """That many different ones."""
        return self._random.sample(list(options), min(self.number(least, most), len(options)))


def name_of(made: Json) -> str:
    return str(made["metadata"]["name"])


def namespace_of(made: Json) -> str:
    return str(made["metadata"]["namespace"])

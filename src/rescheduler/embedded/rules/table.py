"""Which rules hold for which kind. `api` asks; a new rules file is entered here."""

from __future__ import annotations

from rescheduler.embedded.kinds import Kind
from rescheduler.embedded.rules.base import Rules

_RULES: dict[str, type[Rules]] = {}


def rules_of(kind: Kind) -> Rules:
    """The rules for a kind."""
    return _RULES.get(kind.resource, Rules)(kind)

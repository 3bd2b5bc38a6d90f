"""How many generated examples and seeds a run tries: `RESCHEDULER_TEST_EXAMPLES=few`, the default, or `many`.

This is the only setting of that kind. `make test` runs with few, `make test-all` with many. Property tests take their
number from the profile that `tests/conftest.py` loads, or name two numbers with `examples`; sweeps over seeds name them
with `seeds`. Examples are derandomized, so the few are the same in every run.
"""

from __future__ import annotations

import os

import pytest

VARIABLE = "RESCHEDULER_TEST_EXAMPLES"
CHOICES = ("few", "many")
DEFAULT_FEW, DEFAULT_MANY = 20, 100


def examples(*, few: int, many: int) -> int:
    """Return the number for this run, such as `max_examples` of a property."""
    return many if _choice() == "many" else few


def seeds(*, few: int, many: int) -> range:
    """Return the seeds that this run tries. The few are the first of the many."""
    return range(examples(few=few, many=many))


def default_examples() -> int:
    """Return how many examples a property tries that names no number of its own."""
    return examples(few=DEFAULT_FEW, many=DEFAULT_MANY)


def _choice() -> str:
    choice = os.environ.get(VARIABLE, "few")
    if choice not in CHOICES:
        raise pytest.UsageError(f"{VARIABLE}={choice}: it is one of {', '.join(CHOICES)}")
    return choice

"""Settings that say something resource by resource, such as `{cpu: 20, nvidia.com/gpu: 0}`.

Strategies that go by load have fields of these types. Most of them can only mean resources that count: CPU, memory and
those with a threshold of their own; `config.checks` asks the settings for names that are none of these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated

import numpy as np
from pydantic import Field

from rescheduler.planning.columns import Floats
from rescheduler.planning.settings import Misfit
from rescheduler.planning.view import View

Percents = dict[str, Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]]
"""Per cent by the name of a resource."""

Weights = dict[str, Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]]
"""How much resources count, by their names."""


def uncounted(field: str, given: Mapping[str, float], counted: Collection[str]) -> Iterator[Misfit]:
    """A word about each name in a field that is no resource which counts."""
    for name in given:
        if name not in counted:
            known = ", ".join(counted)
            yield Misfit((field, name), f"does not count: give it one of the thresholds; those that count are {known}")


def in_rows(view: View, given: Mapping[str, float], default: float) -> Floats:
    """[R]: the number of each resource that counts."""
    return np.array([given.get(name, default) for name in view.names], np.float64)

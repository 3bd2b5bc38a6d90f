"""Answers as a Prometheus gives them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.builders import NOW

Series = tuple[Mapping[str, str], object]


def vector_of(*series: Series, time: float = NOW) -> bytes:
    """An instant vector: labels and value of each series."""
    return answered("vector", [{"metric": dict(labels), "value": [time, value]} for labels, value in series])


def answered(kind: str, result: Sequence[Any]) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()


def refused(error: str) -> bytes:
    return json.dumps({"status": "error", "errorType": "bad_data", "error": error}).encode()

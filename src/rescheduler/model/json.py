"""Types for decoded Kubernetes objects and their keys."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]
"""A JSON object, such as a Kubernetes object as the API server sends it."""
ObjectKey = tuple[str, str]
"""Namespace and name."""


def annotations_of(body: Json) -> dict[str, str]:
    """An object's annotations."""
    return body["metadata"].get("annotations") or {}


def read_annotation(body: Json, key: str) -> Json | None:
    """The JSON object in an annotation; None if it is absent, or another client has made it unreadable."""
    try:
        found = json.loads(annotations_of(body).get(key, "null"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None

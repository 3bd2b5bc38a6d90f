"""Types for decoded Kubernetes objects and their keys."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
"""A JSON object, such as a Kubernetes object as the API server sends it."""
ObjectKey = tuple[str, str]
"""Namespace and name."""


def annotations_of(body: Json) -> dict[str, str]:
    """An object's annotations."""
    return body["metadata"].get("annotations") or {}

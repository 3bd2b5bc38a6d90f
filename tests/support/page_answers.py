"""Plain GETs of the page's API, without a browser; they block."""

from __future__ import annotations

import json
import urllib.request
from typing import Any


def answer(address: str, path: str) -> Any:
    """What the server answers without a browser."""
    with urllib.request.urlopen(f"{address}/api/{path}", timeout=30) as response:
        return json.load(response)


def is_served(address: str, nodes: int) -> bool:
    """Whether the page is served and shows so many nodes: a controller serves it before it has read the cluster."""
    try:
        return bool(answer(address, "overview")["counts"]["nodes"] == nodes)
    except OSError:
        return False

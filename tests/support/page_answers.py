"""The page's API as a reader asks it who is no browser: plain GETs, which block."""

from __future__ import annotations

import json
import urllib.request
from typing import Any


def answer(address: str, path: str) -> Any:
    """What the server says to a reader who is no browser."""
    with urllib.request.urlopen(f"{address}/api/{path}", timeout=30) as response:
        return json.load(response)


def is_served(address: str, nodes: int) -> bool:
    """Whether the page is there and knows so many nodes: a controller serves it before it has read the cluster."""
    try:
        return bool(answer(address, "overview")["counts"]["nodes"] == nodes)
    except OSError:
        return False

"""What surrounds a performance: a kubeconfig for people, an ear for the log, and whether somebody has paused it.

`stage` opens them for as long as the demo runs; afterwards they are as if they had never been.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from kubemini.api import Api
from kubemini.cluster import EmbeddedCluster
from rescheduler.cluster.pausing import Pause, state_name
from rescheduler_demo.hearing import Hearing
from rescheduler_demo.settings import HOME, LEASE


@contextmanager
def kubeconfig_of(cluster: EmbeddedCluster) -> Iterator[Path]:
    """A file that only we may read, for the block."""
    with tempfile.TemporaryDirectory(prefix="rescheduler-demo-") as folder:
        path = Path(folder) / "kubeconfig"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(cluster.kubeconfig()))
        yield path


@contextmanager
def listening(hearing: Hearing) -> Iterator[Hearing]:
    """Hear instead of those who listened so far, in the form in which they wrote."""
    root = logging.getLogger()
    others = root.handlers
    if others and others[0].formatter is not None:
        hearing.setFormatter(others[0].formatter)
    root.handlers = [hearing]
    try:
        yield hearing
    finally:
        root.handlers = others


def paused_in(api: Api) -> str:
    """What the controller's state says, where somebody has paused it."""
    kind = api.kinds.named("v1", "ConfigMap")
    found = api.find(kind, (HOME, state_name(LEASE))) if kind is not None else None
    said = (found or {}).get("data") or {}
    return str(Pause(said.get("by", ""), reason=said.get("reason", ""))) if said.get("paused") == "true" else ""

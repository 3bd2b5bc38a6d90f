"""Builders for kubeconfig files and for the Connections that tests make from them.

A test states the cluster and user entries it is about; the rest is one context named `dev` that joins them.
"""

import base64
import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rescheduler.kube.connection import Connection, Impersonation
from rescheduler.kube.errors import Backoff
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from tests.support.api_server import authority


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def kubeconfig(
    cluster: Mapping[str, Any], user: Mapping[str, Any] | None = None, context: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """One cluster, user and context named `dev`; the cluster trusts the tests' CA unless it says otherwise."""
    fields = dict(cluster)
    named = {"certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify"}
    if not named & fields.keys():
        fields["certificate-authority-data"] = b64(authority().pem)
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "clusters": [{"name": "dev", "cluster": fields}],
        "users": [{"name": "dev", "user": dict(user or {})}],
        "contexts": [{"name": "dev", "context": {"cluster": "dev", "user": "dev", **(context or {})}}],
    }


def written(path: Path, content: Mapping[str, Any] | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(content) if isinstance(content, str) else yaml.safe_dump(dict(content)))
    return path


def connection(
    folder: Path,
    cluster: Mapping[str, Any],
    user: Mapping[str, Any] | None = None,
    impersonation: Impersonation | None = None,
) -> Connection:
    """The Connection that these entries give, through a real file."""
    path = written(folder / "kubeconfig", kubeconfig(cluster, user))
    return load_connection(KubeconfigOptions(path, impersonation=impersonation or Impersonation()), {})


def exec_user(script: Path, **fields: Any) -> dict[str, Any]:
    """A user entry that logs in by this plugin; `fields` add to the plugin's, or replace them."""
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(script),
        "interactiveMode": "Never",
    }
    return {"exec": {**plugin, **fields}}


def exec_script(path: Path, body: str) -> Path:
    """An executable plugin: a shell script with this body."""
    path.write_text("#!/bin/sh\n" + textwrap.dedent(body))
    path.chmod(0o755)
    return path


def exec_credential(version: str = "v1", **status: str) -> str:
    return json.dumps(
        {"apiVersion": f"client.authentication.k8s.io/{version}", "kind": "ExecCredential", "status": status}
    )


class RecordedWaits:
    """A Backoff that never waits, and what it would have waited. The jitter is one half."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.backoff = Backoff(jitter=lambda: 0.5, sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

"""The cluster that a command talks to, from its flags."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rescheduler.kube.connection import Connection


@dataclass(frozen=True, slots=True)
class Live:
    """The cluster that a kubeconfig leads to."""

    kubeconfig: str | None = None
    context: str | None = None
    user: str = ""
    groups: tuple[str, ...] = ()
    request_timeout: float | None = None

    def connection(self) -> Connection:
        """Where it is and who we are there; a ClusterError says what is wrong with the kubeconfig."""
        # It brings the whole client along, which whoever reads files does not need.
        from rescheduler.kube.connection import Impersonation  # noqa: PLC0415 - as said above
        from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection  # noqa: PLC0415 - the same

        path = Path(self.kubeconfig) if self.kubeconfig else None
        options = KubeconfigOptions(path, self.context, Impersonation(self.user, self.groups))
        return load_connection(options, os.environ)

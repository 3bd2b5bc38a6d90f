"""Re-reading, put together: the configuration's file and its flags, and what Events about it are told of.

`cli.run` opens the file; the controller, and its rehearsal, follow it for as long as they run.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from rescheduler.config import Configuration
from rescheduler.config.files import ConfigFile, Origin
from rescheduler.decode.cache import Cache
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.observer import Observer
from rescheduler.migration.news import Subject
from rescheduler.model.objects import Pod
from rescheduler.runtime.duties import Duty
from rescheduler.runtime.mandate import Mandate
from rescheduler.runtime.rereading import EVERY, Audience, Rereading
from rescheduler.strategies import settings_by_name

_log = structlog.stdlib.get_logger(__name__)


def opened(path: str, overrides: Mapping[str, object]) -> tuple[Configuration, Origin | None]:
    """The file's configuration with flags over it, and where to look for changes: nowhere, if it came by a pipe."""
    file = ConfigFile(path, overrides, settings_by_name())
    text = file.text()
    return file.read(text), Origin(file, text) if file.changes else None


def following(origin: Origin, mandate: Mandate, audience: Audience, now: Callable[[], float]) -> Duty:
    """Has the mandate follow the file; every replica does it."""
    return Duty("re-read the configuration", EVERY, Rereading(origin.file, origin.text, mandate, audience, now).look)


@dataclass(frozen=True, slots=True)
class Ourselves:
    """By which object people know this controller."""

    cache: Cache
    observer: Observer
    pods: str
    """The namespace that we run in, if we run in the cluster."""
    lease: tuple[str, str]
    """Namespace and name of our Lease."""

    async def known_as(self) -> Subject:
        """This replica's pod; outside of the cluster the Lease, be there one or not."""
        pod: Pod | None = self.cache.row("Pod", (self.pods, platform.node()))
        if pod is not None:
            return Subject("Pod", pod.namespace, pod.name, pod.uid)
        namespace, name = self.lease
        try:
            lease = await self.observer.find("Lease", namespace, name)
        except ClusterError as error:
            _log.debug("our Lease cannot be read; it is told of without its UID", why=str(error))
            lease = None
        return Subject("Lease", namespace, name, lease["metadata"]["uid"] if lease is not None else "")

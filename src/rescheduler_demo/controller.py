"""The real controller in the demo: its configuration, its supervisor, and its log.

The configuration is the product's own, with intervals short enough to watch. Page and webhook listen on loopback only.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from kubemini.api import Api
from rescheduler.app.context import RunRequest
from rescheduler.app.controller import run_controller
from rescheduler.app.planning import LiveCluster, load_configuration
from rescheduler.config.schema import Configuration
from rescheduler.kube.pause_state import PauseDetails, state_name
from rescheduler.model.time import format_duration
from rescheduler.runtime.controller import LeadershipLostError
from rescheduler_demo.workloads import Pace

CONTROLLER_NAMESPACE = "rescheduler"
_LEASE = "kube-rescheduler"
_LOOPBACK = "127.0.0.1"
_LEAST_MOVES, _PODS_PER_MOVE = 10, 12  # moves of one plan: so many that large demos end, too
_RESTART_DELAY = 1.0  # seconds: a controller that cannot run must not keep the machine busy


class PortTakenError(Exception):
    """A loopback port that is taken."""

    def __init__(self, port: int, why: str) -> None:
        super().__init__(f"port {port} of {_LOOPBACK}: {why}")
        self.port = port
        self.why = why


def make_configuration(pods: int, pace: Pace, overrides: dict[str, object]) -> Configuration:
    """The controller's configuration for a cluster with so many pods."""
    webhook = try_port()

    def duration(usual: float, least: float = 0.0) -> str:
        return format_duration(round(pace.seconds(usual, least), 3))

    return load_configuration(
        None,
        {
            "reschedulingInterval": duration(6.0, 1.0),
            "enabledStrategies": ("NodeMaintenance", "ResourceOptimization", "LoadBalancing"),
            "maxReschedulePods": max(_LEAST_MOVES, pods // _PODS_PER_MOVE),
            "minPodAge": duration(2.0),
            "coolDown": duration(15.0),
            "migration.retryDelay": duration(3.0, 0.5),
            "migration.maxRetryDelay": duration(10.0, 1.0),
            "migration.evictionGracePeriod": "5s",
            "leaderElection.resourceNamespace": CONTROLLER_NAMESPACE,
            "leaderElection.resourceName": _LEASE,
            "web.bindAddress": _LOOPBACK,
            "webhook.enabled": True,
            "webhook.bindAddress": _LOOPBACK,
            "webhook.port": webhook,
            "webhook.url": f"https://{_LOOPBACK}:{webhook}",
            **overrides,
        },
    )


def try_port(port: int = 0) -> int:
    """Listen on a port of loopback once, and return it; 0 finds a free one.

    Another process may take it before the controller does, which then says so.
    """
    try:
        with socket.create_server((_LOOPBACK, port)) as server:
            return int(server.getsockname()[1])
    except OSError as error:
        raise PortTakenError(port, os.strerror(error.errno) if error.errno else str(error)) from None


async def run_until_first(*work: Coroutine[Any, Any, object], limit: float | None = None) -> None:
    """Run all of it until one ends or `limit` seconds are over, then cancel the rest; an error of one is raised."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        ended, _ = await asyncio.wait(tasks, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in ended:
        task.result()


class Supervisor:
    """Keeps one controller running, as Kubernetes would: restarts it when it is killed or loses its lease.

    It is the controller of `rescheduler run`, in this event loop instead of a process of its own. The page stays at the
    port that it had first.
    """

    def __init__(self, kubeconfig: str, config: Configuration, port: int, opened: Callable[[str], None]) -> None:
        self._live = LiveCluster(kubeconfig)
        self._config = config
        self._port = port
        self._opened = opened
        self._killed = asyncio.Event()
        self.starts = 0

    def kill(self) -> None:
        """Kill the controller."""
        self._killed.set()

    async def run(self) -> None:
        """Keep one running, until cancelled; an error of the controller ends it."""
        while True:
            self._killed.clear()
            self.starts += 1
            running = RunRequest(self._live, self._config, insecure_local=True, port=self._port, opened=self._on_open)
            with suppress(LeadershipLostError):
                await run_until_first(run_controller(running, asyncio.Event()), self._killed.wait())
            await asyncio.sleep(_RESTART_DELAY)

    def _on_open(self, address: str) -> None:
        if self.starts == 1 or not self._port:
            self._opened(address)
        self._port = urlsplit(address).port or self._port


class LogTap(logging.Handler):
    """Handles all log records: passes formatted lines on, and notes when a plan was made."""

    def __init__(self, interval: float, write: Callable[[int, str], None]) -> None:
        super().__init__()
        self._interval = interval
        self._write = write
        self._planned: float | None = None

    @property
    def next_plan(self) -> float | None:
        """Seconds until the next plan; None before the first one."""
        if self._planned is None:
            return None
        return max(0.0, self._planned + self._interval - time.monotonic())

    def emit(self, record: logging.LogRecord) -> None:
        """Handle one record."""
        if isinstance(record.msg, dict) and record.msg.get("event") == "planned":
            self._planned = time.monotonic()
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - as every handler does: a record that can't be formatted must not stop the work
            self.handleError(record)
            return
        self._write(record.levelno, line)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Replace the root logger's handlers, with their format."""
        root = logging.getLogger()
        others = root.handlers
        if others and others[0].formatter is not None:
            self.setFormatter(others[0].formatter)
        root.handlers = [self]
        try:
            yield
        finally:
            root.handlers = others


def describe_pause(api: Api) -> str:
    """The pause in the controller's ConfigMap; empty if there is none."""
    kind = api.kinds.named("v1", "ConfigMap")
    found = api.find(kind, (CONTROLLER_NAMESPACE, state_name(_LEASE))) if kind is not None else None
    data = (found or {}).get("data") or {}
    return str(PauseDetails(data.get("by", ""), reason=data.get("reason", ""))) if data.get("paused") == "true" else ""

"""The configuration of the demo's controller: the product's own, made quick enough to watch.

Intervals and ages are short and go with `--speed`; the page is served on loopback only, and the webhook at a free port
of loopback, where the embedded API server asks it.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from rescheduler.app.planning import configuration
from rescheduler.config import Configuration
from rescheduler.model.duration import format_duration
from rescheduler_demo.pace import Pace
from rescheduler_demo.scenario import ALL_STRATEGIES, Scenario
from rescheduler_demo.workload import Size

HOME = "rescheduler"
"""The controller's own namespace."""
LEASE = "kube-rescheduler"
"""The name of its Lease."""
LOOPBACK = "127.0.0.1"
_MOVES, _SHARE = 10, 12  # at least so many moves a plan, and one for so many pods: so that large demos end, too


class PortTakenError(Exception):
    """Nobody can listen at this port of loopback."""

    def __init__(self, port: int, why: str) -> None:
        super().__init__(f"port {port} of {LOOPBACK}: {why}")
        self.port = port
        self.why = why


@dataclass(frozen=True, slots=True)
class Wishes:
    """What of the demo's flags the configuration depends on."""

    scenario: Scenario
    size: Size
    pace: Pace


async def configured(wishes: Wishes) -> Configuration:
    """The controller's configuration."""
    pace = wishes.pace
    webhook = await free_port()

    def duration(usual: float, least: float = 0.0) -> str:
        return format_duration(round(pace.seconds(usual, least), 3))

    return configuration(
        None,
        {
            "reschedulingInterval": duration(6.0, 1.0),
            "enabledStrategies": ALL_STRATEGIES,
            "maxReschedulePods": max(_MOVES, wishes.size.pods // _SHARE),
            "minPodAge": duration(2.0),
            "coolDown": duration(15.0),
            "migration.retryDelay": duration(3.0, 0.5),
            "migration.maxRetryDelay": duration(10.0, 1.0),
            "migration.evictionGracePeriod": "5s",
            "leaderElection.resourceNamespace": HOME,
            "leaderElection.resourceName": LEASE,
            "web.bindAddress": LOOPBACK,
            "webhook.enabled": True,
            "webhook.bindAddress": LOOPBACK,
            "webhook.port": webhook,
            "webhook.url": f"https://{LOOPBACK}:{webhook}",
            **wishes.scenario.config(pace),
        },
    )


async def free_port() -> int:
    """A port of loopback that nobody listens on; somebody else may take it before we do, which is then told."""
    return await _listened(0)


async def check_port(port: int) -> None:
    """PortTakenError if nobody can listen there, before anything else is begun; 0 is any."""
    try:
        await _listened(port)
    except OSError as error:
        raise PortTakenError(port, os.strerror(error.errno) if error.errno else str(error)) from None


async def _listened(port: int) -> int:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), LOOPBACK, port)
    found: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return found

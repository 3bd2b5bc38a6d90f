"""Workloads that rest, because their last moves did not pay or came back."""

from __future__ import annotations

import asyncio
from typing import Any

from rescheduler.decode.kinds import WORKLOADS
from rescheduler.model.snapshot import WorkloadKey
from rescheduler.planning.outcomes import rests
from rescheduler.web.showing import Showing

Json = dict[str, Any]


async def outcomes(showing: Showing) -> Json:
    """As `/api/outcomes` gives it: those that rest the longest first."""
    migrations = list(showing.board.all())  # there may be very many that are kept: not reckoned in the event loop
    reckoned = await asyncio.to_thread(rests, migrations, showing.mandate.policy())
    now = showing.now()
    found = {key: rest for key, rest in reckoned.items() if _is_there(showing, key)}
    listed = sorted(found.items(), key=lambda item: (-item[1].until, item[0]))
    return {
        "workloads": [
            {
                "workload": f"{kind}/{name}",
                "namespace": namespace,
                "bad": rest.bad,
                "restsUntil": rest.until if rest.until > now else None,
                "why": rest.why,
            }
            for (kind, namespace, name), rest in listed
        ]
    }


def _is_there(showing: Showing, key: WorkloadKey) -> bool:
    kind, namespace, name = key
    if kind == "Pod":
        return showing.loads.pod((namespace, name)) is not None
    return kind not in WORKLOADS or showing.cache.row(kind, key) is not None

"""Does a controller run that would carry out what is ordered? Told from its Lease, for commands that order moves."""

from __future__ import annotations

import asyncio
import time

from rescheduler.app.connecting import Live
from rescheduler.cluster.client import ApiClient
from rescheduler.cluster.errors import ApiError
from rescheduler.cluster.lookup import Lookup
from rescheduler.migration.commands import Json
from rescheduler.model.instant import InstantError, parse_instant

LEASE = "kube-rescheduler"
_DURATION = 15.0  # of a lease that does not say how long it lasts


def absence(live: Live, lease: str = LEASE) -> str:
    """Why nobody seems to carry out orders; empty when somebody does, or when that may not be looked at."""
    return asyncio.run(_absence(live, lease))


async def _absence(live: Live, lease: str) -> str:
    async with ApiClient(live.connection(), request_timeout=live.request_timeout) as client:
        try:
            # The lease is in the controller's namespace, wherever that is.
            found = await Lookup(client).every("Lease", selection={"fieldSelector": f"metadata.name={lease}"})
        except ApiError as error:
            if error.status != 403:
                raise
            return ""
    if not found:
        return f"no controller seems to run: there is no Lease {lease} in any namespace"
    ages = [age for each in found if (age := _overdue(each, time.time())) is not None]
    if len(ages) < len(found):
        return ""
    return f"no controller seems to run: the Lease {lease} ran out {min(ages):.0f} s ago"


def _overdue(lease: Json, now: float) -> float | None:
    """For how many seconds nobody has held it; None when somebody does."""
    spec = lease.get("spec") or {}
    try:
        renewed = parse_instant(spec.get("renewTime") or "")
    except InstantError:
        renewed = 0.0
    late = now - renewed - float(spec.get("leaseDurationSeconds") or _DURATION)
    if not spec.get("holderIdentity"):
        return max(late, 0.0)
    return late if late > 0 else None

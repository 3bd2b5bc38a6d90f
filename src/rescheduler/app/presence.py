"""Does a controller run that would carry out what is ordered? Told from its Lease, for commands that order moves."""

from __future__ import annotations

import asyncio
import math
import time

from rescheduler.app.connecting import Live
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ApiError
from rescheduler.kube.objects import Lookup
from rescheduler.migration.commands import Json
from rescheduler.model.instant import InstantError, parse_instant

LEASE = "kube-rescheduler"
_DURATION = 15.0  # of a lease that does not say how long it lasts
_SKEW = 30.0  # what clocks may be apart before a lease counts as run out


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
    late = [_late(each, time.time()) for each in found if (each.get("spec") or {}).get("holderIdentity")]
    if not late:
        return f"no controller seems to run: nobody holds the Lease {lease}"
    if min(late) <= _SKEW:
        return ""
    return f"no controller seems to run: the Lease {lease} ran out {min(late):.0f} s ago"


def _late(lease: Json, now: float) -> float:
    """For how many seconds it should have been renewed already; negative while it lasts."""
    spec = lease["spec"]
    try:
        renewed = parse_instant(spec.get("renewTime") or "")
    except InstantError:
        return -math.inf  # who holds it writes it as nobody else does: let us not guess
    return now - renewed - float(spec.get("leaseDurationSeconds") or _DURATION)

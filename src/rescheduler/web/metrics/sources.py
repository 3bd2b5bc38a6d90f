"""Whom metrics ask at every scrape. `app` says who answers; what nobody answers is not shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rescheduler.model.migration import Phase
from rescheduler.runtime.mandate import Mandate
from rescheduler.runtime.metering import Metering
from rescheduler.runtime.watching import Following
from rescheduler.web.standing import Standing


@dataclass(frozen=True, slots=True)
class Sources:
    """Who knows what is true at this moment. Nobody here may block: they are asked while others wait."""

    lease: str = ""
    """The name of the lease; empty until it is known who takes part in which election."""
    leading: Callable[[], bool] = lambda: True
    fresh: Callable[[], bool] = lambda: True
    """Whether what is known of the cluster is up to date."""
    kinds: Callable[[], Iterable[Following]] = lambda: ()
    standing: Callable[[], Standing] | None = None
    """How the nodes stand; without it, how they stood when the newest plan was made."""
    migrations: Callable[[Phase], int] | None = None
    awaiting: Callable[[], int] | None = None
    """How many migrations wait for approval."""
    resting: Callable[[], int] | None = None
    """How many workloads rest because moving them did not pay."""
    paused: Callable[[], bool | None] | None = None
    """None while it is not known."""
    window_open: Callable[[], bool] | None = None
    """Whether moves by choice may begin, as far as time windows go."""
    viewers: Callable[[], int] | None = None
    """How many look at the page."""
    metering: Callable[[], Metering | None] = lambda: None
    """Who measures what is used; None where nobody does."""
    mandate: Callable[[], Mandate] | None = None
    """The configuration in force."""

"""Whether a controller has come to rest: all its moves are over, and plan after plan has none."""

from __future__ import annotations

from tests.support.both_clusters import Items, Space
from tests.support.controller_process import Controller
from tests.support.skewed_cluster import active, migrations
from tests.testbed.processes import until

CYCLES = 3
"""So many plans without a move in a row are rest."""


def rests(space: Space, controller: Controller) -> Items:
    """The migrations, once all are over and no more are planned."""
    seen = len(_moves(controller))

    def reached() -> bool:
        later = _moves(controller)[seen:]
        return len(later) >= CYCLES and not any(later[-CYCLES:]) and not active(migrations(space))

    until("plans have no moves any more", reached, [controller], seconds=120)
    return migrations(space)


def _moves(controller: Controller) -> list[int]:
    """How many moves each plan had."""
    return [each["moves"] for each in controller.said() if each["msg"] == "planned"]

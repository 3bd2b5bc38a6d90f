"""Takes the records of failed pods off workloads, before an uninstall: `cleanup` calls it with a listed cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rescheduler.decode.cache import Cache
from rescheduler.decode.kinds import WORKLOADS
from rescheduler.migration.commands import Command, patch
from rescheduler.migration.observation import notes_of
from rescheduler.model import marks
from rescheduler.runtime.sweeping import Marked, Observer, Writer

# Deployments first: their controller copies what it finds on them to their ReplicaSets.
KINDS = ("Deployment", *sorted(WORKLOADS - {"Deployment"}), "Pod")


def recorded(cache: Cache) -> Iterator[Marked]:
    """Everything that carries a record."""
    for kind in KINDS:
        for row in cache.rows(kind):
            if row.annotations and marks.FAILURES in row.annotations:
                yield Marked(kind, row.namespace, row.name)


async def erase(cache: Cache, observer: Observer, writer: Writer, tell: Callable[[Command], None]) -> None:
    """Take every record off; what is refused, the next look finds again."""
    for each in list(recorded(cache)):
        body = await observer.find(each.kind, each.namespace, each.name)
        if body is None or marks.FAILURES not in notes_of(body):
            continue
        command = patch(body, {"metadata": {"annotations": {marks.FAILURES: None}}}, "forget where its pods failed")
        if await writer.carry_out(command) is None:
            tell(command)

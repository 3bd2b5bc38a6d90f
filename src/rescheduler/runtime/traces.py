"""Takes the trace of finished moves off pods, before an uninstall: `cleanup` calls it with a listed cluster.

While the product is there the trace tells people and cool-downs how a pod came to be where it is; without it, it means
nothing to anybody. Pods that carry marks of a running move are for `sweeping` first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rescheduler.decode.cache import Cache
from rescheduler.migration import orphans
from rescheduler.migration.commands import Command, Json, patch
from rescheduler.migration.observation import labels_of, notes_of
from rescheduler.model import marks
from rescheduler.runtime.sweeping import Marked, Observer, Writer

_LABELS = (marks.MIGRATION_ID, marks.MIGRATION_STATUS, marks.MIGRATED_FROM, marks.MIGRATION_REASON)
_NOTES = (marks.MIGRATION_TIME, marks.ORIGINAL_POD, marks.ORIGINAL_POD_NAME)


def traced(cache: Cache) -> Iterator[Marked]:
    """Every pod that carries a trace, and no mark of a running move."""
    for row in cache.rows("Pod"):
        has_trace = any(key in row.labels for key in _LABELS) or any(key in row.annotations for key in _NOTES)
        if has_trace and not orphans.names_on_pod(row.labels, row.annotations):
            yield Marked("Pod", row.namespace, row.name)


async def wipe(cache: Cache, observer: Observer, writer: Writer, tell: Callable[[Command], None]) -> None:
    """Take every trace off; what is refused, the next look finds again."""
    for each in list(traced(cache)):
        body = await observer.find(each.kind, each.namespace, each.name)
        if body is None or orphans.names_on(body) or not (changes := _without_trace(body)):
            continue
        command = patch(body, {"metadata": changes}, "take the trace of its move off")
        if await writer.carry_out(command) is None:
            tell(command)


def _without_trace(pod: Json) -> Json:
    labels = {key: None for key in _LABELS if key in labels_of(pod)}
    notes = {key: None for key in _NOTES if key in notes_of(pod)}
    return ({"labels": labels} if labels else {}) | ({"annotations": notes} if notes else {})

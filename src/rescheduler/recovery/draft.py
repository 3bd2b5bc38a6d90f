"""A decision in the making: the record as it will be, and what has been decided so far.

`deciding` and its neighbours write into it. It opens the record that is there (one that cannot be read is started
anew, one of another template too) and, in the end, says only what differs from what is there already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rescheduler.migration.commands import Json
from rescheduler.migration.news import News
from rescheduler.migration.observation import controller_of, notes_of
from rescheduler.model import marks
from rescheduler.recovery import case as outcomes
from rescheduler.recovery import taking_over, telling
from rescheduler.recovery.case import Case, Decision
from rescheduler.recovery.health import by_entry, is_well, runs_somewhere
from rescheduler.recovery.jobs import failures
from rescheduler.recovery.record import EMPTY, Entry, RecordError, read, without_old, written
from rescheduler.recovery.revisions import outdated

_AT_ONCE = 100
"""Pods that are newly decided about in one go: the others have their turn when these are gone."""
_LONGEST = 200_000
"""Characters of a record to which nothing is added: all annotations of an object have 256 KiB."""
SOON = 10.0
"""Seconds after which what cannot be waited for otherwise is looked at again."""


@dataclass(slots=True)
class Draft:
    """What has been decided so far about one case."""

    case: Case
    live: Mapping[str, list[Json]] = field(default_factory=dict)
    """The live pods that each entry is about."""
    entries: dict[str, Entry] = field(default_factory=dict)
    taken_over: str = ""
    """The annotation of kse-rescheduler that is in these entries."""
    news: list[News] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    deletions: list[Json] = field(default_factory=list)
    creation: Json | None = None
    undecided: set[str] = field(default_factory=set)
    waits: list[float] = field(default_factory=list)
    job_failures: dict[str, int] = field(default_factory=dict)
    """By UID of a Job, how many it has had, with the pods that are about to be deleted."""
    room: int = _AT_ONCE
    """For how many more pods something may be decided."""

    def entry(self, name: str) -> Entry:
        """What is known of pods that are alike."""
        return self.entries.get(name, EMPTY)

    def tell(self, pod: Json | None, reason: str, note: str, occasion: str) -> None:
        """Tell people something about the workload, and about one of its pods."""
        self.news += telling.news_of(self.case.holder, pod, reason, note, occasion)

    def delete(self, pod: Json, controller: Json | None) -> None:
        """Have a pod deleted; to a Job that is one failure more."""
        self.deletions.append(pod)
        if controller is not None and controller["kind"] == "Job":
            self.job_failures[controller["metadata"]["uid"]] = self.failures_of(controller) + 1

    def failures_of(self, job: Json) -> int:
        """How many failures a Job has had when all this is done."""
        uid = job["metadata"]["uid"]
        if uid not in self.job_failures:
            own = (pod for pod in self.case.pods if (controller_of(pod) or {}).get("uid") == uid)
            self.job_failures[uid] = failures(job, own)
        return self.job_failures[uid]

    def wait(self, seconds: float) -> None:
        """Look again after so long at the latest."""
        self.waits.append(seconds)

    @property
    def is_full(self) -> bool:
        """Whether nothing more may be decided this time."""
        return self.room <= 0

    def decision(self) -> Decision:
        """All of it; the record only if it changes."""
        holder = self.case.holder
        text = written(self.entries)
        before = notes_of(holder).get(marks.FAILURES)
        strays = self.case.controllers if holder["kind"] == "Deployment" and not text else ()
        return Decision(
            record=None if _same(before, text) else text,
            taken_over=self.taken_over,
            news=tuple(self.news),
            outcomes=tuple(self.outcomes),
            strays=tuple(each for each in strays if marks.FAILURES in notes_of(each)),
            creation=self.creation,
            deletions=tuple(self.deletions),
            undecided=frozenset(self.undecided),
            wait=min(self.waits, default=None),
        )


def opened(case: Case) -> Draft:
    """The draft that changes nothing but what is out of date."""
    draft = Draft(case, by_entry(case))
    text = notes_of(case.holder).get(marks.FAILURES, "")
    try:
        record = read(text)
    except RecordError as error:
        note = f"the annotation {marks.FAILURES} cannot be read and is started anew: {error}"
        draft.tell(None, telling.UNREADABLE, note, f"{case.holder['metadata'].get('uid', '')}/{text[:200]}")
        draft.outcomes.append(outcomes.UNREADABLE)
        record = {}
    for name in outdated(record, case):
        del record[name]
    record = _with_foreign(draft, record)
    if runs_somewhere(case):
        record = {name: entry.ending(entry.ends - {telling.AT_FAULT}) for name, entry in record.items()}
    lasting = {name for name, entry in record.items() if entry.ends and _suffers(draft, name)}
    kept = without_old(record, case.now, case.settings.forget_after) | {name: record[name] for name in lasting}
    uids = {pod["metadata"]["uid"] for pod in (*case.pods, *case.vanished)}
    for name, entry in kept.items():
        draft.entries[name] = replace(entry, pending=tuple(uid for uid in entry.pending if uid in uids))
        oldest = min((failure.at for failure in entry.nodes.values()), default=None)
        if oldest is not None and name not in lasting:
            draft.wait(max(1.0, oldest + case.settings.forget_after - case.now))
    if len(text) > _LONGEST:
        draft.room = 0
    return draft


def _with_foreign(draft: Draft, record: dict[str, Entry]) -> dict[str, Entry]:
    """The record with what kse-rescheduler left on the workload, which is then taken off."""
    case, kind = draft.case, draft.case.holder["kind"]
    key = taking_over.key_of(kind)
    text = notes_of(case.holder).get(key) if key else None
    if text is None:
        return record
    occasion = f"{case.holder['metadata'].get('uid', '')}/{key}/{text[:200]}"
    try:
        foreign = taking_over.read_foreign(kind, text, [name for name in draft.live if _suffers(draft, name)])
        both = taking_over.taken_over(record, foreign, case.now)
        taking_over.refuse_longer(both, _LONGEST)
    except taking_over.ForeignRecordError as error:
        note = f"the annotation {key} of kse-rescheduler cannot be read and is left as it is: {error}; take it off"
        draft.tell(None, telling.UNREADABLE, note, occasion)
        return record
    draft.taken_over = key
    said = taking_over.in_words(foreign)
    note = f"the record of kse-rescheduler is taken over ({said}), and its annotation {key} taken off"
    draft.tell(None, telling.TAKEN_OVER, note, occasion)
    return both


def _suffers(draft: Draft, name: str) -> bool:
    case = draft.case
    return any(not is_well(pod, case.settings, case.now) for pod in draft.live.get(name, ()))


def _same(before: str | None, text: str) -> bool:
    """Whether the annotation says that already, in whatever layout."""
    if before is None:
        return not text
    try:
        return bool(before) and written(read(before)) == text
    except RecordError:
        return False

"""What recovery looks at and what it says: all failed pods of one workload at once, and what to do about them now.

The recovery loop reads the objects anew (Kubernetes' own JSON, with `kind`), `deciding.decide` answers, and the loop
carries the answer out in the order in which `Decision` lists it. If one step is refused, the rest is left, and the
next look decides anew: that costs nothing, because what was recorded is not counted again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rescheduler.migration.events import News
from rescheduler.migration.observation import condition, controller_of, has_ended, is_leaving, notes_of, ready_for
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.time import parse_instant
from rescheduler.recovery import events
from rescheduler.recovery import record as taking_over
from rescheduler.recovery.jobs import failures
from rescheduler.recovery.model import UNREADABLE, Case, Decision, statuses
from rescheduler.recovery.record import (
    EMPTY,
    Entry,
    RecordError,
    is_outdated,
    outdated,
    read,
    slot,
    without_old,
    written,
)
from rescheduler.recovery.settings import Settings, wanted

_PROOF = 60.0  # seconds


def is_well(pod: Json, settings: Settings, now: float) -> bool:
    """Whether a pod is Ready and not just between two crashes: without a readiness probe it is Ready there, too."""
    lasting = ready_for(pod, now)
    if lasting is None:
        return False
    restarts = max((each.get("restartCount") or 0 for each in statuses(pod)), default=0)
    return restarts < settings.crash_restarts or lasting >= settings.clear_after


def runs_somewhere(case: Case) -> bool:
    """Whether a pod shows that its workload can run, with the template that is in use."""
    for pod in case.pods:
        done = (pod.get("status") or {}).get("phase") == "Succeeded"
        if (done or _runs_for(pod, case) >= _PROOF) and not is_outdated(pod, case):
            return True
    return False


def may_show_in(case: Case) -> float | None:
    """In how many seconds a pod will have shown it; None if none is about to.

    One that was made a moment ago shows nothing: without a readiness probe it is Ready before its first crash.
    """
    young = [each for pod in case.pods if not is_outdated(pod, case) and (each := _runs_for(pod, case)) > 0]
    return _PROOF - max(young) if young else None


def _runs_for(pod: Json, case: Case) -> float:
    """For how many seconds it has been well."""
    return max(ready_for(pod, case.now) or 0.0, 0.001) if is_well(pod, case.settings, case.now) else 0.0


def is_live(pod: Json) -> bool:
    """Whether a pod stands for its workload; ended ones of a controller have been replaced."""
    return not is_leaving(pod) and (not has_ended(pod) or controller_of(pod) is None)


def by_entry(case: Case) -> dict[str, list[Json]]:
    """The live pods that each entry of the record is about."""
    found: dict[str, list[Json]] = {}
    for pod in filter(is_live, case.pods):
        name = slot(case.holder["kind"], pod["metadata"]["name"], pod["spec"].get("nodeName", ""))
        found.setdefault(name, []).append(pod)
    return found


def success(case: Case, entry: Entry) -> str:
    """What was reached in spite of the failures, so that nothing is left to be well; empty where pods just go on."""
    holder = case.holder
    if holder["kind"] == "Job" and condition(holder, "Complete").get("status") == "True":
        return "the Job has completed"
    if holder["kind"] == "CronJob" and _succeeded_since(case, entry):
        return "the last Job has completed"
    return ""


def recovers_in(case: Case, pods: list[Json], entry: Entry) -> float | None:
    """In how many seconds the pods that an entry is about have been well for long enough; None: not in sight."""
    holder, settings = case.holder, case.settings
    if success(case, entry):
        return 0.0
    least = 1 if holder["kind"] in ("StatefulSet", "DaemonSet") else wanted(holder)
    ready = [ready_for(pod, case.now) for pod in pods]
    if not pods or len(pods) < least or None in ready:
        return None
    # What failed meanwhile may have been replaced by no pod of these: a pod too many, or one that somebody moved.
    quiet = [case.now - failure.at for failure in entry.nodes.values()]
    return max(0.0, settings.clear_after - min([*quiet, *(each for each in ready if each is not None)]))


def _succeeded_since(case: Case, entry: Entry) -> bool:
    """Whether the CronJob's last Job has completed after everything that failed."""
    last = max(case.controllers, key=lambda job: job["metadata"].get("creationTimestamp") or "", default=None)
    if last is None or condition(last, "Complete").get("status") != "True":
        return False
    at = parse_instant(last["status"]["completionTime"]) if (last["status"]).get("completionTime") else case.now
    return all(failure.at < at for failure in entry.nodes.values())


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
        self.news += events.news_of(self.case.holder, pod, reason, note, occasion)

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
        before = notes_of(holder).get(labels.FAILURES)
        strays = self.case.controllers if holder["kind"] == "Deployment" and not text else ()
        return Decision(
            record=None if _same(before, text) else text,
            taken_over=self.taken_over,
            news=tuple(self.news),
            outcomes=tuple(self.outcomes),
            strays=tuple(each for each in strays if labels.FAILURES in notes_of(each)),
            creation=self.creation,
            deletions=tuple(self.deletions),
            undecided=frozenset(self.undecided),
            wait=min(self.waits, default=None),
        )


def opened(case: Case) -> Draft:
    """The draft that changes nothing but what is out of date."""
    draft = Draft(case, by_entry(case))
    text = notes_of(case.holder).get(labels.FAILURES, "")
    try:
        record = read(text)
    except RecordError as error:
        note = f"the annotation {labels.FAILURES} cannot be read and is started anew: {error}"
        draft.tell(None, events.UNREADABLE, note, f"{case.holder['metadata'].get('uid', '')}/{text[:200]}")
        draft.outcomes.append(UNREADABLE)
        record = {}
    for name in outdated(record, case):
        del record[name]
    record = _with_foreign(draft, record)
    if runs_somewhere(case):
        record = {name: entry.ending(entry.ends - {events.AT_FAULT}) for name, entry in record.items()}
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
        draft.tell(None, events.UNREADABLE, note, occasion)
        return record
    draft.taken_over = key
    said = taking_over.in_words(foreign)
    note = f"the record of kse-rescheduler is taken over ({said}), and its annotation {key} taken off"
    draft.tell(None, events.TAKEN_OVER, note, occasion)
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

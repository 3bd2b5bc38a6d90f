"""The mutating webhook: an AdmissionReview in, an AdmissionReview out, decided from memory.

The server calls `review` for each request of the API server. A pod that is expected somewhere, or whose like have
failed somewhere, gets a patch; everything else is allowed as it is. Whatever goes wrong in here, the pod is created.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import msgspec
import structlog
from msgspec import Raw

from rescheduler.admission.knowledge import NO_ADVICE, Knowledge
from rescheduler.admission.patching import patch_for
from rescheduler.admission.reviews import NonsenseError, Review, answer, read_newcomer, read_review
from rescheduler.migration.commands import Json
from rescheduler.model import marks
from rescheduler.model.advice import Newcomer

_log = structlog.stdlib.get_logger(__name__)
_LARGEST_POD = 2**18  # bytes
_OUR_FAULT = "kube-rescheduler could not look at this pod; it is created as it is (see the controller's log)"
_MISSPELT = f"annotation {marks.MISSPELT_RETRIES} is read as {marks.SCHEDULING_RETRIES}; please write it so"


class Mutation:
    """Answers reviews; it changes nothing, so that a dry run gets the same answer."""

    def __init__(self, knowledge: Knowledge, excluded: Callable[[], Collection[str]], now: Callable[[], float]) -> None:
        self._knowledge = knowledge
        self._excluded = excluded
        self._now = now

    def review(self, body: bytes) -> bytes:
        """The answer to a review; ReviewError if it is none."""
        asked = read_review(body)
        try:
            return self._answer(asked)
        except Exception:  # noqa: BLE001  a fault of ours must never keep a pod from being created
            _log.exception("a review could not be answered; the pod is created as it is", review=asked.uid)
            return answer(asked, [], (_OUR_FAULT,))

    def _may_avoid(self, avoid: Collection[str], pod: Raw) -> bool:
        """Whether nodes can be refused on a pod: not where it would go nowhere, which the leader finds out, too.

        Nor on one that is unusually large: whoever makes such pods shall not keep everybody else waiting.
        """
        return len(bytes(pod)) <= _LARGEST_POD and self._knowledge.leaves_any(avoid, pod)

    def _answer(self, asked: Review) -> bytes:
        if not asked.concerns_a_new_pod():
            return answer(asked, [])
        raw = asked.request.object
        try:
            newcomer = read_newcomer(raw, asked.namespace)
        except NonsenseError as error:
            _log.info("an object that is no pod is let through", review=asked.uid, why=str(error))
            return answer(asked, [])
        probe = marks.PROBE in newcomer.labels
        if newcomer.namespace in self._excluded() and not probe:
            return answer(asked, [])
        advice = NO_ADVICE if probe else self._knowledge.advise(newcomer)
        if advice.avoid and not self._may_avoid(advice.avoid, raw):
            advice = replace(advice, avoid=NO_ADVICE.avoid)
        if advice == NO_ADVICE and not probe:
            return answer(asked, [], _warnings(newcomer))
        try:
            pod: Json = msgspec.json.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            _log.info("an object that is no pod is let through", review=asked.uid, why=str(error))
            return answer(asked, [])
        return answer(asked, patch_for(pod, advice, self._now()), _warnings(newcomer))


def _warnings(newcomer: Newcomer) -> tuple[str, ...]:
    """What whoever makes the pod should know; a controller that makes it would only log it."""
    notes = newcomer.annotations
    misspelt = marks.MISSPELT_RETRIES in notes and marks.SCHEDULING_RETRIES not in notes
    return (_MISSPELT,) if misspelt and newcomer.owner is None else ()

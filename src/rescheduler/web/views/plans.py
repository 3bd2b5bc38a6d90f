"""The newest plan as a document, and which moves of plans wait until somebody approves of them.

A plan for a large cluster may reject a hundred thousand pods: the page gets the first of them, and how many there are
by guard. `rescheduler plan -o json` has them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from rescheduler.model.migration import Migration
from rescheduler.model.plan import Plan
from rescheduler.model.plan_format import plan_document
from rescheduler.web.plans import Planned
from rescheduler.web.showing import Showing

MOST_REJECTIONS = 1_000
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Written:
    """A plan as it is shown."""

    document: msgspec.Raw
    """As docs/plan-format.md has it, but for rejections beyond the first."""
    rejected: Json


NONE = Written(msgspec.Raw(b"null"), {"total": 0, "byGuard": {}})
"""While nobody has made a plan."""


def written(made: Plan) -> Written:
    """The plan; it may be large, so this is done in a thread."""
    shown = replace(made, rejections=made.rejections[:MOST_REJECTIONS])
    guards = Counter(rejection.guard for rejection in made.rejections)
    document = msgspec.Raw(msgspec.json.encode(plan_document(shown)))
    return Written(document, {"total": len(made.rejections), "byGuard": dict(guards.most_common())})


def plan(showing: Showing, planned: Planned | None, shown: Written, awaiting: Sequence[Migration]) -> Json:
    """As `/api/plan` gives it."""
    return {
        "made": planned.made if planned is not None else None,
        "seconds": round(planned.seconds, 3) if planned is not None else 0.0,
        "by": showing.replica.identity,
        "plan": shown.document,
        "awaiting": [{"namespace": each.namespace, "name": each.name} for each in awaiting],
        "rejected": shown.rejected,
    }

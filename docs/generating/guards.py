"""docs/guards.md: every guard by the name that a rejection has, and what changes it."""

from __future__ import annotations

from docs.generating.markdown import table, words
from rescheduler.planning import guards
from rescheduler.planning.refusals import PlanGuard

_GUARDS = """\
A guard says which pods are not moved, whatever a strategy wants. A pod that a strategy proposed and a guard refused is
a rejection: `rescheduler plan` lists it with the guard's name and a reason, and `rescheduler explain NAMESPACE/POD`
lists every guard that objects. Pods that no strategy proposed are not listed in a plan.
"""

_PODS_GUARDS = """\
These look at the pod and its owners. They are asked in this order, and the first that objects is the one a plan shows.
"""

_TIME = """\
`MinPodAge` and `CoolDown` need to know the time. A live cluster and a recording of one, made by `rescheduler snapshot`,
say it. For other files only `--now` does; without it a plan warns that both are not checked
([why](adr/0004-the-time-is-never-guessed.md)). `Outcome` goes by the PodMigrations of a live cluster
([what moves came to](outcomes.md)); of files nothing is remembered.
"""


def guards_page() -> str:
    """Every guard by the name that a rejection has."""
    rows = [(f"`{name}`", words(type(guard)), guard.changed_by) for name, guard in guards.discover().items()]
    plan_rows = [(f"`{each}`", each.meaning, each.changed_by) for each in PlanGuard]
    return "\n".join(
        [
            "# Guards\n",
            _GUARDS,
            "## What is never disturbed\n",
            _PODS_GUARDS,
            table(("guard", "leaves alone", "changed by"), rows),
            "## What depends on the rest of the plan\n",
            table(("guard", "meaning", "changed by"), plan_rows),
            _TIME,
        ]
    )

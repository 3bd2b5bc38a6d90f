"""docs/guards.md: every guard by the name that a rejection has, and what changes it."""

from __future__ import annotations

from docs.generating.markdown import table, words
from rescheduler.planning import guards
from rescheduler.planning.refusals import PlanGuard

_GUARDS = """\
A guard says which pods are never moved. If a guard refuses a pod that a strategy proposed, the plan lists it as a
rejection, with the guard's name and a reason. `rescheduler explain NAMESPACE/POD` lists every guard that refuses a pod.
`rescheduler plan` also counts the running pods that each guard holds back, proposed or not, and names what changes it
(`HELD BACK BY`; only with `-o wide` where nothing does). Of several guards it counts the first.
"""

_PODS_GUARDS = """\
These look at the pod and its owners. They are checked in this order, and a plan shows the first that refuses.
"""

_TIME = """\
`MinPodAge` and `CoolDown` need the time. A live cluster and a recording made by `rescheduler snapshot` have it. Other
files need `--now`; without it a plan warns that both are not checked ([why](adr/0004-the-time-is-never-guessed.md)).
`Outcome` uses the PodMigrations of a live cluster ([outcomes](outcomes.md)); files have no history.
"""


def guards_page() -> str:
    """Every guard by the name that a rejection has."""
    rows = [(f"`{name}`", words(guard), guard.changed_by) for name, guard in guards.discover().items()]
    plan_rows = [(f"`{each}`", each.meaning, each.changed_by) for each in PlanGuard]
    return "\n".join(
        [
            "# Guards\n",
            _GUARDS,
            "## Guards of pods\n",
            _PODS_GUARDS,
            table(("guard", "leaves alone", "changed by"), rows),
            "## Limits of a plan\n",
            table(("guard", "meaning", "changed by"), plan_rows),
            _TIME,
        ]
    )

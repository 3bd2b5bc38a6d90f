"""The seed's form (KubeSchedulerConfiguration with a plugin Rescheduler), written as the native form.

`converting` calls `convert_seed`. The fields have the same names there, so only their place changes; what else is in
the file is kube-scheduler's.
"""

from __future__ import annotations

from rescheduler.config.conversion.draft import Draft
from rescheduler.config.conversion.options import Given
from rescheduler.config.errors import Finding, hint, shown
from rescheduler.config.forms import PLUGIN, SEED_VERSIONS, recognise
from rescheduler.config.schema import OUTSIDE_ARGS, PlanningFields
from rescheduler.config.translation import fields_by_name

_THEIRS = "it is kube-scheduler's own"


def convert_seed(draft: Draft, document: Given) -> list[Finding]:
    """All fields of the plugin's args; what makes no sense is found fault with."""
    whole = document.value if isinstance(document.value, dict) else {}
    form = recognise(whole)
    known = fields_by_name(PlanningFields)
    findings: list[Finding] = []
    for finding in form.findings:
        name = str(finding.loc[-1]) if finding.loc else ""
        if finding.loc[:-1] == form.args_at and form.args_at and name not in (*known, *OUTSIDE_ARGS):
            draft.unknown(finding.loc, f"no field of {PLUGIN} is called so{hint(name, known)}")
        else:
            findings.append(finding)
    for name, value in form.data.items():
        if name not in OUTSIDE_ARGS:
            draft.put((name,), value, form.locate((name,)))
        elif isinstance(value, dict):
            for inner, said in value.items():
                draft.put((name, inner), said, (name, inner))
    _tell_the_rest(draft, whole, form.data)
    if whole.get("apiVersion") not in SEED_VERSIONS:
        draft.wrong(("apiVersion",), f"{shown(whole.get('apiVersion'))} is none of {', '.join(SEED_VERSIONS)}")
    return findings


def _tell_the_rest(draft: Draft, whole: dict[str, object], taken: dict[str, object]) -> None:
    for name, value in whole.items():
        section = taken.get(name)
        if name in OUTSIDE_ARGS and isinstance(value, dict) and isinstance(section, dict):
            for inner in value:
                if inner not in section:
                    why = "that Lease is the scheduler's" if inner == "resourceName" else _THEIRS
                    draft.settled((name, inner), why)
        elif name == "profiles" and isinstance(value, list):
            for index, profile in enumerate(value):
                _tell_profile(draft, profile, index)
        elif name not in ("apiVersion", "kind"):
            draft.settled((name,), _THEIRS)


def _tell_profile(draft: Draft, profile: object, index: int) -> None:
    for name, value in profile.items() if isinstance(profile, dict) else ():
        if name != "pluginConfig":
            draft.settled(("profiles", index, name), _THEIRS)
            continue
        for place, config in enumerate(value if isinstance(value, list) else ()):
            if not isinstance(config, dict) or config.get("name") != PLUGIN:
                draft.settled(("profiles", index, name, place), _THEIRS)

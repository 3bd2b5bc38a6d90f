"""The seed's form (KubeSchedulerConfiguration with a plugin Rescheduler), written as the native form.

`converting` calls `convert_seed`. The fields have the same names there, so only their place changes; what else is in
the file is kube-scheduler's. A scheduler with kse-rescheduler's plugin Podrescheduling has nothing to take along: its
counterpart is a configuration that moves nothing, for failed pods are recovered by their annotation.
"""

from __future__ import annotations

from rescheduler.config.errors import Finding, Loc, hint, quote
from rescheduler.config.loader import PLUGIN, SCHEDULER_VERSIONS, recognise
from rescheduler.config.schema import OUTSIDE_ARGS, PlanningFields
from rescheduler.config.validate import fields_by_name
from rescheduler.convert.builder import ConfigBuilder
from rescheduler.convert.values import InputValue

_THEIRS = "it is kube-scheduler's own"
_KSE = "Podrescheduling"
_ONLY_FAILED = "kse-rescheduler deletes failed pods of workloads with scheduling-retries, which needs no strategy here"


def convert_seed(builder: ConfigBuilder, document: InputValue) -> tuple[str, list[Finding]]:
    """Whose it is, and what is found fault with; all fields of the plugin's args are in the draft."""
    whole = document.value if isinstance(document.value, dict) else {}
    form = recognise(whole)
    if not form.args_at and (place := _podrescheduling(whole)):
        builder.put(("enabledStrategies",), [], (*document.loc, *place), _ONLY_FAILED)
        builder.settled(
            (*document.loc, *place), "the webhook, or the extender, keeps new pods off nodes where they failed"
        )
        _tell_the_rest(builder, document, {})
        return "kse-rescheduler", []
    known = fields_by_name(PlanningFields)
    findings: list[Finding] = []
    for finding in form.findings:
        name = str(finding.loc[-1]) if finding.loc else ""
        loc = (*document.loc, *finding.loc)
        if finding.loc[:-1] == form.args_at and form.args_at and name not in (*known, *OUTSIDE_ARGS):
            builder.unknown(loc, f"no field of {PLUGIN} is called so{hint(name, known)}")
        else:
            findings.append(Finding(loc, finding.message))
    for name, value in form.data.items():
        if name not in OUTSIDE_ARGS:
            builder.put((name,), value, (*document.loc, *form.locate((name,))))
        elif isinstance(value, dict):
            for inner, said in value.items():
                builder.put((name, inner), said, (*document.loc, name, inner))
    _tell_the_rest(builder, document, form.data)
    if whole.get("apiVersion") not in SCHEDULER_VERSIONS:
        loc = (*document.loc, "apiVersion")
        builder.wrong(loc, f"{quote(whole.get('apiVersion'))} is none of {', '.join(SCHEDULER_VERSIONS)}")
    return f"the plugin {PLUGIN}", findings


def _podrescheduling(whole: dict[str, object]) -> Loc:
    """Where the scheduler has kse-rescheduler's plugin; nothing if it has none."""
    profiles = InputValue(whole, ()).child("profiles")
    for index, profile in enumerate(profiles.value if isinstance(profiles.value, list) else ()):
        plugins = InputValue(profile, (*profiles.loc, index)).child("plugins")
        for point in plugins.value if isinstance(plugins.value, dict) else ():
            enabled = plugins.child(point).child("enabled")
            for place, each in enumerate(enabled.value if isinstance(enabled.value, list) else ()):
                if isinstance(each, dict) and each.get("name") == _KSE:
                    return (*enabled.loc, place)
    return ()


def _tell_the_rest(builder: ConfigBuilder, document: InputValue, taken: dict[str, object]) -> None:
    whole = document.value if isinstance(document.value, dict) else {}
    for name, value in whole.items():
        section = taken.get(name)
        if name in OUTSIDE_ARGS and isinstance(value, dict) and isinstance(section, dict):
            for inner in value:
                if inner not in section:
                    why = "that Lease is the scheduler's" if inner == "resourceName" else _THEIRS
                    builder.settled((*document.loc, name, inner), why)
        elif name == "profiles" and isinstance(value, list):
            for index, profile in enumerate(value):
                _tell_profile(builder, profile, (*document.loc, name, index))
        elif name not in ("apiVersion", "kind"):
            builder.settled((*document.loc, name), _THEIRS)


def _tell_profile(builder: ConfigBuilder, profile: object, at: Loc) -> None:
    for name, value in profile.items() if isinstance(profile, dict) else ():
        if name != "pluginConfig":
            builder.settled((*at, name), _THEIRS)
            continue
        for place, config in enumerate(value if isinstance(value, list) else ()):
            if not isinstance(config, dict) or config.get("name") != PLUGIN:
                builder.settled((*at, name, place), _THEIRS)

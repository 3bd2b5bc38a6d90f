"""KubeSchedulerConfiguration with the plugin Rescheduler, written as a ReschedulerConfiguration.

The fields have the same names, so only their place changes; everything else in the file is kube-scheduler's. For a
scheduler with kse-rescheduler's plugin Podrescheduling the result moves nothing: failed pods are recovered by their
annotation, without a strategy.
"""

from __future__ import annotations

from rescheduler.config.errors import Finding, Loc, hint
from rescheduler.config.loader import PLUGIN, SCHEDULER_VERSIONS, recognise
from rescheduler.config.schema import OUTSIDE_ARGS, PluginArgs
from rescheduler.config.validate import fields_by_name
from rescheduler.convert.builder import ConfigBuilder
from rescheduler.convert.values import InputValue
from rescheduler.model.fields import quote

_THEIRS = "it is kube-scheduler's own"
_KSE = "Podrescheduling"
_ONLY_FAILED = "kse-rescheduler deletes failed pods of workloads with scheduling-retries, which needs no strategy here"


def convert_scheduler_config(builder: ConfigBuilder, document: InputValue) -> tuple[str, list[Finding]]:
    """Convert all fields of the plugin's args; return whose configuration it is, and errors in it."""
    form = recognise(document.mapping)
    if not form.args_at and (place := _find_podrescheduling(document)):
        builder.put(("enabledStrategies",), [], place, _ONLY_FAILED)
        builder.add_unneeded(place, "the webhook, or the extender, keeps new pods off nodes where they failed")
        _report_rest(builder, document, {})
        return "kse-rescheduler", []
    known = fields_by_name(PluginArgs)
    findings: list[Finding] = []
    for finding in form.findings:
        name = str(finding.loc[-1]) if finding.loc else ""
        loc = (*document.loc, *finding.loc)
        if finding.loc[:-1] == form.args_at and form.args_at and name not in (*known, *OUTSIDE_ARGS):
            builder.add_unknown(loc, f"no field of {PLUGIN} is called so{hint(name, known)}")
        else:
            findings.append(Finding(loc, finding.message))
    for name, value in form.data.items():
        if name not in OUTSIDE_ARGS:
            builder.put((name,), value, (*document.loc, *form.locate((name,))))
        elif isinstance(value, dict):
            for key, part in value.items():
                builder.put((name, key), part, (*document.loc, name, key))
    _report_rest(builder, document, form.data)
    version = document.child("apiVersion")
    if version.value not in SCHEDULER_VERSIONS:
        builder.add_wrong(version.loc, f"{quote(version.value)} is none of {', '.join(SCHEDULER_VERSIONS)}")
    return f"the plugin {PLUGIN}", findings


def _find_podrescheduling(document: InputValue) -> Loc:
    """Return where the scheduler has kse-rescheduler's plugin; empty if it has none."""
    for profile in document.child("profiles").items:
        plugins = profile.child("plugins")
        for point in plugins.mapping:
            for each in plugins.child(point).child("enabled").items:
                if each.mapping.get("name") == _KSE:
                    return each.loc
    return ()


def _report_rest(builder: ConfigBuilder, document: InputValue, taken: dict[str, object]) -> None:
    for name, value in document.mapping.items():
        section = taken.get(name)
        if name in OUTSIDE_ARGS and isinstance(value, dict) and isinstance(section, dict):
            for key in value:
                if key not in section:
                    why = "that Lease is the scheduler's" if key == "resourceName" else _THEIRS
                    builder.add_unneeded((*document.loc, name, key), why)
        elif name == "profiles" and isinstance(value, list):
            for profile in document.child(name).items:
                _report_profile(builder, profile)
        elif name not in ("apiVersion", "kind"):
            builder.add_unneeded((*document.loc, name), _THEIRS)


def _report_profile(builder: ConfigBuilder, profile: InputValue) -> None:
    for name in profile.mapping:
        if name != "pluginConfig":
            builder.add_unneeded((*profile.loc, name), _THEIRS)
            continue
        for config in profile.child(name).items:
            if config.mapping.get("name") != PLUGIN:
                builder.add_unneeded(config.loc, _THEIRS)

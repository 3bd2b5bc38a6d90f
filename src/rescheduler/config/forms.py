"""The two forms of a configuration file, both brought to the native form's fields.

`loader` gives it a document; `checks` gets the fields. The native form is ours and strict. The seed's form is a
KubeSchedulerConfiguration, of which only the Rescheduler plugin's args, leaderElection and clientConnection.kubeconfig
are read; all else belongs to kube-scheduler and is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rescheduler.config.errors import Finding, Loc, hint, nearest, path_of, shown, wrong_type
from rescheduler.config.schema import OUTSIDE_ARGS, LeaderElectionFields, PlanningFields
from rescheduler.config.translation import fields_by_name, known_part

NATIVE_KIND = "ReschedulerConfiguration"
SEED_KIND = "KubeSchedulerConfiguration"
NATIVE_VERSION = "rescheduler.io/v1alpha1"
SEED_VERSIONS = tuple(f"kubescheduler.config.k8s.io/{version}" for version in ("v1", "v1beta3", "v1beta2"))
PLUGIN = "Rescheduler"
_VERSIONS = {NATIVE_KIND: (NATIVE_VERSION,), SEED_KIND: SEED_VERSIONS}
_HEADER = ("apiVersion", "kind")
# The scheduler's own Lease: whoever held it besides the scheduler would stop it, or be stopped by it.
_SCHEDULERS_LEASE = "kube-scheduler"


@dataclass(frozen=True, slots=True)
class Form:
    """A document's content as native fields, and where in the file they stand."""

    kind: str
    data: dict[str, object]
    findings: tuple[Finding, ...]
    args_at: Loc = ()

    def locate(self, loc: Loc) -> Loc:
        """The place in the file of a native field."""
        return loc if not loc or loc[0] in OUTSIDE_ARGS else (*self.args_at, *loc)


def recognise(document: Mapping[str, object]) -> Form:
    """Tell the form by kind, or by apiVersion where the kind is wrong, so that the rest can be checked all the same."""
    findings = [*_check_header(document)]
    kind, version = document.get("kind"), document.get("apiVersion")
    group = version.partition("/")[0] if isinstance(version, str) else ""
    by_group = {versions[0].partition("/")[0]: name for name, versions in _VERSIONS.items()}
    chosen = kind if isinstance(kind, str) and kind in _VERSIONS else by_group.get(group)
    if chosen == NATIVE_KIND:
        return Form(NATIVE_KIND, {k: v for k, v in document.items() if k not in _HEADER}, tuple(findings))
    if chosen == SEED_KIND:
        return _from_seed(document, findings)
    return Form("", {}, tuple(findings))


def _check_header(document: Mapping[str, object]) -> Iterator[Finding]:
    kind, version = document.get("kind"), document.get("apiVersion")
    kind_known = isinstance(kind, str) and kind in _VERSIONS
    versions = _VERSIONS[str(kind)] if kind_known else (NATIVE_VERSION, *SEED_VERSIONS)
    fitting = [name for name, accepted in _VERSIONS.items() if version in accepted]
    kinds = fitting if fitting and not kind_known else list(_VERSIONS)
    for name, value, accepted in (("apiVersion", version, versions), ("kind", kind, kinds)):
        if value is None:
            near = nearest(name, (key for key in document if key not in _HEADER))
            instead = f" ({near} is not it)" if near else ""
            yield Finding((name,), f"is missing{instead}; accepted: {', '.join(accepted)}")
        elif not isinstance(value, str):
            yield Finding((name,), wrong_type(value, "a string"))
        elif value not in accepted:
            of = f" of {kind}" if name == "apiVersion" and kind_known else ""
            message = f"{shown(value)} is not a known {name}{of}{hint(value, accepted) or ';'}"
            yield Finding((name,), f"{message} accepted: {', '.join(accepted)}")


def _from_seed(document: Mapping[str, object], findings: list[Finding]) -> Form:
    data = _top_level(document, findings)
    places = [*_plugin_configs(document, findings)]
    named = [(loc, config) for loc, config in places if config.get("name") == PLUGIN]
    if not named:
        if not any(finding.loc[:1] == ("profiles",) for finding in findings):
            findings.append(Finding(("profiles",), _no_plugin_config(places)))
        return Form(SEED_KIND, data, tuple(findings))
    if len(named) > 1:
        paths = " and ".join(path_of(loc) for loc, _ in named)
        findings.append(Finding(named[1][0], f"only one pluginConfig may be named {PLUGIN}, found {paths}"))
    loc, config = named[0]
    args_at = (*loc, "args")
    args = config.get("args")
    if isinstance(args, dict):
        misplaced = [name for name in OUTSIDE_ARGS if name in args]
        findings += [Finding((*args_at, name), "belongs at the top of the file, not in args") for name in misplaced]
        ours = {name: value for name, value in args.items() if name not in (*_HEADER, *OUTSIDE_ARGS)}
        data |= known_part(ours, PlanningFields, findings, args_at)
    elif args is not None:
        findings.append(Finding(args_at, wrong_type(args, "a mapping")))
    return Form(SEED_KIND, data, tuple(findings), args_at)


def _top_level(document: Mapping[str, object], findings: list[Finding]) -> dict[str, object]:
    """What counts of kube-scheduler's own sections: of those only what we know, for the rest is not ours to judge."""
    picked: dict[str, object] = {}
    for name, ours in (
        ("leaderElection", fields_by_name(LeaderElectionFields)),
        ("clientConnection", {"kubeconfig": None}),
    ):
        section = document.get(name)
        if isinstance(section, dict):
            picked[name] = {key: value for key, value in section.items() if key in ours}
        elif section is not None:
            findings.append(Finding((name,), wrong_type(section, "a mapping")))
    election = picked.get("leaderElection")
    if isinstance(election, dict) and election.get("resourceName") == _SCHEDULERS_LEASE:
        del election["resourceName"]
    return picked


def _plugin_configs(
    document: Mapping[str, object], findings: list[Finding]
) -> Iterator[tuple[Loc, Mapping[str, object]]]:
    profiles = document.get("profiles")
    if profiles is not None and not isinstance(profiles, list):
        findings.append(Finding(("profiles",), wrong_type(profiles, "a list")))
    for index, profile in enumerate(profiles if isinstance(profiles, list) else ()):
        configs = profile.get("pluginConfig") if isinstance(profile, dict) else None
        at: Loc = ("profiles", index, "pluginConfig")
        if configs is not None and not isinstance(configs, list):
            findings.append(Finding(at, wrong_type(configs, "a list")))
        for place, config in enumerate(configs if isinstance(configs, list) else ()):
            if isinstance(config, dict):
                yield (*at, place), config


def _no_plugin_config(places: list[tuple[Loc, Mapping[str, object]]]) -> str:
    for loc, config in places:
        name = config.get("name")
        if isinstance(name, str) and nearest(name, [PLUGIN]):
            return f"no pluginConfig is named {PLUGIN}; did you mean it by {shown(name)} at {path_of((*loc, 'name'))}?"
    return f"no pluginConfig is named {PLUGIN}: add one, with its args, to profiles[0].pluginConfig"

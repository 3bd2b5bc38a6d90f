"""Converts a configuration of another tool to a ReschedulerConfiguration.

A policy may be a document of its own, or carried by a ConfigMap, a list, or values of descheduler's chart. Such values
have it under `deschedulerPolicy`, without apiVersion and kind, and may be within the object that installs the chart:
Flux's HelmRelease, Argo CD's Application. Everything else in the file is named in a note.

The result never moves more than the input: what is not understood disables its strategy, or all moves. The same tables
say what is meant when a name of another tool is in a configuration of ours.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rescheduler.config.document import dump_document, read_documents
from rescheduler.config.errors import ConfigErrors, Finding, InvalidError, Loc, format_path, hint
from rescheduler.config.loader import PLUGIN, SCHEDULER_KIND, SCHEDULER_VERSIONS, recognise
from rescheduler.config.schema import NATIVE_KIND, NATIVE_VERSION, OUTSIDE_ARGS, Fields, PluginArgs
from rescheduler.config.validate import Known, check, fields_by_name
from rescheduler.convert import descheduler_plugins, koordinator
from rescheduler.convert.builder import ConfigBuilder, Path, Remark, RemarkKind
from rescheduler.convert.descheduler import TOP, convert_policy
from rescheduler.convert.values import InputValue, Option, duration
from rescheduler.model.fields import quote

_DESCHEDULER = "DeschedulerPolicy"
_KOORDINATOR = "DeschedulerConfiguration"
_TOOLS = {_DESCHEDULER: "descheduler", _KOORDINATOR: "koordinator"}
_KINDS = (*_TOOLS, SCHEDULER_KIND)
_VERSION = "descheduler/v1alpha2"
_OLD_VERSION = "descheduler/v1alpha1"
_IN_CHART = "deschedulerPolicy"
_CURES = {
    NATIVE_KIND: "it is in the native form already",
    **dict.fromkeys(
        ("KubeDescheduler", "Descheduler"), "convert the ConfigMap that its operator writes, for that has the policy"
    ),
}
_MOST_KINDS = 5  # that are named


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of a conversion."""

    text: str
    """The configuration, as YAML with comments."""
    remarks: tuple[Remark, ...]
    taken: frozenset[Loc]
    """The places of the input whose values are in the configuration."""
    notes: tuple[str, ...] = ()
    """What else was in the file."""


def convert_text(text: str, source: str, known: Known) -> Conversion:
    """Convert the one policy of a text; raise ConfigErrors if there is none, or several."""
    scan = _Scan()
    scan.read(text, ())
    policy = _single_policy(scan, source)
    builder, kind, tool = ConfigBuilder(), policy.kind, _TOOLS.get(policy.kind, "")
    if kind == _DESCHEDULER:
        convert_policy(builder, policy.item)
    elif kind == _KOORDINATOR:
        koordinator.convert_koordinator(builder, policy.item)
    else:
        tool, wrong = _convert_scheduler_config(builder, policy.item)
        if wrong:
            raise ConfigErrors.in_source(source, wrong)
    if policy.chart is not None:
        _convert_chart(builder, policy.chart)
    # Plugin.convert disables strategies for what is wrong within plugins.
    halts = [
        (each.loc, "it is not known, and may limit what is moved" if each.kind is RemarkKind.UNKNOWN else each.why)
        for each in builder.remarks
        if each.is_limit and (kind == SCHEDULER_KIND or "pluginConfig" not in each.loc)
    ]
    opening = [f"Converted from {source}, a {kind} of {tool}."]
    if kind != SCHEDULER_KIND:
        _write_stricter_defaults(builder)
        opening.append(
            "Guards that are not known there keep their defaults: minPodAge, coolDown, Jobs (allow.jobs) and single "
            "replicas that cannot be handed off (allow.singleReplica). See docs/coming-over.md."
        )
    halts += _remove_invalid(builder, known)
    for loc, why in halts:
        builder.halt(loc, why)
    made = _format_config(builder.data, builder.comments, opening)
    return Conversion(made, tuple(builder.remarks), frozenset(builder.taken), tuple(scan.notes))


@dataclass(frozen=True, slots=True)
class _Policy:
    """A policy that was found."""

    item: InputValue
    chart: InputValue | None = None
    """The values of the chart that contain it."""

    @property
    def kind(self) -> str:
        return str(self.item.child("kind").value)


@dataclass(slots=True)
class _Scan:
    """Looks for policies in all documents of a file."""

    policies: list[_Policy] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    others: list[object] = field(default_factory=list)
    """The kinds of documents that neither are nor carry a policy."""
    findings: list[Finding] = field(default_factory=list)

    def read(self, text: str, at: Loc) -> None:
        """Read all documents of a text."""
        try:
            documents = read_documents(text)
        except InvalidError as error:
            self._add_findings(error.findings, at)
            return
        for document in documents:
            self._add_findings(document.findings, at)
            self._look_into(InputValue(document.data, at))

    def _add_findings(self, findings: Sequence[Finding], at: Loc) -> None:
        self.findings += [Finding((*at, *each.loc), each.message) for each in findings]

    def _look_into(self, item: InputValue) -> None:
        kind = item.mapping.get("kind")
        if kind in _KINDS:
            self.policies.append(_Policy(item))
        elif kind == "ConfigMap":
            self._look_into_config_map(item.child("data"))
        elif kind in ("List", "ConfigMapList"):
            for each in item.child("items").items:
                self._look_into(each)
        elif carriers := [*_find_chart_values(item)]:
            for each in carriers:
                if isinstance(each.value, str):
                    self.read(each.value, each.loc)
                else:
                    self.policies.append(_policy_of_chart(each))
        else:
            name = f"{quote(kind)} is " if kind is not None else "a document without kind is "
            cure = f"; {_CURES[kind]}" if isinstance(kind, str) and kind in _CURES else ""
            self.notes.append(f"{format_path(item.loc)}: {name}no policy{cure}".removeprefix(": "))
            self.others.append(kind)

    def _look_into_config_map(self, data: InputValue) -> None:
        carries = False
        for name, text in data.mapping.items():
            if isinstance(text, str) and any(each in text for each in (_IN_CHART, *_KINDS)):
                carries = True
                self.read(text, (*data.loc, name))
            else:
                self.notes.append(f"{format_path((*data.loc, name))} of a ConfigMap is no policy")
        if not carries:
            self.others.append("ConfigMap")

    def describe_others(self) -> str:
        """Count the documents that have nothing to do with a policy, and name their kinds."""
        if not self.others:
            return ""
        count, kinds = len(self.others), sorted({quote(kind) if kind is not None else "none" for kind in self.others})
        named, more = ", ".join(kinds[:_MOST_KINDS]), len(kinds) - _MOST_KINDS
        what = "1 document of another kind" if count == 1 else f"{count} documents of other kinds"
        cures = [f"; {kind}: {cure}" for kind, cure in _CURES.items() if kind in self.others]
        return f"{what}: {named}" + (f" and {more} more" if more > 0 else "") + "".join(cures)


def _find_chart_values(item: InputValue) -> Iterator[InputValue]:
    """Find values of the chart at any depth: as mappings, or as text under a name such as `values`."""
    value = item.value
    if isinstance(value, dict):
        if isinstance(value.get(_IN_CHART), dict):
            yield item
            return
        for name in value:
            yield from _find_chart_values(item.child(name))
    elif isinstance(value, list):
        for each in item.items:
            yield from _find_chart_values(each)
    elif isinstance(value, str) and str(item.loc[-1]).startswith("values") and f"{_IN_CHART}:" in value:
        yield item


def _policy_of_chart(values: InputValue) -> _Policy:
    policy = values.child(_IN_CHART)
    version = values.child(f"{_IN_CHART}APIVersion").value
    if version is None:  # the chart's default changed when descheduler dropped the old version
        is_old = policy.mapping.get("strategies") and not policy.mapping.get("profiles")
        version = _OLD_VERSION if is_old else _VERSION
    return _Policy(InputValue({**policy.mapping, "apiVersion": version, "kind": _DESCHEDULER}, policy.loc), values)


def _convert_chart(builder: ConfigBuilder, values: InputValue) -> None:
    """Convert values of the chart that are not in the policy, but change what it does."""
    interval, schedule = values.child("deschedulingInterval"), values.child("schedule")
    if values.child("kind").value == "Deployment":
        if interval.value is not None:
            Option("deschedulingInterval", "reschedulingInterval", duration).convert(builder, interval)
    elif schedule.value is not None:
        nearest = "reschedulingInterval, 30s by default, and when.windows"
        builder.add_missing(schedule.loc, "there is no CronJob: the controller runs all the time", nearest)
    dry = values.child("cmdOptions").child("dry-run")
    if dry.value not in (None, False):
        why = "it is a dry run there, and here that is a flag of the command"
        builder.add_missing(dry.loc, why, "rescheduler run --dry-run", limits=True)
    read = f"{_IN_CHART}, {_IN_CHART}APIVersion, deschedulingInterval, schedule and cmdOptions.dry-run"
    builder.add_unneeded(
        values.loc or (_IN_CHART,), f"of the values these are read: {read}; the rest is the chart's own"
    )


def _single_policy(scan: _Scan, source: str) -> _Policy:
    findings = [*scan.findings]
    if not findings and not scan.policies:
        kinds = " or ".join((f"{_DESCHEDULER} ({_VERSION})", f"{_KOORDINATOR} (koordinator)", SCHEDULER_KIND))
        others = scan.describe_others()
        findings.append(Finding((), f"holds no {kinds}" + (f"; it holds {others}" if others else "")))
    if len(scan.policies) > 1:
        places = ", ".join(f"{each.kind} {format_path(each.item.loc)}".strip() for each in scan.policies)
        findings.append(Finding((), f"holds {len(scan.policies)} policies ({places}): give one at a time"))
    if findings:
        raise ConfigErrors.in_source(source, findings)
    (policy,) = scan.policies
    version = policy.item.child("apiVersion").value
    if policy.kind != SCHEDULER_KIND and version != _VERSION:
        if version == _OLD_VERSION:
            cure = f"descheduler reads it no more: bring it to {_VERSION} first (profiles in place of strategies)"
        else:
            cure = f"only {_VERSION} can be converted"
        wrong = Finding((*policy.item.loc, "apiVersion"), f"is {quote(version)}: {cure}")
        raise ConfigErrors.in_source(source, [wrong])
    return policy


_THEIRS = "it is kube-scheduler's own"
_KSE = "Podrescheduling"
_ONLY_FAILED = "kse-rescheduler deletes failed pods of workloads with scheduling-retries, which needs no strategy here"


def _convert_scheduler_config(builder: ConfigBuilder, document: InputValue) -> tuple[str, list[Finding]]:
    """Convert all fields of the plugin's args; return whose configuration it is, and errors in it.

    The fields have the same names, so only their place changes; everything else in the file is kube-scheduler's. For a
    scheduler with kse-rescheduler's plugin Podrescheduling the result moves nothing: failed pods are recovered by their
    annotation, without a strategy.
    """
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


_CAREFUL = ("kube-system", "kube-public")
_USUAL_LIMIT = 10
_USUAL_GRACE = "30s"
_USUAL_THRESHOLD = 80


def _write_stricter_defaults(builder: ConfigBuilder) -> None:
    """Write out defaults that differ from those of the other tool: the stricter one of the two holds."""
    names = [*builder.data["enabledStrategies"]]
    if "Consolidation" in names:
        _write_packing_defaults(builder)
    if builder.get(("migration", "evictionGracePeriod")) is None:
        comment = "the least that an evicted pod has; a longer one of its own holds, as it does there"
        builder.put(("migration", "evictionGracePeriod"), _USUAL_GRACE, (), comment)
    failed: Path = ("strategies", "FailedPods", "withoutController")
    if builder.get(failed) is not None and "FailedPods" not in names:
        builder.drop(failed)
        builder.add_unneeded(
            builder.origins[failed], "RemoveFailedPods is not enabled, and failed pods are not touched"
        )
    if not builder.get(failed[:2]):
        builder.drop(failed[:2])
    if builder.get(("strategies",)) == {}:
        builder.drop(("strategies",))
    if builder.get(("filters", "withoutController")) is None:
        comment = "pods without a controller are left alone there; true moves them, by a copy"
        builder.put(("filters", "withoutController"), value=False, loc=(), comment=comment)
    if "excludedNamespaces" not in builder.data:
        kept = [name for name in _CAREFUL if name not in builder.named]
        comment = "not excluded there; name only those whose pods are to stay"
        builder.put(("excludedNamespaces",), kept, (), comment)
    if "maxReschedulePods" not in builder.data:
        _write_move_limit(builder, names)


def _write_packing_defaults(builder: ConfigBuilder) -> None:
    """Write thresholds for nodes that take pods, which the other tools do not have."""
    for name in ("cpuThreshold", "memoryThreshold"):
        if name not in builder.data and "thresholdMode" not in builder.data:
            builder.put((name,), _USUAL_THRESHOLD, (), "no node is filled above this; not so there")
    path = ("limits", "perNodeOut")
    if builder.get(path) is not None:
        why = f"a node is emptied in one plan, so one with more pods than {builder.get(path)} never is"
        builder.add_missing(builder.origins[path], why, "limits.perNodeOut, of all strategies")


def _write_move_limit(builder: ConfigBuilder, names: Collection[str]) -> None:
    path = ("maxReschedulePods",)
    if {*names} == {"Consolidation"}:
        comment = "not limited there; a node is emptied in one plan, or not at all (see maxNodesPerPlan)"
        builder.put(path, "unlimited", (), comment)
        return
    builder.put(path, _USUAL_LIMIT, (), "in one plan; not limited there")
    if "Consolidation" in names:
        builder.comment_on(path, "a node with more pods is never emptied; a higher limit is one of all strategies")


_HARMLESS = ("usage", "web", "leaderElection", "clientConnection", "reschedulingInterval")
"""Fields without which no more pods are moved."""


def _remove_invalid(builder: ConfigBuilder, known: Known) -> list[tuple[Loc, str]]:
    """Remove what our own checks refuse; return the places and reasons for which nothing may be moved then."""
    halts: list[tuple[Loc, str]] = []
    while True:
        try:
            check(builder.data, known)
        except InvalidError as error:
            halts += _remove_finding(builder, error.findings[0])
        else:
            return halts


def _remove_finding(builder: ConfigBuilder, finding: Finding) -> Iterator[tuple[Loc, str]]:
    path: Path = finding.loc
    while path and builder.get(path) is None:
        path = path[:-1]
    if not path:
        raise ValueError(f"{format_path(finding.loc)}: {finding.message}")  # a table of ours is wrong
    loc = _origin(builder, path)
    builder.add_wrong(loc, f"{format_path(finding.loc)} would not be accepted: {finding.message}")
    if path[0] == "strategies" and len(path) > 1:
        builder.drop(path[:2])
        builder.switch_off(str(path[1]), loc, "it cannot be set up as it is there")
    else:
        builder.drop(path)
        if path[0] not in _HARMLESS:
            yield loc, finding.message


def _origin(builder: ConfigBuilder, path: Path) -> Loc:
    """Return the place in the input that a field, or a part of it, comes from."""
    if path in builder.origins:
        return builder.origins[path]
    return next(
        (loc for each, loc in builder.origins.items() if each[: len(path)] == path or path[: len(each)] == each), ()
    )


_WIDEST = 110
_SPECIAL = frozenset(",[]{}#")
_Comments = Mapping[Path, Sequence[str]]


def _format_config(data: Mapping[str, object], comments: _Comments, opening: Sequence[str]) -> str:
    """Format a configuration as YAML with comments, in the order of the schema."""
    order = {name: place for place, name in enumerate(fields_by_name(Fields))}
    fields = dict(sorted(data.items(), key=lambda item: order.get(item[0], len(order))))
    lines = [line for text in opening for line in _format_comment(text, "")]
    lines += [f"apiVersion: {NATIVE_VERSION}", f"kind: {NATIVE_KIND}", *_format_mapping(fields, comments, (), "")]
    return "\n".join(lines) + "\n"


def _format_mapping(data: Mapping[str, object], comments: _Comments, at: Path, indent: str) -> Iterator[str]:
    for name, value in data.items():
        path = (*at, name)
        for text in comments.get(path, ()):
            yield from _format_comment(text, indent)
        if isinstance(value, dict) and value:
            yield f"{indent}{_format_key(name)}:"
            yield from _format_mapping(value, comments, path, indent + "  ")
        elif isinstance(value, list) and value and all(isinstance(each, dict) and each for each in value):
            yield f"{indent}{_format_key(name)}:"
            for index, each in enumerate(value):
                inside = [*_format_mapping(each, comments, (*path, index), indent + "    ")]
                yield f"{indent}  - {inside[0].strip()}"
                yield from inside[1:]
        else:
            yield from _format_leaf(name, value, indent)


def _format_leaf(name: str, value: object, indent: str) -> Iterator[str]:
    texts = [dump_document({"x": each}).rstrip("\n") for each in value] if isinstance(value, list) else []
    if texts and not any("\n" in text for text in texts):
        items = [text.removeprefix("x: ") for text in texts]
        flat = f"{indent}{_format_key(name)}: [{', '.join(items)}]"
        if len(flat) <= _WIDEST and not any(set(item) & _SPECIAL for item in items):
            yield flat
            return
        yield f"{indent}{_format_key(name)}:"
        yield from (f"{indent}  - {item}" for item in items)
        return
    yield from (indent + line for line in dump_document({name: value}).rstrip("\n").splitlines())


def _format_key(name: str) -> str:
    return dump_document({name: None}).rstrip("\n").removesuffix(": null")


def _format_comment(text: str, indent: str) -> Iterator[str]:
    yield from textwrap.wrap(text, _WIDEST, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


_PLUGINS = (*descheduler_plugins.PLUGINS, *koordinator.PLUGINS)
_BESIDES = {"LowNodeUtilization": ("LoadBalancing",)}
STRATEGIES = {
    plugin.name: (plugin.strategy, *_BESIDES.get(plugin.name, ()))
    for plugin in _PLUGINS
    if plugin.strategy and plugin.strategy != plugin.name
}
"""Our strategies by the plugin's name."""


def _collect_fields() -> dict[str, list[str]]:
    found = {"resourceWeights": ["weights"]}
    plugins = (*_PLUGINS, descheduler_plugins.EVICTOR)
    for option in (*(each for plugin in plugins for each in plugin.options), *TOP):
        for path in option.here:
            if (name := path.rpartition(".")[2]) != option.name:
                found.setdefault(option.name, []).append(name)
    return found


FIELDS = _collect_fields()
"""Our fields by the option's name."""


def suggest_field(name: str, fields: Collection[str]) -> str:
    """Return `, here it is maxAge;` if an option of another tool has this name, and a counterpart among the fields."""
    ours = [each for each in dict.fromkeys(FIELDS.get(name, ())) if each in fields]
    return f", here it is {' and '.join(ours)};" if ours else ""


def suggest_strategy(name: str, known: Collection[str]) -> str:
    """Return `, here it is NodeTaints;` if a plugin of another tool has this name, and a known counterpart."""
    ours = [each for each in STRATEGIES.get(name, ()) if each in known]
    return f", here it is {' and '.join(ours)};" if ours else ""

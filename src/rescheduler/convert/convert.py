"""Where a policy is found: a document of its own, or carried by a ConfigMap, a list, or values of descheduler's chart.

`converting` calls `scan_text`. Values of the chart have the policy under `deschedulerPolicy`, without apiVersion and
kind, and may be within what installs the chart: Flux's HelmRelease, Argo CD's Application. Whatever else is in the file
is named, so that nobody believes it was read.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rescheduler.config.document import DocumentError, dump_document, read_documents
from rescheduler.config.errors import ConfigError, ConfigErrors, Finding, Loc, format_path, quote
from rescheduler.config.loader import SCHEDULER_KIND
from rescheduler.config.schema import NATIVE_KIND, NATIVE_VERSION, Fields
from rescheduler.config.validate import InvalidError, Known, check, fields_by_name
from rescheduler.convert.builder import ConfigBuilder, Path, Remark, RemarkKind
from rescheduler.convert.descheduler import convert_policy
from rescheduler.convert.koordinator import convert_koordinator
from rescheduler.convert.native import convert_seed
from rescheduler.convert.values import InputValue, duration

DESCHEDULER = "DeschedulerPolicy"
KOORDINATOR = "DeschedulerConfiguration"
VERSION = "descheduler/v1alpha2"
OLD_VERSION = "descheduler/v1alpha1"
KINDS = (DESCHEDULER, KOORDINATOR, SCHEDULER_KIND)
_IN_CHART = "deschedulerPolicy"
_OPERATORS = ("KubeDescheduler", "Descheduler")
_CURES = {
    NATIVE_KIND: "it is in the native form already",
    **dict.fromkeys(_OPERATORS, "convert the ConfigMap that its operator writes, for that has the policy"),
}
_MOST_KINDS = 5  # that are named


@dataclass(frozen=True, slots=True)
class FoundPolicy:
    """A policy."""

    item: InputValue
    chart: InputValue | None = None
    """The values of the chart that it is in."""

    @property
    def kind(self) -> str:
        return str(self.item.child("kind").value)


@dataclass(slots=True)
class DocumentScan:
    """The documents of a file that are of interest, and what is wrong with it."""

    policies: list[FoundPolicy] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    others: list[object] = field(default_factory=list)
    """The kinds of documents that neither are nor carry a policy."""
    findings: list[Finding] = field(default_factory=list)

    def besides(self) -> str:
        """How many documents have nothing to do with a policy, and of which kinds; each kind is named once."""
        if not self.others:
            return ""
        count, kinds = len(self.others), sorted({quote(kind) if kind is not None else "none" for kind in self.others})
        named, more = ", ".join(kinds[:_MOST_KINDS]), len(kinds) - _MOST_KINDS
        what = "1 document of another kind" if count == 1 else f"{count} documents of other kinds"
        cures = [f"; {kind}: {cure}" for kind, cure in _CURES.items() if kind in self.others]
        return f"{what}: {named}" + (f" and {more} more" if more > 0 else "") + "".join(cures)


def scan_text(text: str, at: Loc, found: DocumentScan) -> None:
    """All documents of a text."""
    try:
        documents = read_documents(text)
    except DocumentError as error:
        found.findings.append(Finding((*at, *error.finding.loc), error.finding.message))
        return
    for document in documents:
        found.findings += [Finding((*at, *each.loc), each.message) for each in document.findings]
        _sort_out(InputValue(document.data, at), found)


def _sort_out(item: InputValue, found: DocumentScan) -> None:
    """Keep what is a policy, look into what may carry one, and name the rest."""
    document = item.value if isinstance(item.value, dict) else {}
    kind = document.get("kind")
    if kind in KINDS:
        found.policies.append(FoundPolicy(item))
    elif kind == "ConfigMap":
        _look_into_entries(item, found)
    elif kind in ("List", "ConfigMapList"):
        items = item.child("items")
        for index, each in enumerate(items.value if isinstance(items.value, list) else ()):
            _sort_out(InputValue(each, (*items.loc, index)), found)
    elif carriers := [*_within(item)]:
        for each in carriers:
            if isinstance(each.value, str):
                scan_text(each.value, each.loc, found)
            else:
                found.policies.append(_of_chart(each))
    else:
        found.notes.append(_named(item, kind))
        found.others.append(kind)


def _look_into_entries(item: InputValue, found: DocumentScan) -> None:
    """What a ConfigMap holds."""
    data = item.child("data")
    entries = data.value if isinstance(data.value, dict) else {}
    carrying = [name for name, text in entries.items() if _may_carry(text)]
    for name, text in entries.items():
        if name in carrying:
            scan_text(text, (*data.loc, name), found)
        else:
            found.notes.append(f"{format_path((*data.loc, name))} of a ConfigMap is no policy")
    if not carrying:
        found.others.append("ConfigMap")


def _may_carry(text: object) -> bool:
    return isinstance(text, str) and (_IN_CHART in text or any(each in text for each in KINDS))


def _named(item: InputValue, kind: object) -> str:
    name = f"{quote(kind)} is " if kind is not None else "a document without kind is "
    cure = f"; {_CURES[kind]}" if isinstance(kind, str) and kind in _CURES else ""
    return f"{format_path(item.loc)}: {name}no policy{cure}".removeprefix(": ")


def _within(item: InputValue) -> Iterator[InputValue]:
    """Values of the chart, wherever they are: as mappings, or as text under a name such as `values`."""
    value = item.value
    if isinstance(value, dict):
        if isinstance(value.get(_IN_CHART), dict):
            yield item
            return
        for name in value:
            yield from _within(item.child(name))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _within(InputValue(each, (*item.loc, index)))
    elif isinstance(value, str) and str(item.loc[-1]).startswith("values") and f"{_IN_CHART}:" in value:
        yield item


def _of_chart(values: InputValue) -> FoundPolicy:
    policy = values.child(_IN_CHART)
    body = policy.value if isinstance(policy.value, dict) else {}
    version = values.child(f"{_IN_CHART}APIVersion").value
    if version is None:  # the chart's default changed when descheduler stopped to read the old one
        version = OLD_VERSION if body.get("strategies") and not body.get("profiles") else VERSION
    return FoundPolicy(InputValue({**body, "apiVersion": version, "kind": DESCHEDULER}, policy.loc), values)


def convert_chart(builder: ConfigBuilder, values: InputValue) -> None:
    """What values of the chart say that is no part of the policy, and counts all the same."""
    interval, schedule = values.child("deschedulingInterval"), values.child("schedule")
    if values.child("kind").value == "Deployment":
        if interval.value is not None:
            duration("reschedulingInterval")(builder, interval)
    elif schedule.value is not None:
        builder.miss(schedule.loc, "there is no CronJob: the controller runs all the time", _OFTEN)
    dry = values.child("cmdOptions").child("dry-run")
    if dry.value not in (None, False):
        why = "it is a dry run there, and here that is a flag of the command"
        builder.miss(dry.loc, why, "rescheduler run --dry-run", limits=True)
    policy = f"{_IN_CHART}, {_IN_CHART}APIVersion, deschedulingInterval, schedule and cmdOptions.dry-run"
    builder.settled(values.loc or (_IN_CHART,), f"of the values these are read: {policy}; the rest is the chart's own")


_OFTEN = "reschedulingInterval, 30s by default, and when.windows"


_WIDEST = 110
_SPECIAL = frozenset(",[]{}#")
Comments = Mapping[Path, Sequence[str]]


def format_config(data: Mapping[str, object], comments: Comments, opening: Sequence[str]) -> str:
    """The text of a configuration."""
    order = {name: place for place, name in enumerate(fields_by_name(Fields))}
    fields = dict(sorted(data.items(), key=lambda item: order.get(item[0], len(order))))
    lines = [line for text in opening for line in _comment(text, "")]
    lines += [f"apiVersion: {NATIVE_VERSION}", f"kind: {NATIVE_KIND}", *_mapping(fields, comments, (), "")]
    return "\n".join(lines) + "\n"


def _mapping(data: Mapping[str, object], comments: Comments, at: Path, indent: str) -> Iterator[str]:
    for name, value in data.items():
        path = (*at, name)
        for text in comments.get(path, ()):
            yield from _comment(text, indent)
        if isinstance(value, dict) and value:
            yield f"{indent}{_key(name)}:"
            yield from _mapping(value, comments, path, indent + "  ")
        elif isinstance(value, list) and value and all(isinstance(each, dict) and each for each in value):
            yield f"{indent}{_key(name)}:"
            for index, each in enumerate(value):
                inside = [*_mapping(each, comments, (*path, index), indent + "    ")]
                yield f"{indent}  - {inside[0].strip()}"
                yield from inside[1:]
        else:
            yield from _leaf(name, value, indent)


def _leaf(name: str, value: object, indent: str) -> Iterator[str]:
    texts = [dump_document({"x": each}).rstrip("\n") for each in value] if isinstance(value, list) else []
    if texts and not any("\n" in text for text in texts):
        items = [text.removeprefix("x: ") for text in texts]
        flat = f"{indent}{_key(name)}: [{', '.join(items)}]"
        if len(flat) <= _WIDEST and not any(set(item) & _SPECIAL for item in items):
            yield flat
            return
        yield f"{indent}{_key(name)}:"
        yield from (f"{indent}  - {item}" for item in items)
        return
    yield from (indent + line for line in dump_document({name: value}).rstrip("\n").splitlines())


def _key(name: str) -> str:
    return dump_document({name: None}).rstrip("\n").removesuffix(": null")


def _comment(text: str, indent: str) -> Iterator[str]:
    yield from textwrap.wrap(text, _WIDEST, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


_CAREFUL = ("kube-system", "kube-public")
_USUAL_LIMIT = 10
_USUAL_GRACE = "30s"
_USUAL_THRESHOLD = 80
_GRACE = "the least that an evicted pod has; a longer one of its own holds, as it does there"


def be_careful(builder: ConfigBuilder) -> None:
    """Write out where the other tool's defaults differ: what is stricter of the two holds."""
    enabled = builder.data.get("enabledStrategies")
    names = [*enabled] if isinstance(enabled, list) else []
    pools = builder.get(("pools",))
    for pool in pools if isinstance(pools, list) else ():
        names += pool.get("enabledStrategies", ())
    _packing(builder, names)
    if builder.get(("migration", "evictionGracePeriod")) is None:
        builder.put(("migration", "evictionGracePeriod"), _USUAL_GRACE, (), _GRACE)
    failed = ("strategies", "FailedPods", "withoutController")
    if builder.get(failed) is not None and "FailedPods" not in names:
        loc = builder.origins[failed]
        builder.drop(failed)
        builder.settled(loc, "RemoveFailedPods is not enabled, and failed pods are not touched")
    if not builder.get(("strategies", "FailedPods")) and isinstance(builder.get(("strategies",)), dict):
        builder.drop(("strategies", "FailedPods"))
    if builder.get(("strategies",)) == {}:
        builder.drop(("strategies",))
    if builder.get(("filters", "withoutController")) is None:
        comment = "pods that nobody manages are left alone there; true moves them, by a copy"
        builder.put(("filters", "withoutController"), value=False, loc=(), comment=comment)
    if "excludedNamespaces" not in builder.data:
        kept = [name for name in _CAREFUL if name not in builder.named]
        comment = "not excluded there; name only those whose pods are to stay"
        builder.put(("excludedNamespaces",), kept, (), comment)
    if "maxReschedulePods" not in builder.data:
        if {*names} == {"Consolidation"}:
            comment = "not limited there; a node is emptied in one plan, or not at all (see maxNodesPerPlan)"
            builder.put(("maxReschedulePods",), "unlimited", (), comment)
        else:
            builder.put(("maxReschedulePods",), _USUAL_LIMIT, (), "in one plan; not limited there")
            if "Consolidation" in names:
                builder.say(
                    ("maxReschedulePods",),
                    "a node with more pods is never emptied; a higher limit is one of all strategies",
                )


def _packing(builder: ConfigBuilder, names: Collection[str]) -> None:
    """What holds here for nodes that are emptied, and is nowhere said there."""
    if "Consolidation" not in names:
        return
    for name in ("cpuThreshold", "memoryThreshold"):
        if name not in builder.data and "thresholdMode" not in builder.data:
            builder.put((name,), _USUAL_THRESHOLD, (), "no node is filled above this; not so there")
    path = ("limits", "perNodeOut")
    if builder.get(path) is not None:
        why = f"a node is emptied in one plan, so one with more pods than {builder.get(path)} never is"
        builder.miss(builder.origins[path], why, "limits.perNodeOut, of all strategies")


_TOOLS = {DESCHEDULER: "descheduler", KOORDINATOR: "koordinator"}
_HARMLESS = ("usage", "web", "leaderElection", "clientConnection", "reschedulingInterval")
"""Fields without which no more pods are moved."""
_Halt = tuple[Loc, str]
"""Where something is wrong because of which nothing is moved, and what."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """What came of it."""

    text: str
    """The configuration, as YAML with comments."""
    remarks: tuple[Remark, ...]
    taken: frozenset[Loc]
    """The places of the input whose values are in the configuration."""
    notes: tuple[str, ...] = ()
    """What else was in the file."""


def convert_text(text: str, source: str, known: Known) -> Conversion:
    """The configuration that says the same; ConfigErrors if the text holds none, or several."""
    found = DocumentScan()
    scan_text(text, (), found)
    policy = _the_one(found, source)
    builder, kind, tool = ConfigBuilder(), policy.kind, _TOOLS.get(policy.kind, "")
    if kind == DESCHEDULER:
        convert_policy(builder, policy.item)
    elif kind == KOORDINATOR:
        convert_koordinator(builder, policy.item)
    else:
        tool, wrong = convert_seed(builder, policy.item)
        if wrong:
            raise _refused(source, wrong)
    if policy.chart is not None:
        convert_chart(builder, policy.chart)
    halts = _halts_for_errors(builder, within_plugins=kind == SCHEDULER_KIND)
    if kind != SCHEDULER_KIND:
        be_careful(builder)
    halts += _make_sound(builder, known)
    for loc, why in halts:
        builder.halt(loc, why)
    opening = [f"Converted from {source}, a {kind} of {tool}.", *_opening(kind)]
    text = format_config(builder.data, builder.comments, opening)
    return Conversion(text, tuple(builder.remarks), frozenset(builder.taken), tuple(found.notes))


def _opening(kind: str) -> Iterator[str]:
    if kind != SCHEDULER_KIND:
        yield (
            "Guards that are not known there keep their defaults: minPodAge, coolDown, Jobs (allow.jobs) and single "
            "replicas that cannot be handed off (allow.singleReplica). See docs/coming-over.md."
        )


def _the_one(found: DocumentScan, source: str) -> FoundPolicy:
    findings = [*found.findings]
    if not findings and not found.policies:
        kinds = " or ".join((f"{DESCHEDULER} ({VERSION})", f"{KOORDINATOR} (koordinator)", SCHEDULER_KIND))
        besides = found.besides()
        findings.append(Finding((), f"holds no {kinds}" + (f"; it holds {besides}" if besides else "")))
    if len(found.policies) > 1:
        places = ", ".join(f"{each.kind} {format_path(each.item.loc)}".strip() for each in found.policies)
        findings.append(Finding((), f"holds {len(found.policies)} policies ({places}): give one at a time"))
    if findings:
        raise _refused(source, findings)
    (policy,) = found.policies
    version = policy.item.child("apiVersion").value
    if policy.kind != SCHEDULER_KIND and version != VERSION:
        if version == OLD_VERSION:
            cure = f"descheduler reads it no more: bring it to {VERSION} first (profiles in place of strategies)"
        else:
            cure = f"only {VERSION} can be converted"
        raise _refused(source, [Finding((*policy.item.loc, "apiVersion"), f"is {quote(version)}: {cure}")])
    return policy


def _refused(source: str, findings: list[Finding]) -> ConfigErrors:
    return ConfigErrors([ConfigError(source, format_path(each.loc), each.message) for each in findings])


def _halts_for_errors(builder: ConfigBuilder, *, within_plugins: bool) -> list[_Halt]:
    """Why nothing may be moved without what is not understood or not possible; `Plugin.convert` sees to plugins."""
    return [
        (
            remark.loc,
            "it is not known, and may limit what is moved" if remark.kind is RemarkKind.UNKNOWN else remark.why,
        )
        for remark in builder.remarks
        if remark.is_limit and (within_plugins or "pluginConfig" not in remark.loc)
    ]


def _make_sound(builder: ConfigBuilder, known: Known) -> list[_Halt]:
    """Take out what our own checks refuse, until they refuse nothing; why nothing may be moved then."""
    halts: list[_Halt] = []
    while True:
        try:
            check(builder.data, known)
        except InvalidError as error:
            halts += _take_out(builder, error.findings[0])
        else:
            return halts


def _take_out(builder: ConfigBuilder, finding: Finding) -> Iterator[_Halt]:
    path: Path = finding.loc
    while path and builder.get(path) is None:
        path = path[:-1]
    if not path:
        raise ValueError(f"{format_path(finding.loc)}: {finding.message}")  # a table of ours is wrong
    loc = _origin(builder, path)
    builder.wrong(loc, f"{format_path(finding.loc)} would not be accepted: {finding.message}")
    if path[0] == "strategies" and len(path) > 1:
        builder.drop(path[:2])
        builder.switch_off(str(path[1]), loc, "it cannot be set up as it is there")
    else:
        builder.drop(path)
        if path[0] not in _HARMLESS:
            yield loc, finding.message


def _origin(builder: ConfigBuilder, path: Path) -> Loc:
    """Where in the input a field comes from, or something of it."""
    if path in builder.origins:
        return builder.origins[path]
    return next(
        (loc for each, loc in builder.origins.items() if each[: len(path)] == path or path[: len(each)] == each), ()
    )

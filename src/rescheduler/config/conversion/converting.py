"""From the text of another tool's configuration to ours: `converted`, the whole way.

`cli.convert` calls it. A file may hold several documents, and a ConfigMap may carry the policy, as charts install it;
exactly one policy is looked for. The result always loads: what our own checks refuse is taken out again and told, and
where that would have more pods moved than was wanted, nothing is moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rescheduler.config.checks import InvalidError, Known, check
from rescheduler.config.conversion.draft import Draft, Path, Remark, Sort
from rescheduler.config.conversion.koordinator import convert_koordinator
from rescheduler.config.conversion.options import Given
from rescheduler.config.conversion.policy import convert_policy
from rescheduler.config.conversion.seed import convert_seed
from rescheduler.config.conversion.writing import written
from rescheduler.config.document import DocumentError, read_documents
from rescheduler.config.errors import ConfigError, ConfigErrors, Finding, Loc, path_of, shown
from rescheduler.config.forms import NATIVE_KIND, SEED_KIND

DESCHEDULER = "DeschedulerPolicy"
KOORDINATOR = "DeschedulerConfiguration"
VERSION = "descheduler/v1alpha2"
_TOOLS = {DESCHEDULER: "descheduler", KOORDINATOR: "koordinator", SEED_KIND: "the plugin Rescheduler"}
_CAREFUL = ("kube-system", "kube-public")
_USUAL_LIMIT = 10
_HARMLESS = ("usage", "web", "leaderElection", "clientConnection", "reschedulingInterval")
"""Fields without which no more pods are moved."""


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


@dataclass(slots=True)
class _Found:
    """The documents of a file that are of interest, and what is wrong with it."""

    policies: list[Given] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def converted(text: str, source: str, known: Known) -> Conversion:
    """The configuration that says the same; ConfigErrors if the text holds none, or several."""
    found = _Found()
    _look_into(text, (), found)
    policy = _the_one(found, source)
    draft = Draft()
    kind = _kind(policy)
    if kind == DESCHEDULER:
        convert_policy(draft, policy)
    elif kind == KOORDINATOR:
        convert_koordinator(draft, policy)
    else:
        wrong = convert_seed(draft, policy)
        if wrong:
            raise _refused(source, wrong)
    if kind != SEED_KIND:
        _halt_for_errors(draft)
        _be_careful(draft)
    _make_sound(draft, known)
    opening = [f"Converted from {source}, a {kind} of {_TOOLS[kind]}.", *_opening(kind)]
    text = written(draft.data, draft.comments, opening)
    return Conversion(text, tuple(draft.remarks), frozenset(draft.taken), tuple(found.notes))


def _opening(kind: str) -> Iterator[str]:
    if kind != SEED_KIND:
        yield (
            "Guards that are not known there keep their defaults: minPodAge, coolDown, Jobs (allow.jobs) and single "
            "replicas that cannot be handed off (allow.singleReplica). See docs/coming-over.md."
        )


def _look_into(text: str, at: Loc, found: _Found) -> None:
    try:
        documents = read_documents(text)
    except DocumentError as error:
        found.findings.append(Finding((*at, *error.finding.loc), error.finding.message))
        return
    for document in documents:
        found.findings += [Finding((*at, *each.loc), each.message) for each in document.findings]
        _sort_out(Given(document.data, at), found)


def _sort_out(given: Given, found: _Found) -> None:
    """Keep what is a policy, look into what may carry one, and name the rest."""
    document = given.value if isinstance(given.value, dict) else {}
    kind = document.get("kind")
    if kind in _TOOLS:
        found.policies.append(given)
    elif kind == "ConfigMap":
        data = given.inner("data")
        for name, text in data.value.items() if isinstance(data.value, dict) else ():
            if isinstance(text, str) and "kind" in text and any(each in text for each in _TOOLS):
                _look_into(text, (*data.loc, name), found)
            else:
                found.notes.append(f"{path_of((*data.loc, name))} of a ConfigMap is no policy")
    elif kind in ("List", "ConfigMapList"):
        items = given.inner("items")
        for index, each in enumerate(items.value if isinstance(items.value, list) else ()):
            _sort_out(Given(each, (*items.loc, index)), found)
    else:
        name = f"{shown(kind)} is " if kind is not None else "a document without kind is "
        cure = "; it is in the native form already" if kind == NATIVE_KIND else ""
        found.notes.append(f"{path_of(given.loc)}: {name}no policy{cure}".removeprefix(": "))


def _the_one(found: _Found, source: str) -> Given:
    findings = [*found.findings]
    if not findings and not found.policies:
        kinds = " or ".join((f"{DESCHEDULER} ({VERSION})", f"{KOORDINATOR} (koordinator)", SEED_KIND))
        seen = f" ({'; '.join(found.notes)})" if found.notes else ""
        findings.append(Finding((), f"holds no {kinds}{seen}"))
    if len(found.policies) > 1:
        places = ", ".join(f"{_kind(each)} {path_of(each.loc)}".strip() for each in found.policies)
        findings.append(Finding((), f"holds {len(found.policies)} policies ({places}): give one at a time"))
    if findings:
        raise _refused(source, findings)
    (policy,) = found.policies
    version = policy.inner("apiVersion").value
    if _kind(policy) != SEED_KIND and version != VERSION:
        if version == "descheduler/v1alpha1":
            cure = f"descheduler reads it no more: bring it to {VERSION} first (profiles in place of strategies)"
        else:
            cure = f"only {VERSION} can be converted"
        raise _refused(source, [Finding((*policy.loc, "apiVersion"), f"is {shown(version)}: {cure}")])
    return policy


def _kind(policy: Given) -> str:
    return str(policy.inner("kind").value)


def _refused(source: str, findings: list[Finding]) -> ConfigErrors:
    return ConfigErrors([ConfigError(source, path_of(each.loc), each.message) for each in findings])


def _halt_for_errors(draft: Draft) -> None:
    """Of what is not understood outside of plugins nobody knows what it would have forbidden."""
    for remark in draft.remarks:
        if remark.sort is Sort.WRONG and "pluginConfig" not in remark.loc:
            draft.halt(remark.loc, remark.why)


def _be_careful(draft: Draft) -> None:
    """Write out where the other tool's defaults differ: what is stricter of the two holds."""
    enabled = draft.data.get("enabledStrategies")
    names = [*enabled] if isinstance(enabled, list) else []
    pools = draft.get(("pools",))
    for pool in pools if isinstance(pools, list) else ():
        names += pool.get("enabledStrategies", ())
    failed = ("strategies", "FailedPods", "withoutController")
    if draft.get(failed) is not None and "FailedPods" not in names:
        loc = draft.origins[failed]
        draft.drop(failed)
        draft.settled(loc, "RemoveFailedPods is not enabled, and failed pods are not touched")
    if not draft.get(("strategies", "FailedPods")) and isinstance(draft.get(("strategies",)), dict):
        draft.drop(("strategies", "FailedPods"))
    if draft.get(("strategies",)) == {}:
        draft.drop(("strategies",))
    if draft.get(("filters", "withoutController")) is None:
        comment = "pods that nobody manages are left alone there; true moves them, by a copy"
        draft.put(("filters", "withoutController"), value=False, loc=(), comment=comment)
    if "excludedNamespaces" not in draft.data:
        kept = [name for name in _CAREFUL if name not in draft.named]
        comment = "not excluded there; name only those whose pods are to stay"
        draft.put(("excludedNamespaces",), kept, (), comment)
    if "maxReschedulePods" not in draft.data:
        if "Consolidation" in names:
            comment = "not limited there; a node is emptied in one plan, or not at all (see maxNodesPerPlan)"
            draft.put(("maxReschedulePods",), "unlimited", (), comment)
        else:
            draft.put(("maxReschedulePods",), _USUAL_LIMIT, (), "in one plan; not limited there")


def _make_sound(draft: Draft, known: Known) -> None:
    """Take out what our own checks refuse, until they refuse nothing."""
    while True:
        try:
            check(draft.data, known)
        except InvalidError as error:
            _take_out(draft, error.findings[0])
        else:
            return


def _take_out(draft: Draft, finding: Finding) -> None:
    path: Path = finding.loc
    while path and draft.get(path) is None:
        path = path[:-1]
    if not path:
        raise ValueError(f"{path_of(finding.loc)}: {finding.message}")  # a table of ours is wrong
    loc = _origin(draft, path)
    draft.wrong(loc, f"{path_of(finding.loc)} would not be accepted: {finding.message}")
    if path[0] == "strategies" and len(path) > 1:
        draft.drop(path[:2])
        draft.switch_off(str(path[1]), loc, "it cannot be set up as it is there")
    else:
        draft.drop(path)
        if path[0] not in _HARMLESS:
            draft.halt(loc, finding.message)


def _origin(draft: Draft, path: Path) -> Loc:
    """Where in the input a field comes from, or something of it."""
    if path in draft.origins:
        return draft.origins[path]
    return next(
        (loc for each, loc in draft.origins.items() if each[: len(path)] == path or path[: len(each)] == each), ()
    )

"""From the text of another tool's configuration to ours: `converted`, the whole way.

`cli.convert` calls it. Exactly one policy is looked for in a file, wherever it may be (`carriers`). The result
always loads: what our own checks refuse is taken out again and told, and where that would have more pods moved than was
wanted, nothing is moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rescheduler.config.checks import InvalidError, Known, check
from rescheduler.config.conversion.carriers import (
    DESCHEDULER,
    KOORDINATOR,
    OLD_VERSION,
    VERSION,
    Carried,
    Found,
    convert_chart,
    look_into,
)
from rescheduler.config.conversion.defaults import be_careful
from rescheduler.config.conversion.draft import Draft, Path, Remark, Sort
from rescheduler.config.conversion.koordinator import convert_koordinator
from rescheduler.config.conversion.policy import convert_policy
from rescheduler.config.conversion.seed import convert_seed
from rescheduler.config.conversion.writing import written
from rescheduler.config.errors import ConfigError, ConfigErrors, Finding, Loc, path_of, shown
from rescheduler.config.forms import SEED_KIND

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


def converted(text: str, source: str, known: Known) -> Conversion:
    """The configuration that says the same; ConfigErrors if the text holds none, or several."""
    found = Found()
    look_into(text, (), found)
    policy = _the_one(found, source)
    draft, kind, tool = Draft(), policy.kind, _TOOLS.get(policy.kind, "")
    if kind == DESCHEDULER:
        convert_policy(draft, policy.given)
    elif kind == KOORDINATOR:
        convert_koordinator(draft, policy.given)
    else:
        tool, wrong = convert_seed(draft, policy.given)
        if wrong:
            raise _refused(source, wrong)
    if policy.chart is not None:
        convert_chart(draft, policy.chart)
    halts = _halts_for_errors(draft, within_plugins=kind == SEED_KIND)
    if kind != SEED_KIND:
        be_careful(draft)
    halts += _make_sound(draft, known)
    for loc, why in halts:
        draft.halt(loc, why)
    opening = [f"Converted from {source}, a {kind} of {tool}.", *_opening(kind)]
    text = written(draft.data, draft.comments, opening)
    return Conversion(text, tuple(draft.remarks), frozenset(draft.taken), tuple(found.notes))


def _opening(kind: str) -> Iterator[str]:
    if kind != SEED_KIND:
        yield (
            "Guards that are not known there keep their defaults: minPodAge, coolDown, Jobs (allow.jobs) and single "
            "replicas that cannot be handed off (allow.singleReplica). See docs/coming-over.md."
        )


def _the_one(found: Found, source: str) -> Carried:
    findings = [*found.findings]
    if not findings and not found.policies:
        kinds = " or ".join((f"{DESCHEDULER} ({VERSION})", f"{KOORDINATOR} (koordinator)", SEED_KIND))
        besides = found.besides()
        findings.append(Finding((), f"holds no {kinds}" + (f"; it holds {besides}" if besides else "")))
    if len(found.policies) > 1:
        places = ", ".join(f"{each.kind} {path_of(each.given.loc)}".strip() for each in found.policies)
        findings.append(Finding((), f"holds {len(found.policies)} policies ({places}): give one at a time"))
    if findings:
        raise _refused(source, findings)
    (policy,) = found.policies
    version = policy.given.inner("apiVersion").value
    if policy.kind != SEED_KIND and version != VERSION:
        if version == OLD_VERSION:
            cure = f"descheduler reads it no more: bring it to {VERSION} first (profiles in place of strategies)"
        else:
            cure = f"only {VERSION} can be converted"
        raise _refused(source, [Finding((*policy.given.loc, "apiVersion"), f"is {shown(version)}: {cure}")])
    return policy


def _refused(source: str, findings: list[Finding]) -> ConfigErrors:
    return ConfigErrors([ConfigError(source, path_of(each.loc), each.message) for each in findings])


def _halts_for_errors(draft: Draft, *, within_plugins: bool) -> list[_Halt]:
    """Why nothing may be moved without what is not understood or not possible; `Plugin.convert` sees to plugins."""
    return [
        (remark.loc, "it is not known, and may limit what is moved" if remark.sort is Sort.UNKNOWN else remark.why)
        for remark in draft.remarks
        if remark.is_limit and (within_plugins or "pluginConfig" not in remark.loc)
    ]


def _make_sound(draft: Draft, known: Known) -> list[_Halt]:
    """Take out what our own checks refuse, until they refuse nothing; why nothing may be moved then."""
    halts: list[_Halt] = []
    while True:
        try:
            check(draft.data, known)
        except InvalidError as error:
            halts += _take_out(draft, error.findings[0])
        else:
            return halts


def _take_out(draft: Draft, finding: Finding) -> Iterator[_Halt]:
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
            yield loc, finding.message


def _origin(draft: Draft, path: Path) -> Loc:
    """Where in the input a field comes from, or something of it."""
    if path in draft.origins:
        return draft.origins[path]
    return next(
        (loc for each, loc in draft.origins.items() if each[: len(path)] == path or path[: len(each)] == each), ()
    )

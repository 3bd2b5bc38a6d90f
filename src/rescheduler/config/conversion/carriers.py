"""Where a policy is found: a document of its own, or carried by a ConfigMap, a list, or values of descheduler's chart.

`converting` calls `look_into`. Values of the chart have the policy under `deschedulerPolicy`, without apiVersion and
kind, and may be within what installs the chart: Flux's HelmRelease, Argo CD's Application. Whatever else is in the file
is named, so that nobody believes it was read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rescheduler.config.conversion.draft import Draft
from rescheduler.config.conversion.options import Given
from rescheduler.config.conversion.values import duration
from rescheduler.config.document import DocumentError, read_documents
from rescheduler.config.errors import Finding, Loc, path_of, shown
from rescheduler.config.forms import NATIVE_KIND, SEED_KIND

DESCHEDULER = "DeschedulerPolicy"
KOORDINATOR = "DeschedulerConfiguration"
VERSION = "descheduler/v1alpha2"
OLD_VERSION = "descheduler/v1alpha1"
KINDS = (DESCHEDULER, KOORDINATOR, SEED_KIND)
_IN_CHART = "deschedulerPolicy"
_OPERATORS = ("KubeDescheduler", "Descheduler")
_CURES = {
    NATIVE_KIND: "it is in the native form already",
    **dict.fromkeys(_OPERATORS, "convert the ConfigMap that its operator writes, for that has the policy"),
}
_MOST_KINDS = 5  # that are named


@dataclass(frozen=True, slots=True)
class Carried:
    """A policy."""

    given: Given
    chart: Given | None = None
    """The values of the chart that it is in."""

    @property
    def kind(self) -> str:
        return str(self.given.inner("kind").value)


@dataclass(slots=True)
class Found:
    """The documents of a file that are of interest, and what is wrong with it."""

    policies: list[Carried] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    others: list[object] = field(default_factory=list)
    """The kinds of documents that neither are nor carry a policy."""
    findings: list[Finding] = field(default_factory=list)

    def besides(self) -> str:
        """How many documents have nothing to do with a policy, and of which kinds; each kind is named once."""
        if not self.others:
            return ""
        count, kinds = len(self.others), sorted({shown(kind) if kind is not None else "none" for kind in self.others})
        named, more = ", ".join(kinds[:_MOST_KINDS]), len(kinds) - _MOST_KINDS
        what = "1 document of another kind" if count == 1 else f"{count} documents of other kinds"
        cures = [f"; {kind}: {cure}" for kind, cure in _CURES.items() if kind in self.others]
        return f"{what}: {named}" + (f" and {more} more" if more > 0 else "") + "".join(cures)


def look_into(text: str, at: Loc, found: Found) -> None:
    """All documents of a text."""
    try:
        documents = read_documents(text)
    except DocumentError as error:
        found.findings.append(Finding((*at, *error.finding.loc), error.finding.message))
        return
    for document in documents:
        found.findings += [Finding((*at, *each.loc), each.message) for each in document.findings]
        _sort_out(Given(document.data, at), found)


def _sort_out(given: Given, found: Found) -> None:
    """Keep what is a policy, look into what may carry one, and name the rest."""
    document = given.value if isinstance(given.value, dict) else {}
    kind = document.get("kind")
    if kind in KINDS:
        found.policies.append(Carried(given))
    elif kind == "ConfigMap":
        _look_into_entries(given, found)
    elif kind in ("List", "ConfigMapList"):
        items = given.inner("items")
        for index, each in enumerate(items.value if isinstance(items.value, list) else ()):
            _sort_out(Given(each, (*items.loc, index)), found)
    elif carriers := [*_within(given)]:
        for each in carriers:
            if isinstance(each.value, str):
                look_into(each.value, each.loc, found)
            else:
                found.policies.append(_of_chart(each))
    else:
        found.notes.append(_named(given, kind))
        found.others.append(kind)


def _look_into_entries(given: Given, found: Found) -> None:
    """What a ConfigMap holds."""
    data = given.inner("data")
    entries = data.value if isinstance(data.value, dict) else {}
    carrying = [name for name, text in entries.items() if _may_carry(text)]
    for name, text in entries.items():
        if name in carrying:
            look_into(text, (*data.loc, name), found)
        else:
            found.notes.append(f"{path_of((*data.loc, name))} of a ConfigMap is no policy")
    if not carrying:
        found.others.append("ConfigMap")


def _may_carry(text: object) -> bool:
    return isinstance(text, str) and (_IN_CHART in text or any(each in text for each in KINDS))


def _named(given: Given, kind: object) -> str:
    name = f"{shown(kind)} is " if kind is not None else "a document without kind is "
    cure = f"; {_CURES[kind]}" if isinstance(kind, str) and kind in _CURES else ""
    return f"{path_of(given.loc)}: {name}no policy{cure}".removeprefix(": ")


def _within(given: Given) -> Iterator[Given]:
    """Values of the chart, wherever they are: as mappings, or as text under a name such as `values`."""
    value = given.value
    if isinstance(value, dict):
        if isinstance(value.get(_IN_CHART), dict):
            yield given
            return
        for name in value:
            yield from _within(given.inner(name))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _within(Given(each, (*given.loc, index)))
    elif isinstance(value, str) and str(given.loc[-1]).startswith("values") and f"{_IN_CHART}:" in value:
        yield given


def _of_chart(values: Given) -> Carried:
    policy = values.inner(_IN_CHART)
    body = policy.value if isinstance(policy.value, dict) else {}
    version = values.inner(f"{_IN_CHART}APIVersion").value
    if version is None:  # the chart's default changed when descheduler stopped to read the old one
        version = OLD_VERSION if body.get("strategies") and not body.get("profiles") else VERSION
    return Carried(Given({**body, "apiVersion": version, "kind": DESCHEDULER}, policy.loc), values)


def convert_chart(draft: Draft, values: Given) -> None:
    """What values of the chart say that is no part of the policy, and counts all the same."""
    interval, schedule = values.inner("deschedulingInterval"), values.inner("schedule")
    if values.inner("kind").value == "Deployment":
        if interval.value is not None:
            duration("reschedulingInterval")(draft, interval)
    elif schedule.value is not None:
        draft.miss(schedule.loc, "there is no CronJob: the controller runs all the time", _OFTEN)
    dry = values.inner("cmdOptions").inner("dry-run")
    if dry.value not in (None, False):
        why = "it is a dry run there, and here that is a flag of the command"
        draft.miss(dry.loc, why, "rescheduler run --dry-run", limits=True)
    policy = f"{_IN_CHART}, {_IN_CHART}APIVersion, deschedulingInterval, schedule and cmdOptions.dry-run"
    draft.settled(values.loc or (_IN_CHART,), f"of the values these are read: {policy}; the rest is the chart's own")


_OFTEN = "reschedulingInterval, 30s by default, and when.windows"

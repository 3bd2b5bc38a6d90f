"""What a table of options is made of: an option of another tool, what it is called here, and how its value comes over.

Each plugin of another tool is a Plugin with Options. `Given` is one value of the input with its place. What a plugin
needs to know of several options at once it does in `finish`, after each option had its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from rescheduler.config.errors import Loc, hint, kind_of, path_of, wrong_type
from rescheduler.convert.draft import Draft, Path
from rescheduler.model.selector import SelectorError, parse_selector, requirement, selector_of
from rescheduler.model.time import DurationError, format_duration, parse_duration


@dataclass(frozen=True, slots=True)
class Given:
    """A value of the input."""

    value: object
    loc: Loc
    around: Mapping[str, object] = field(default_factory=dict)
    """The mapping that it is in."""

    def inner(self, name: str) -> Given:
        """What is under a name of it."""
        within = self.value if isinstance(self.value, dict) else {}
        return Given(within.get(name), (*self.loc, name), within)


Convert = Callable[[Draft, Given], None]


@dataclass(frozen=True, slots=True)
class Option:
    """One option of another tool."""

    name: str
    here: tuple[str, ...]
    """Fields here, with dots; none where it has no counterpart, or needs none."""
    convert: Convert
    words: str = ""
    """What is different, for the documentation."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One plugin of another tool."""

    name: str
    strategy: str
    """What it is called here; empty where it is no strategy."""
    options: tuple[Option, ...]
    words: str = ""
    finish: Convert | None = None
    """What is done once for all options, with the whole of the args."""

    def convert(self, draft: Draft, args: Given) -> None:
        """Bring all options over."""
        told = len(draft.remarks)
        if self.strategy:
            draft.enable(self.strategy)
        take_options(draft, args, self.options)
        if self.finish is not None:
            self.finish(draft, args)
        wrong = next((each for each in draft.remarks[told:] if each.is_limit), None)
        if wrong is None:
            return
        # Without what was not understood, or is not possible here, it might do more than was wanted.
        if self.strategy:
            draft.switch_off(self.strategy, args.loc, f"{path_of(wrong.loc)} {wrong.sort}")
        else:
            draft.halt(wrong.loc, wrong.why)


def take_options(draft: Draft, args: Given, options: Iterable[Option], *, besides: Iterable[Option] = ()) -> None:
    """Each option of a mapping gets its turn; those that are not in the table are told.

    Those `besides` are no options at this place, but it is known what is meant by them.
    """
    known = {option.name: option for option in options}
    meant = {option.name: option for option in besides} | known
    if args.value is None:
        return
    if not isinstance(args.value, dict):
        draft.wrong(args.loc, wrong_type(args.value, "a mapping"))
        return
    for name in args.value:
        given = args.inner(name)
        if name in ("apiVersion", "kind") or given.value is None:
            continue
        if name not in meant:
            allowed = f"known here: {', '.join(known)}" if known else "it has no fields that are known here"
            draft.unknown(given.loc, f"{hint(name, known).lstrip(', ') or 'no such field;'} {allowed}")
            continue
        meant[name].convert(draft, given)


def same(*path: str) -> Convert:
    """The value as it is."""
    return lambda draft, given: draft.put(path, given.value, given.loc)


def flag(*path: str, comment: str = "") -> Convert:
    """True or false, as it is; false where that is the default is told."""

    def convert(draft: Draft, given: Given) -> None:
        if given.value is True:
            draft.put(path, value=True, loc=given.loc, comment=comment)
        elif given.value is False:
            draft.settled(given.loc, "false is the default here, too")
        else:
            draft.wrong(given.loc, wrong_type(given.value, "true or false"))

    return convert


def seconds(*path: str) -> Convert:
    """A number of seconds as a duration."""

    def convert(draft: Draft, given: Given) -> None:
        if (number := whole(draft, given)) is not None:
            draft.put(path, format_duration(float(number)), given.loc)

    return convert


def duration(*path: str, comment: str = "") -> Convert:
    """A duration as it is."""

    def convert(draft: Draft, given: Given) -> None:
        if (length := length_of(draft, given)) is not None:
            draft.put(path, format_duration(length), given.loc, comment)

    return convert


def length_of(draft: Draft, given: Given) -> float | None:
    """The seconds of a duration's text; None, and told, if it is none."""
    if not isinstance(given.value, str):
        draft.wrong(given.loc, wrong_type(given.value, "a duration such as 30s"))
        return None
    try:
        return parse_duration(given.value)
    except DurationError as error:
        draft.wrong(given.loc, str(error))
        return None


def whole(draft: Draft, given: Given) -> int | None:
    """A whole number of at least 0; None, and told, if it is none."""
    value = given.value
    if isinstance(value, bool) or not isinstance(value, int):
        draft.wrong(given.loc, wrong_type(value, "an integer"))
    elif value < 0:
        draft.wrong(given.loc, f"{value} is below 0")
    else:
        return value
    return None


def one_more(*path: str) -> Convert:
    """`numberOfNodes`: there more than so many nodes, here at least so many."""

    def convert(draft: Draft, given: Given) -> None:
        number = whole(draft, given)
        if number:
            draft.put(path, number + 1, given.loc, f"there: more than {number}; here: at least so many")
        elif number == 0:
            draft.settled(given.loc, "0 is the default here, too")

    return convert


def texts(*path: str) -> Convert:
    """A list of texts as it is."""

    def convert(draft: Draft, given: Given) -> None:
        if (found := texts_of(draft, given)) is not None:
            draft.put(path, found, given.loc)

    return convert


def texts_of(draft: Draft, given: Given) -> list[str] | None:
    """A list of texts; None, and told, if it is none."""
    value = given.value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return [*value]
    draft.wrong(given.loc, "is not a list of texts")
    return None


def selector(*path: str, comment: str = "") -> Convert:
    """A label selector, as an object or as text, as text."""

    def convert(draft: Draft, given: Given) -> None:
        text = selector_text(draft, given)
        if text:
            draft.put(path, text, given.loc, comment)
        elif text is not None:
            draft.settled(given.loc, "it selects everything, as the default does here")

    return convert


def selector_text(draft: Draft, given: Given) -> str | None:
    """A label selector's text; None, and told, if it is none."""
    value = given.value
    try:
        if isinstance(value, str):
            return str(parse_selector(value))
        if isinstance(value, dict):
            return _of_object(draft, given)
    except SelectorError as error:
        draft.wrong(given.loc, f"is not a label selector: {error}")
        return None
    draft.wrong(given.loc, wrong_type(value, "a label selector"))
    return None


def _of_object(draft: Draft, given: Given) -> str:
    labels, expressions = given.inner("matchLabels").value or {}, given.inner("matchExpressions").value or []
    if not isinstance(labels, dict) or not isinstance(expressions, list):
        raise SelectorError("matchLabels is a mapping and matchExpressions a list")
    for name in given.value if isinstance(given.value, dict) else ():
        if name not in ("matchLabels", "matchExpressions"):
            draft.unknown((*given.loc, name), "a label selector has matchLabels and matchExpressions")
    found = [requirement(str(key), "In", [str(value)]) for key, value in labels.items()]
    for each in expressions:
        if not isinstance(each, dict):
            raise SelectorError("an expression is a mapping with key, operator and values")
        values = each.get("values") or []
        if not isinstance(values, list):
            raise SelectorError("the values of an expression are a list")
        found.append(requirement(str(each.get("key", "")), str(each.get("operator", "")), [str(one) for one in values]))
    return str(selector_of(found))


def namespaces(*base: str) -> Convert:
    """`{include, exclude}` as two lists of which one may be given."""

    def convert(draft: Draft, given: Given) -> None:
        include, exclude = given.inner("include"), given.inner("exclude")
        take_options(draft, given, (Option("include", (), lambda *_: None), Option("exclude", (), lambda *_: None)))
        if not isinstance(given.value, dict):
            return
        if include.value and (found := texts_of(draft, include)) is not None:
            draft.put((*base, "namespaces"), found, include.loc)
            draft.named.update(found)
            if exclude.value:
                draft.wrong(exclude.loc, "include and exclude are not possible at once, there and here")
        elif exclude.value and (found := texts_of(draft, exclude)) is not None:
            draft.put((*base, "excludedNamespaces"), found, exclude.loc)
        else:
            draft.settled(given.loc, "it names no namespaces")

    return convert


def missing(why: str, nearest: str = "", *, limits: bool = False) -> Convert:
    """Nothing here is like it; what is empty is no loss."""

    def convert(draft: Draft, given: Given) -> None:
        if given.value in ("", {}, []):
            draft.settled(given.loc, "it says nothing")
        else:
            draft.miss(given.loc, why, nearest, limits=limits)

    return convert


def settled(why: str) -> Convert:
    """It is so here."""
    return lambda draft, given: draft.settled(given.loc, why)


def only_true(why: str, lost: str, nearest: str = "") -> Convert:
    """True is always so here; false is not possible."""

    def convert(draft: Draft, given: Given) -> None:
        if given.value is True:
            draft.settled(given.loc, why)
        else:
            draft.miss(given.loc, lost, nearest)

    return convert


def only_false(lost: str, nearest: str = "") -> Convert:
    """False is always so here; true is not possible."""

    def convert(draft: Draft, given: Given) -> None:
        if given.value is False:
            draft.settled(given.loc, "so it is here")
        else:
            draft.miss(given.loc, lost, nearest)

    return convert


def idle(lost: str, nearest: str) -> Convert:
    """True has nothing moved there, so its plugin stays off, or nothing is moved; false is always so here."""

    def convert(draft: Draft, given: Given) -> None:
        if given.value is True:
            draft.miss(given.loc, lost, nearest, limits=True)
        else:
            flag()(draft, given)

    return convert


def fields_of(strategy: str, *fields: str) -> tuple[str, ...]:
    """Settings of a strategy, as the documentation names them."""
    return tuple(f"strategies.{strategy}.{name}" for name in fields)


def namespaces_of(strategy: str, name: str = "namespaces") -> Option:
    """`{include, exclude}`."""
    fields = fields_of(strategy, "namespaces", "excludedNamespaces")
    return Option(name, fields, namespaces("strategies", strategy), "one of the two")


def labels_of(strategy: str) -> Option:
    """`labelSelector`."""
    return Option(
        "labelSelector", fields_of(strategy, "podSelector"), selector("strategies", strategy, "podSelector"), "as text"
    )


def excluded_kinds_of(strategy: str) -> Option:
    """`excludeOwnerKinds`."""
    path = ("strategies", strategy, "excludedOwnerKinds")
    words = "a kind may be the controller's or the workload's above it"
    return Option("excludeOwnerKinds", fields_of(strategy, path[-1]), texts(*path), words)


def init_containers_of(strategy: str) -> Option:
    """`includingInitContainers`."""
    field = "includeInitContainers"
    return Option("includingInitContainers", fields_of(strategy, field), flag("strategies", strategy, field))


def setting(name: str, strategy: str, field: str, convert: Convert, words: str = "") -> Option:
    """An option that is one setting here."""
    return Option(name, fields_of(strategy, field), convert, words)


def later(draft: Draft, given: Given) -> None:
    """`finish` sees to it, together with other options."""


OPTIMIZATION: Path = ("strategies", "ResourceOptimization")
PACKING: Path = ("strategies", "Consolidation")
_OWN = {"cpu": "cpuThreshold", "memory": "memoryThreshold"}
_INDEX = "MetricResource"
_ALL = 100
_LEAST = 1
_LEFT_OUT = "a low threshold of 0 points, or none, leaves the resource out there, and so it is here"


def levels(draft: Draft, given: Given) -> dict[str, float]:
    """Per cent by resource, as far as they make sense."""
    if given.value is None:
        return {}
    if not isinstance(given.value, dict):
        draft.wrong(given.loc, f"is {kind_of(given.value)}, expected per cent by resource")
        return {}
    found: dict[str, float] = {}
    for name, value in given.value.items():
        loc = (*given.loc, name)
        number = _percent(value)
        if name == _INDEX:
            why = "what a query of one's own gives is no use of a resource"
            draft.miss(loc, why, "usage.prometheus.queries, in cores and bytes, with cpuThreshold and memoryThreshold")
        elif number is None or number < 0:
            draft.wrong(loc, "is not a percentage")
        else:
            found[name] = number
    return found


def _percent(value: object) -> float | None:
    if isinstance(value, str):
        text = value.strip().removesuffix("%")
        try:
            return float(text)
        except ValueError:
            return None
    return None if isinstance(value, bool) or not isinstance(value, (int, float)) else value


def put_upper(draft: Draft, base: Path, given: Given, left_out: Collection[str] = ()) -> dict[str, float]:
    """The thresholds above which a node is hot; gives those that are in force."""
    wanted = levels(draft, given)
    for name in sorted(wanted.keys() & {*left_out}):
        draft.settled((*given.loc, name), _LEFT_OUT)
        del wanted[name]
    put: dict[str, float] = {}
    for name in dict.fromkeys((*_OWN, *wanted)):
        number, comment = wanted.get(name), ""
        if number is None:
            number, comment = _ALL, "not given there, so it makes no node hot"
        elif number > _ALL:
            number, comment = _ALL, f"there {number:g}; more than 100 is not possible here"
        elif number == 0:
            number, comment = _LEAST, "there 0; it must be above 0 here"
        path = (*base, _OWN[name]) if name in _OWN else (*base, "thresholds", name)
        draft.put(path, _plain(number), (*given.loc, name) if name in wanted else given.loc, comment)
        put[name] = number
    return put


def put_lower(
    draft: Draft, base: Path, given: Given, upper: Mapping[str, float], left_out: Collection[str] = ()
) -> None:
    """The thresholds under which a node is underused, so that it takes pods; none is above its `upper` one."""
    path = (*base, *OPTIMIZATION, "lowThresholds")
    for name, number in levels(draft, given).items():
        loc, comment = (*given.loc, name), ""
        if name in left_out:
            draft.settled(loc, _LEFT_OUT)
            continue
        most = upper.get(name, _ALL)
        if number > most:
            number, comment = most, f"there {number:g}, which is above the upper threshold"
        draft.put((*path, name), _plain(number), loc, comment)
        count(draft, base, name, loc)


def put_packing(draft: Draft, given: Given) -> None:
    """The thresholds under which a node is worth emptying."""
    draft.put((*PACKING, "maxUtilization"), _ALL, given.loc, "resources that are not named below count for nothing")
    for name, number in levels(draft, given).items():
        comment = f"there {number:g}" if number > _ALL else ""
        draft.put((*PACKING, "maxUtilizationOf", name), _plain(min(number, _ALL)), (*given.loc, name), comment)
        count(draft, (), name, (*given.loc, name))


def count(draft: Draft, base: Path, name: str, loc: Path) -> None:
    """Have a resource count, for only those do that have a threshold."""
    if name in _OWN or draft.get((*base, "thresholds", name)) is not None:
        return
    draft.put((*base, "thresholds", name), _ALL, loc, "so that it counts; it makes no node hot")


def _plain(number: float) -> float:
    return int(number) if float(number).is_integer() else number

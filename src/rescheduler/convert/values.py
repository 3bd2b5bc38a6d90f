"""What a table of options is made of: an option of another tool, what it is called here, and how its value comes over.

Each plugin of another tool is a Plugin with Options. `InputValue` is one value of the input and its place. Work that
needs several options at once is done in `finish`, after each option was converted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from rescheduler.config.errors import Loc, describe_type, format_path, hint, wrong_type
from rescheduler.convert.builder import ConfigBuilder, Path
from rescheduler.model.selector import SelectorError, parse_selector, requirement, selector_of
from rescheduler.model.time import DurationError, format_duration, parse_duration


@dataclass(frozen=True, slots=True)
class InputValue:
    """A value of the input."""

    value: object
    loc: Loc
    parent: Mapping[str, object] = field(default_factory=dict)
    """The mapping that it is in."""

    def child(self, name: str) -> InputValue:
        """What is under a name of it."""
        within = self.value if isinstance(self.value, dict) else {}
        return InputValue(within.get(name), (*self.loc, name), within)


Convert = Callable[[ConfigBuilder, InputValue], None]


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

    def convert(self, builder: ConfigBuilder, args: InputValue) -> None:
        """Bring all options over."""
        told = len(builder.remarks)
        if self.strategy:
            builder.enable(self.strategy)
        take_options(builder, args, self.options)
        if self.finish is not None:
            self.finish(builder, args)
        wrong = next((each for each in builder.remarks[told:] if each.is_limit), None)
        if wrong is None:
            return
        # Without what was not understood, or is not possible here, it might do more than was wanted.
        if self.strategy:
            builder.switch_off(self.strategy, args.loc, f"{format_path(wrong.loc)} {wrong.kind}")
        else:
            builder.halt(wrong.loc, wrong.why)


def take_options(
    builder: ConfigBuilder, args: InputValue, options: Iterable[Option], *, besides: Iterable[Option] = ()
) -> None:
    """Each option of a mapping gets its turn; those that are not in the table are told.

    Those `besides` are no options at this place, but it is known what is meant by them.
    """
    known = {option.name: option for option in options}
    meant = {option.name: option for option in besides} | known
    if args.value is None:
        return
    if not isinstance(args.value, dict):
        builder.wrong(args.loc, wrong_type(args.value, "a mapping"))
        return
    for name in args.value:
        item = args.child(name)
        if name in ("apiVersion", "kind") or item.value is None:
            continue
        if name not in meant:
            allowed = f"known here: {', '.join(known)}" if known else "it has no fields that are known here"
            builder.unknown(item.loc, f"{hint(name, known).lstrip(', ') or 'no such field;'} {allowed}")
            continue
        meant[name].convert(builder, item)


def same(*path: str) -> Convert:
    """The value as it is."""
    return lambda builder, item: builder.put(path, item.value, item.loc)


def flag(*path: str, comment: str = "") -> Convert:
    """True or false, as it is; false where that is the default is told."""

    def convert(builder: ConfigBuilder, item: InputValue) -> None:
        if item.value is True:
            builder.put(path, value=True, loc=item.loc, comment=comment)
        elif item.value is False:
            builder.settled(item.loc, "false is the default here, too")
        else:
            builder.wrong(item.loc, wrong_type(item.value, "true or false"))

    return convert


def seconds(*path: str) -> Convert:
    """A number of seconds as a duration."""

    def convert(builder: ConfigBuilder, item: InputValue) -> None:
        if (number := whole(builder, item)) is not None:
            builder.put(path, format_duration(float(number)), item.loc)

    return convert


def duration(*path: str, comment: str = "") -> Convert:
    """A duration as it is."""

    def convert(builder: ConfigBuilder, item: InputValue) -> None:
        if (length := length_of(builder, item)) is not None:
            builder.put(path, format_duration(length), item.loc, comment)

    return convert


def length_of(builder: ConfigBuilder, item: InputValue) -> float | None:
    """The seconds of a duration's text; None, and told, if it is none."""
    if not isinstance(item.value, str):
        builder.wrong(item.loc, wrong_type(item.value, "a duration such as 30s"))
        return None
    try:
        return parse_duration(item.value)
    except DurationError as error:
        builder.wrong(item.loc, str(error))
        return None


def whole(builder: ConfigBuilder, item: InputValue) -> int | None:
    """A whole number of at least 0; None, and told, if it is none."""
    value = item.value
    if isinstance(value, bool) or not isinstance(value, int):
        builder.wrong(item.loc, wrong_type(value, "an integer"))
    elif value < 0:
        builder.wrong(item.loc, f"{value} is below 0")
    else:
        return value
    return None


def one_more(*path: str) -> Convert:
    """`numberOfNodes`: there more than so many nodes, here at least so many."""

    def convert(builder: ConfigBuilder, item: InputValue) -> None:
        number = whole(builder, item)
        if number:
            builder.put(path, number + 1, item.loc, f"there: more than {number}; here: at least so many")
        elif number == 0:
            builder.settled(item.loc, "0 is the default here, too")

    return convert


def texts(*path: str) -> Convert:
    """A list of texts as it is."""

    def convert(builder: ConfigBuilder, item: InputValue) -> None:
        if (found := texts_of(builder, item)) is not None:
            builder.put(path, found, item.loc)

    return convert


def texts_of(builder: ConfigBuilder, item: InputValue) -> list[str] | None:
    """A list of texts; None, and told, if it is none."""
    value = item.value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return [*value]
    builder.wrong(item.loc, "is not a list of texts")
    return None


def selector(*path: str, comment: str = "") -> Convert:
    """A label selector, as an object or as text, as text."""

    def convert(builder: ConfigBuilder, item: InputValue) -> None:
        text = selector_text(builder, item)
        if text:
            builder.put(path, text, item.loc, comment)
        elif text is not None:
            builder.settled(item.loc, "it selects everything, as the default does here")

    return convert


def selector_text(builder: ConfigBuilder, item: InputValue) -> str | None:
    """A label selector's text; None, and told, if it is none."""
    value = item.value
    try:
        if isinstance(value, str):
            return str(parse_selector(value))
        if isinstance(value, dict):
            return _of_object(builder, item)
    except SelectorError as error:
        builder.wrong(item.loc, f"is not a label selector: {error}")
        return None
    builder.wrong(item.loc, wrong_type(value, "a label selector"))
    return None


def _of_object(builder: ConfigBuilder, item: InputValue) -> str:
    labels, expressions = item.child("matchLabels").value or {}, item.child("matchExpressions").value or []
    if not isinstance(labels, dict) or not isinstance(expressions, list):
        raise SelectorError("matchLabels is a mapping and matchExpressions a list")
    for name in item.value if isinstance(item.value, dict) else ():
        if name not in ("matchLabels", "matchExpressions"):
            builder.unknown((*item.loc, name), "a label selector has matchLabels and matchExpressions")
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

    def convert(builder: ConfigBuilder, item: InputValue) -> None:
        include, exclude = item.child("include"), item.child("exclude")
        take_options(builder, item, (Option("include", (), lambda *_: None), Option("exclude", (), lambda *_: None)))
        if not isinstance(item.value, dict):
            return
        if include.value and (found := texts_of(builder, include)) is not None:
            builder.put((*base, "namespaces"), found, include.loc)
            builder.named.update(found)
            if exclude.value:
                builder.wrong(exclude.loc, "include and exclude are not possible at once, there and here")
        elif exclude.value and (found := texts_of(builder, exclude)) is not None:
            builder.put((*base, "excludedNamespaces"), found, exclude.loc)
        else:
            builder.settled(item.loc, "it names no namespaces")

    return convert


def missing(why: str, nearest: str = "", *, limits: bool = False) -> Convert:
    """Nothing here is like it; what is empty is no loss."""

    def convert(builder: ConfigBuilder, item: InputValue) -> None:
        if item.value in ("", {}, []):
            builder.settled(item.loc, "it says nothing")
        else:
            builder.miss(item.loc, why, nearest, limits=limits)

    return convert


def settled(why: str) -> Convert:
    """It is so here."""
    return lambda builder, item: builder.settled(item.loc, why)


def only_true(why: str, lost: str, nearest: str = "") -> Convert:
    """True is always so here; false is not possible."""

    def convert(builder: ConfigBuilder, item: InputValue) -> None:
        if item.value is True:
            builder.settled(item.loc, why)
        else:
            builder.miss(item.loc, lost, nearest)

    return convert


def only_false(lost: str, nearest: str = "") -> Convert:
    """False is always so here; true is not possible."""

    def convert(builder: ConfigBuilder, item: InputValue) -> None:
        if item.value is False:
            builder.settled(item.loc, "so it is here")
        else:
            builder.miss(item.loc, lost, nearest)

    return convert


def idle(lost: str, nearest: str) -> Convert:
    """True has nothing moved there, so its plugin stays off, or nothing is moved; false is always so here."""

    def convert(builder: ConfigBuilder, item: InputValue) -> None:
        if item.value is True:
            builder.miss(item.loc, lost, nearest, limits=True)
        else:
            flag()(builder, item)

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


def later(builder: ConfigBuilder, item: InputValue) -> None:
    """`finish` sees to it, together with other options."""


OPTIMIZATION: Path = ("strategies", "ResourceOptimization")
PACKING: Path = ("strategies", "Consolidation")
_OWN = {"cpu": "cpuThreshold", "memory": "memoryThreshold"}
_INDEX = "MetricResource"
_ALL = 100
_LEAST = 1
_LEFT_OUT = "a low threshold of 0 points, or none, leaves the resource out there, and so it is here"


def levels(builder: ConfigBuilder, item: InputValue) -> dict[str, float]:
    """Per cent by resource, as far as they make sense."""
    if item.value is None:
        return {}
    if not isinstance(item.value, dict):
        builder.wrong(item.loc, f"is {describe_type(item.value)}, expected per cent by resource")
        return {}
    found: dict[str, float] = {}
    for name, value in item.value.items():
        loc = (*item.loc, name)
        number = _percent(value)
        if name == _INDEX:
            why = "what a query of one's own gives is no use of a resource"
            builder.miss(
                loc, why, "usage.prometheus.queries, in cores and bytes, with cpuThreshold and memoryThreshold"
            )
        elif number is None or number < 0:
            builder.wrong(loc, "is not a percentage")
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


def put_upper(builder: ConfigBuilder, base: Path, item: InputValue, left_out: Collection[str] = ()) -> dict[str, float]:
    """The thresholds above which a node is hot; gives those that are in force."""
    wanted = levels(builder, item)
    for name in sorted(wanted.keys() & {*left_out}):
        builder.settled((*item.loc, name), _LEFT_OUT)
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
        builder.put(path, _plain(number), (*item.loc, name) if name in wanted else item.loc, comment)
        put[name] = number
    return put


def put_lower(
    builder: ConfigBuilder, base: Path, item: InputValue, upper: Mapping[str, float], left_out: Collection[str] = ()
) -> None:
    """The thresholds under which a node is underused, so that it takes pods; none is above its `upper` one."""
    path = (*base, *OPTIMIZATION, "lowThresholds")
    for name, number in levels(builder, item).items():
        loc, comment = (*item.loc, name), ""
        if name in left_out:
            builder.settled(loc, _LEFT_OUT)
            continue
        most = upper.get(name, _ALL)
        if number > most:
            number, comment = most, f"there {number:g}, which is above the upper threshold"
        builder.put((*path, name), _plain(number), loc, comment)
        count(builder, base, name, loc)


def put_packing(builder: ConfigBuilder, item: InputValue) -> None:
    """The thresholds under which a node is worth emptying."""
    builder.put((*PACKING, "maxUtilization"), _ALL, item.loc, "resources that are not named below count for nothing")
    for name, number in levels(builder, item).items():
        comment = f"there {number:g}" if number > _ALL else ""
        builder.put((*PACKING, "maxUtilizationOf", name), _plain(min(number, _ALL)), (*item.loc, name), comment)
        count(builder, (), name, (*item.loc, name))


def count(builder: ConfigBuilder, base: Path, name: str, loc: Path) -> None:
    """Have a resource count, for only those do that have a threshold."""
    if name in _OWN or builder.get((*base, "thresholds", name)) is not None:
        return
    builder.put((*base, "thresholds", name), _ALL, loc, "so that it counts; it makes no node hot")


def _plain(number: float) -> float:
    return int(number) if float(number).is_integer() else number

"""Tables of options: what an option of another tool is called here, and how its value is read.

Each plugin of another tool is a `Plugin` with `Option`s. An option's reader gets an `InputValue` and returns the value
for our field. It returns None if there is nothing to write, and reports why to the builder. Work that needs several
options at once is done in the plugin's `finish`, after each option was converted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from rescheduler.config.errors import Loc, format_path, hint
from rescheduler.convert.builder import ConfigBuilder, Path
from rescheduler.model.fields import describe_type, quote, wrong_type
from rescheduler.model.selector import SelectorError, parse_selector, requirement, selector_of
from rescheduler.model.time import DurationError, format_duration, parse_duration


@dataclass(frozen=True, slots=True)
class InputValue:
    """A value of the input and its place."""

    value: object
    loc: Loc
    parent: Mapping[str, object] = field(default_factory=dict)
    """The mapping that contains it."""

    def child(self, name: str) -> InputValue:
        """The value under a name."""
        mapping = self.mapping
        return InputValue(mapping.get(name), (*self.loc, name), mapping)

    @property
    def mapping(self) -> dict[str, object]:
        """The value if it is a mapping, else an empty one."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> list[InputValue]:
        """The items of a list; none if it is no list."""
        values = self.value if isinstance(self.value, list) else []
        return [InputValue(each, (*self.loc, index)) for index, each in enumerate(values)]


Reader = Callable[[ConfigBuilder, InputValue], object]
"""Reads a value for the option's first field; None writes nothing."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of another tool."""

    name: str
    fields: str
    """Our fields for it, with spaces between; none where it has no counterpart, or needs none."""
    read: Reader
    words: str = ""
    """What is different, for the documentation."""
    comment: str = ""
    """A comment beside the value in the result."""

    @property
    def here(self) -> tuple[str, ...]:
        """Our fields for it."""
        return tuple(self.fields.split())

    def convert(self, builder: ConfigBuilder, item: InputValue) -> None:
        """Write the option's value."""
        value = self.read(builder, item)
        if value is not None:
            builder.put(tuple(self.here[0].split(".")), value, item.loc, self.comment)


@dataclass(frozen=True, slots=True)
class Plugin:
    """One plugin of another tool."""

    name: str
    strategy: str
    """Our strategy for it; empty where it is none."""
    options: tuple[Option, ...]
    words: str = ""
    finish: Callable[[ConfigBuilder, InputValue], None] | None = None
    """Runs after all options, with all args."""

    def convert(self, builder: ConfigBuilder, args: InputValue) -> None:
        """Convert all options."""
        before = len(builder.remarks)
        if self.strategy:
            builder.enable(self.strategy)
        take_options(builder, args, self.options)
        if self.finish is not None:
            self.finish(builder, args)
        limit = next((each for each in builder.remarks[before:] if each.is_limit), None)
        if limit is None:
            return
        # Without an option that is not understood, or not possible here, more pods might move than there.
        if self.strategy:
            builder.switch_off(self.strategy, args.loc, f"{format_path(limit.loc)} {limit.kind}")
        else:
            builder.halt(limit.loc, limit.why)


def take_options(
    builder: ConfigBuilder, args: InputValue, options: Iterable[Option], *, besides: Iterable[Option] = ()
) -> None:
    """Convert each option of a mapping; report names that are not in the table.

    Options `besides` are misplaced here, but have a reader that says where they belong.
    """
    known = {option.name: option for option in options}
    meant = {option.name: option for option in besides} | known
    if args.value is None:
        return
    if not isinstance(args.value, dict):
        builder.add_wrong(args.loc, wrong_type(args.value, "a mapping"))
        return
    for name in args.value:
        item = args.child(name)
        if name in ("apiVersion", "kind") or item.value is None:
            continue
        if name not in meant:
            allowed = f"known here: {', '.join(known)}" if known else "it has no fields that are known here"
            builder.add_unknown(item.loc, f"{hint(name, known).lstrip(', ') or 'no such field;'} {allowed}")
            continue
        meant[name].convert(builder, item)


def nested(*options: Option) -> Reader:
    """Read a mapping with options of its own."""
    return lambda builder, item: take_options(builder, item, options)


def ignore(builder: ConfigBuilder, item: InputValue) -> None:
    """Read nothing: `finish` or the caller reads this option."""


def same(builder: ConfigBuilder, item: InputValue) -> object:
    """Read any value."""
    return item.value


def flag(builder: ConfigBuilder, item: InputValue) -> bool | None:
    """Read true; false is the default here."""
    if item.value is True:
        return True
    if item.value is False:
        builder.add_unneeded(item.loc, "false is the default here, too")
    else:
        builder.add_wrong(item.loc, wrong_type(item.value, "true or false"))
    return None


def if_true(value: object) -> Reader:
    """Read true as this value; false is the default here."""
    return lambda builder, item: value if flag(builder, item) else None


def choice(meanings: Mapping[str, object], known: str = "") -> Reader:
    """Read a word: each stands for a value, or for a reader that tells what becomes of it."""

    def read(builder: ConfigBuilder, item: InputValue) -> object:
        if not isinstance(item.value, str) or item.value not in meanings:
            if known:
                builder.add_unknown(item.loc, f"known are {known}")
            else:
                builder.add_wrong(item.loc, f"{quote(item.value)} is not one of {', '.join(filter(None, meanings))}")
            return None
        meaning = meanings[item.value]
        return meaning(builder, item) if callable(meaning) else meaning

    return read


def constant(path: Path, value: object) -> Reader:
    """Write a value whatever is read."""
    return lambda builder, item: builder.put(path, value, item.loc)


def whole(builder: ConfigBuilder, item: InputValue) -> int | None:
    """Read a whole number of at least 0."""
    value = item.value
    if isinstance(value, bool) or not isinstance(value, int):
        builder.add_wrong(item.loc, wrong_type(value, "an integer"))
    elif value < 0:
        builder.add_wrong(item.loc, f"{value} is below 0")
    else:
        return value
    return None


def above_zero(why: str) -> Reader:
    """Read a whole number of at least 1."""

    def read(builder: ConfigBuilder, item: InputValue) -> int | None:
        number = whole(builder, item)
        if number == 0:
            builder.add_wrong(item.loc, why)
        return number or None

    return read


def seconds(builder: ConfigBuilder, item: InputValue) -> str | None:
    """Read a number of seconds as a duration."""
    number = whole(builder, item)
    return None if number is None else format_duration(float(number))


def length_of(builder: ConfigBuilder, item: InputValue) -> float | None:
    """Read a duration's seconds."""
    if not isinstance(item.value, str):
        builder.add_wrong(item.loc, wrong_type(item.value, "a duration such as 30s"))
        return None
    try:
        return parse_duration(item.value)
    except DurationError as error:
        builder.add_wrong(item.loc, str(error))
        return None


def duration(builder: ConfigBuilder, item: InputValue) -> str | None:
    """Read a duration."""
    length = length_of(builder, item)
    return None if length is None else format_duration(length)


def list_items(builder: ConfigBuilder, item: InputValue) -> list[InputValue]:
    """Return the items of a list; anything else that is given is reported."""
    if item.value is not None and not isinstance(item.value, list):
        builder.add_wrong(item.loc, wrong_type(item.value, "a list"))
    return item.items


def texts(builder: ConfigBuilder, item: InputValue) -> list[str] | None:
    """Read a list of texts."""
    value = item.value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return [*value]
    builder.add_wrong(item.loc, "is not a list of texts")
    return None


def text_items(builder: ConfigBuilder, item: InputValue) -> list[InputValue]:
    """Return the items of a list of texts; anything else is reported."""
    return item.items if texts(builder, item) is not None else []


def selector_text(builder: ConfigBuilder, item: InputValue) -> str | None:
    """Read a label selector, given as an object or as text, as text; empty if it selects everything."""
    value = item.value
    try:
        if isinstance(value, str):
            return str(parse_selector(value))
        if isinstance(value, dict):
            return _format_selector(builder, item)
    except SelectorError as error:
        builder.add_wrong(item.loc, f"is not a label selector: {error}")
        return None
    builder.add_wrong(item.loc, wrong_type(value, "a label selector"))
    return None


def selector(builder: ConfigBuilder, item: InputValue) -> str | None:
    """Read a label selector; one that selects everything is the default here."""
    text = selector_text(builder, item)
    if text == "":
        builder.add_unneeded(item.loc, "it selects everything, as the default does here")
    return text or None


def _format_selector(builder: ConfigBuilder, item: InputValue) -> str:
    labels, expressions = item.child("matchLabels").value or {}, item.child("matchExpressions").value or []
    if not isinstance(labels, dict) or not isinstance(expressions, list):
        raise SelectorError("matchLabels is a mapping and matchExpressions a list")
    for name in item.mapping:
        if name not in ("matchLabels", "matchExpressions"):
            builder.add_unknown((*item.loc, name), "a label selector has matchLabels and matchExpressions")
    found = [requirement(str(key), "In", [str(value)]) for key, value in labels.items()]
    for each in expressions:
        if not isinstance(each, dict):
            raise SelectorError("an expression is a mapping with key, operator and values")
        values = each.get("values") or []
        if not isinstance(values, list):
            raise SelectorError("the values of an expression are a list")
        found.append(requirement(str(each.get("key", "")), str(each.get("operator", "")), [str(one) for one in values]))
    return str(selector_of(found))


def namespaces(*base: str) -> Reader:
    """Read `{include, exclude}` into two fields, of which one may be set."""

    def read(builder: ConfigBuilder, item: InputValue) -> None:
        include, exclude = item.child("include"), item.child("exclude")
        take_options(builder, item, (Option("include", "", ignore), Option("exclude", "", ignore)))
        if not isinstance(item.value, dict):
            return
        if include.value and (found := texts(builder, include)) is not None:
            builder.put((*base, "namespaces"), found, include.loc)
            builder.named.update(found)
            if exclude.value:
                builder.add_wrong(exclude.loc, "include and exclude are not possible at once, there and here")
        elif exclude.value and (found := texts(builder, exclude)) is not None:
            builder.put((*base, "excludedNamespaces"), found, exclude.loc)
        else:
            builder.add_unneeded(item.loc, "it names no namespaces")

    return read


def missing(why: str, nearest: str = "", *, limits: bool = False) -> Reader:
    """Report an option without a counterpart; an empty value loses nothing."""

    def read(builder: ConfigBuilder, item: InputValue) -> None:
        if item.value in ("", {}, []):
            builder.add_unneeded(item.loc, "it says nothing")
        else:
            builder.add_missing(item.loc, why, nearest, limits=limits)

    return read


def unneeded(why: str) -> Reader:
    """Report an option that needs nothing here."""
    return lambda builder, item: builder.add_unneeded(item.loc, why)


def only_true(why: str, lost: str) -> Reader:
    """Read an option that is always true here."""
    return lambda builder, item: (
        builder.add_unneeded(item.loc, why) if item.value is True else builder.add_missing(item.loc, lost)
    )


def only_false(lost: str) -> Reader:
    """Read an option that is always false here."""
    return lambda builder, item: (
        builder.add_unneeded(item.loc, "so it is here") if item.value is False else builder.add_missing(item.loc, lost)
    )


def idle(lost: str, nearest: str) -> Reader:
    """Read an option that stops a plugin, or all moves, if it is true; it is always false here."""

    def read(builder: ConfigBuilder, item: InputValue) -> None:
        if item.value is True:
            builder.add_missing(item.loc, lost, nearest, limits=True)
        else:
            flag(builder, item)

    return read


def more_than(strategy: str, words: str) -> Option:
    """`numberOfNodes`: more than so many nodes there, at least so many here."""
    path: Path = ("strategies", strategy, "minUnderusedNodes")

    def read(builder: ConfigBuilder, item: InputValue) -> None:
        number = whole(builder, item)
        if number:
            builder.put(path, number + 1, item.loc, f"there: more than {number}; here: at least so many")
        elif number == 0:
            builder.add_unneeded(item.loc, "0 is the default here, too")

    return Option("numberOfNodes", fields_of(strategy, path[-1]), read, words)


def fields_of(strategy: str, *names: str | int) -> str:
    """Fields of a strategy's settings."""
    return " ".join(f"strategies.{strategy}.{name}" for name in names)


def setting(name: str, strategy: str, field: str, read: Reader, words: str = "") -> Option:
    """An option that is one field of a strategy's settings."""
    return Option(name, fields_of(strategy, field), read, words)


def namespaces_of(strategy: str, name: str = "namespaces") -> Option:
    """`{include, exclude}`."""
    fields = fields_of(strategy, "namespaces", "excludedNamespaces")
    return Option(name, fields, namespaces("strategies", strategy), "one of the two lists")


def pods_of(strategy: str) -> tuple[Option, Option]:
    """`labelSelector` and `namespaces`."""
    return setting("labelSelector", strategy, "podSelector", selector, "as text"), namespaces_of(strategy)


def excluded_kinds_of(strategy: str) -> Option:
    """`excludeOwnerKinds`."""
    words = "the kind of the controller or of the workload above it"
    return setting("excludeOwnerKinds", strategy, "excludedOwnerKinds", texts, words)


def init_containers_of(strategy: str) -> Option:
    """`includingInitContainers`."""
    return setting("includingInitContainers", strategy, "includeInitContainers", flag)


OPTIMIZATION: Path = ("strategies", "ResourceOptimization")
PACKING: Path = ("strategies", "Consolidation")
_OWN = {"cpu": "cpuThreshold", "memory": "memoryThreshold"}
_INDEX = "MetricResource"
_ALL = 100
_LEAST = 1
_LEFT_OUT = "a low threshold of 0 points, or none, leaves the resource out there, and so it is here"


def levels(builder: ConfigBuilder, item: InputValue) -> dict[str, float]:
    """Read a percentage for each resource; invalid ones are reported and left out."""
    if item.value is None:
        return {}
    if not isinstance(item.value, dict):
        builder.add_wrong(item.loc, f"is {describe_type(item.value)}, expected per cent by resource")
        return {}
    found: dict[str, float] = {}
    for name, value in item.value.items():
        loc = (*item.loc, name)
        number = _percent(value)
        if name == _INDEX:
            why = "what a query of one's own gives is no use of a resource"
            nearest = "usage.prometheus.queries, in cores and bytes, with cpuThreshold and memoryThreshold"
            builder.add_missing(loc, why, nearest)
        elif number is None or number < 0:
            builder.add_wrong(loc, "is not a percentage")
        else:
            found[name] = number
    return found


def _percent(value: object) -> float | None:
    if isinstance(value, str):
        try:
            return float(value.strip().removesuffix("%"))
        except ValueError:
            return None
    return None if isinstance(value, bool) or not isinstance(value, (int, float)) else value


def put_upper(builder: ConfigBuilder, base: Path, item: InputValue, left_out: Collection[str] = ()) -> dict[str, float]:
    """Write the thresholds above which a node is hot, and return them."""
    wanted = levels(builder, item)
    for name in sorted(wanted.keys() & {*left_out}):
        builder.add_unneeded((*item.loc, name), _LEFT_OUT)
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
    """Write the thresholds under which a node takes pods; none is above its `upper` one."""
    for name, number in levels(builder, item).items():
        loc, most = (*item.loc, name), upper.get(name, _ALL)
        if name in left_out:
            builder.add_unneeded(loc, _LEFT_OUT)
            continue
        comment = f"there {number:g}, which is above the upper threshold" if number > most else ""
        builder.put((*base, *OPTIMIZATION, "lowThresholds", name), _plain(min(number, most)), loc, comment)
        _count(builder, base, name, loc)


def drop_node_count(builder: ConfigBuilder, args: InputValue, why: str, nearest: str = "") -> None:
    """Take out `minUnderusedNodes` if there are no low thresholds: then no node is underused."""
    path = (*OPTIMIZATION, "minUnderusedNodes")
    if builder.get(path) is not None and not builder.get((*OPTIMIZATION, "lowThresholds")):
        builder.drop(path)
        builder.add_missing(args.child("numberOfNodes").loc, why, nearest)


def put_packing(builder: ConfigBuilder, item: InputValue) -> None:
    """Write the thresholds under which a node is worth emptying."""
    builder.put((*PACKING, "maxUtilization"), _ALL, item.loc, "resources that are not named below count for nothing")
    for name, number in levels(builder, item).items():
        comment = f"there {number:g}" if number > _ALL else ""
        builder.put((*PACKING, "maxUtilizationOf", name), _plain(min(number, _ALL)), (*item.loc, name), comment)
        _count(builder, (), name, (*item.loc, name))


def _count(builder: ConfigBuilder, base: Path, name: str, loc: Loc) -> None:
    """Have a resource count: only those with a threshold do."""
    if name in _OWN or builder.get((*base, "thresholds", name)) is not None:
        return
    builder.put((*base, "thresholds", name), _ALL, loc, "so that it counts; it makes no node hot")


def _plain(number: float) -> float:
    return int(number) if float(number).is_integer() else number

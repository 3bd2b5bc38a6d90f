"""Checks of a configuration's fields, and of strategies' settings against them.

pydantic checks each field and section; here are the checks across them, and the sentences for what is wrong. Whether
settings fit the thresholds of the nodes that they are for, the settings themselves say (`StrategySettings.misfits`).
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, is_dataclass, replace
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.alias_generators import to_snake
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticUndefined

from rescheduler.config.errors import Finding, InvalidError, Loc, format_path, hint
from rescheduler.config.schema import INHERITED, NATIVE_KIND, Configuration, Fields, Settings
from rescheduler.model.fields import FieldError, Section, not_an_integer, quote, to_camel, wrong_type
from rescheduler.model.policy import Pool
from rescheduler.planning.settings import Misfit, StrategySettings

DECIDING = frozenset({"cpuThreshold", "memoryThreshold", "thresholds", "thresholdMode", "pools"})
"""The fields that say which thresholds nodes have."""


def find_misfits(
    fields: Fields,
    settings: Settings,
    pools: Sequence[Settings],
    configured: Collection[object],
) -> Iterator[Finding]:
    """Settings that do not fit, of enabled or configured strategies; `configured` names those set at the top."""
    top = fields.node_thresholds
    of_pools = [pool.thresholds for pool in fields.node_pools]
    counted = [*dict.fromkeys(name for each in (top, *of_pools) for name in each.named())]
    reported: set[tuple[str, Misfit]] = set()
    running = [
        fields.enabled_strategies if own.enabled_strategies is None else own.enabled_strategies for own in fields.pools
    ]
    only_in_pools = {name for names in running for name in names} - {*fields.enabled_strategies}
    for name, values in settings.items():
        if name in fields.enabled_strategies or (name in configured and name not in only_in_pools):
            for misfit in values.misfits(top, counted):
                reported.add((name, misfit))
                yield Finding(("strategies", name, *misfit.path), misfit.why)
    for index, (pool, thresholds, mine) in enumerate(zip(fields.pools, of_pools, pools, strict=True)):
        own = pool.strategies or {}
        for name, values in mine.items():
            if name not in own and name not in running[index]:
                continue
            for misfit in values.misfits(thresholds, counted):
                if (name, misfit) not in reported:  # an error at the top is not repeated for each pool
                    at: Loc = ("strategies", name, *misfit.path)
                    yield Finding(
                        ("pools", index, *at), misfit.why + _explain_inheritance(misfit, own.get(name) or {}, at)
                    )


def _explain_inheritance(misfit: Misfit, own: Mapping[str, object], source: Loc) -> str:
    """The origin of a value that the pool inherits."""
    return "" if misfit.path[0] in own else f" (it comes from {format_path(source)}; give the pool one of its own)"


Parsed = TypeVar("Parsed", bound="Section | BaseModel")
Model = type[Section] | type[BaseModel]

_EXPECTED = {
    "float_type": "a number",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "bool_type": "true or false",
    "string_type": "a string",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dataclass_type": "a mapping",
}
_BOUND_WORDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
_BOUNDS = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")


_ADAPTERS: dict[object, TypeAdapter[Any]] = {}


def _adapter(model: Any) -> TypeAdapter[Any]:
    """pydantic's schema of a model, built when the first file or flag needs it."""
    if model not in _ADAPTERS:
        _ADAPTERS[model] = TypeAdapter(model)
    return _ADAPTERS[model]


def dump(section: Section) -> dict[str, object]:
    """A section as a file would give it, with all defaults."""
    data = _adapter(type(section)).dump_python(section, mode="json", by_alias=True)
    return {name: data[name] for name in fields_by_name(type(section))}


_FIELDS: dict[object, dict[str, FieldInfo]] = {}


def fields_by_name(model: Model) -> dict[str, FieldInfo]:
    """A model's fields under the names that files use."""
    if model not in _FIELDS:
        _FIELDS[model] = _read_fields(model)
    return _FIELDS[model]


def _read_fields(model: Model) -> dict[str, FieldInfo]:
    if issubclass(model, BaseModel):
        return {info.alias or name: info for name, info in model.model_fields.items()}
    assert is_dataclass(model)  # noqa: S101 - every section is one
    types, found = get_type_hints(model, include_extras=True), {}
    for each in dataclasses.fields(model):
        if "about" in each.metadata:  # the others are not of the file
            info = FieldInfo.from_annotation(types[each.name])
            info.description, info.default, info.default_factory = (
                each.metadata["about"],
                PydanticUndefined if each.default is MISSING else each.default,
                None if each.default_factory is MISSING else each.default_factory,
            )
            found[to_camel(each.name)] = info
    return found


def nested_model(info: FieldInfo) -> Model | None:
    """The model of a field that is a section itself."""
    annotation = info.annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, (Section, BaseModel)) else None


def item_model(info: FieldInfo) -> Model | None:
    """The model of the items of a field that is a list of sections."""
    items = get_args(info.annotation)
    listed = get_origin(info.annotation) is tuple and len(items) == 2 and items[1] is ...
    return items[0] if listed and isinstance(items[0], type) and issubclass(items[0], (Section, BaseModel)) else None


def keep_known_fields(data: Mapping[str, object], model: Model, findings: list[Finding], at: Loc) -> dict[str, object]:
    """The data that the model knows, without nulls, which mean "not given"; unknown fields become findings."""
    fields = fields_by_name(model) if data else {}
    kept: dict[str, object] = {}
    for name, value in data.items():
        loc = (*at, name)
        if name not in fields:
            allowed = f"allowed here: {', '.join(fields)}" if fields else "no fields are allowed here"
            from rescheduler.convert.convert import suggest_field  # noqa: PLC0415 - only mistakes need other tools' tables

            meant = suggest_field(name, fields) or hint(name, fields) or ";"
            findings.append(Finding(loc, f"is not a known field{meant} {allowed}"))
            continue
        section = nested_model(fields[name])
        if section is not None and isinstance(value, dict):
            kept[name] = keep_known_fields(value, section, findings, loc)
        elif (items := item_model(fields[name])) is not None and isinstance(value, list):
            kept[name] = [
                keep_known_fields(item, items, findings, (*loc, index)) if isinstance(item, dict) else item
                for index, item in enumerate(value)
            ]
        elif value is not None:
            kept[name] = value
    return kept


def _finite_part(data: Mapping[str, object], findings: list[Finding], at: Loc) -> dict[str, object]:
    """The data without infinities and NaN, which JSON cannot represent."""
    kept: dict[str, object] = {}
    for name, value in data.items():
        loc = (*at, name)
        if isinstance(value, dict):
            kept[name] = _finite_part(value, findings, loc)
        elif endless := [*_not_finite(value, loc)]:
            findings += endless
        else:
            kept[name] = value
    return kept


def _not_finite(value: object, loc: Loc) -> Iterator[Finding]:
    if isinstance(value, float) and not math.isfinite(value):
        yield Finding(loc, f"{value} is not a finite number")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _not_finite(item, (*loc, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _not_finite(item, (*loc, index))


def parse(data: Mapping[str, object], model: type[Parsed], at: Loc) -> Parsed | list[Finding]:
    """The model's instance, or what is wrong with the data."""
    findings: list[Finding] = []
    finite = _finite_part(data, findings, at)
    try:
        parsed = _adapter(model).validate_json(json.dumps(finite), strict=True)
    except ValidationError as error:
        return [*findings, *(_finding(details, cast("Model", model), at) for details in error.errors())]
    return findings or parsed


def _finding(details: ErrorDetails, model: Model, at: Loc) -> Finding:
    loc = details["loc"]
    cause = details.get("ctx", {}).get("error")
    if isinstance(cause, FieldError):
        loc = (*loc, *cause.field.split("."))
    return Finding((*at, *loc), _sentence(details, model))


def _sentence(details: ErrorDetails, model: Model) -> str:
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind in _EXPECTED:
        if isinstance(value, float) and kind.startswith("int"):
            return not_an_integer(value)
        return wrong_type(value, _EXPECTED[kind])
    if kind in _BOUNDS:
        return _out_of_bounds(value, _field_at(model, details["loc"]), details)
    if kind in ("enum", "literal_error"):
        allowed = re.findall(r"'([^']*)'", context["expected"]) or [context["expected"]]
        near = hint(value, allowed) if isinstance(value, str) else ""
        return f"{quote(value)} is not one of {', '.join(allowed)}{near}"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return "is not a known field"
    if kind == "missing":
        return "is required"
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])
    if kind == "json_invalid":
        return "is not Unicode text"
    return f"{quote(value)} is not accepted: {details['msg']}"


def _out_of_bounds(value: object, info: FieldInfo | None, details: ErrorDetails) -> str:
    metadata = info.metadata if info else ()
    bounds = {name: getattr(each, name) for each in metadata for name in _BOUND_WORDS if hasattr(each, name)}
    low, high = bounds.get("gt", bounds.get("ge")), bounds.get("lt", bounds.get("le"))
    if low is not None and high is not None:
        aside = f" ({low} itself excluded)" if "gt" in bounds and value == low else ""
        return f"{quote(value)} is not between {low} and {high}{aside}"
    ((name, edge),) = details.get("ctx", {}).items()
    whole = int(edge) if isinstance(edge, float) and edge.is_integer() else edge
    return f"{quote(value)} is not {_BOUND_WORDS[name]} {whole}"


def _field_at(model: Model, loc: Loc) -> FieldInfo | None:
    """The field that a path leads to; None within lists and mappings, which have bounds of their own."""
    owner: Model | None = model
    info: FieldInfo | None = None
    for part in loc:
        info = fields_by_name(owner).get(str(part)) if owner else None
        owner = nested_model(info) if info else None
    return info


Known = Mapping[str, type[StrategySettings]]


def check(data: Mapping[str, object], known: Known, kind: str = NATIVE_KIND) -> Configuration:
    """Check the native form's data (without apiVersion and kind)."""
    checking = _Checking(known)
    given = keep_known_fields(data, Fields, checking.findings, ())
    own = checking.own_settings(given.pop("strategies", {}))
    fields = checking.sound_fields(given)
    enabled = given.get("enabledStrategies", list(fields.enabled_strategies))
    names = enabled if isinstance(enabled, list) else []
    checking.check_names(names, ("enabledStrategies",))
    settings = checking.effective_settings(own, _inherited_settings(fields), [*own, *names])
    checking.check_pools(fields)
    pools = tuple(checking.of_pool(index, fields, own) for index in range(len(fields.pools)))
    if not DECIDING & {finding.loc[0] for finding in checking.findings if finding.loc}:
        checking.findings += find_misfits(fields, settings, pools, own)
    if checking.findings:
        raise InvalidError(*checking.findings)
    return Configuration(replace(fields, strategies=_written_out(settings, own)), settings, pools, kind, known)


def _inherited_settings(fields: Fields | Pool) -> dict[str, object]:
    """The values that strategies inherit, by the names of their fields; a pool has those that it says itself."""
    values = {name: getattr(fields, to_snake(name)) for name in INHERITED}
    return {name: value for name, value in values.items() if value is not None}


def _written_out(
    settings: Mapping[str, StrategySettings], own: Mapping[str, Mapping[str, object]]
) -> dict[str, dict[str, object]]:
    """Every setting as files give it, but those inherited: written out, they would no longer follow their source."""
    written: dict[str, dict[str, object]] = {}
    for name, values in settings.items():
        dumped = values.model_dump(mode="json", by_alias=True)
        given = own.get(name, {})
        written[name] = {key: value for key, value in dumped.items() if key not in INHERITED or key in given}
    return written


@dataclass(slots=True)
class _Checking:
    """What is found while one configuration is checked."""

    known: Known
    findings: list[Finding] = field(default_factory=list)

    def sound_fields(self, given: Mapping[str, object]) -> Fields:
        """The fields; without the wrong ones, so that the others are checked against each other too."""
        # Without a file or flags pydantic need not build its schema of all fields, which takes a while.
        parsed = parse(given, Fields, ()) if given else Fields()
        if isinstance(parsed, Fields):
            return parsed
        self.findings += parsed
        wrong = {finding.loc[0] for finding in parsed if finding.loc}
        sound = parse({name: value for name, value in given.items() if name not in wrong}, Fields, ())
        return sound if isinstance(sound, Fields) else Fields()

    def check_names(self, names: Sequence[object], at: Loc) -> None:
        """Strategies must exist, be named once and not conflict; the model checks that they are text."""
        seen: dict[str, int] = {}
        for index, name in enumerate(names):
            if not isinstance(name, str):
                continue
            loc: Loc = (*at, index)
            if name not in self.known:
                self.findings.append(Finding(loc, self._unknown(name)))
            elif name in seen:
                first = format_path((*at, seen[name]))
                self.findings.append(Finding(loc, f"{quote(name)} is listed already, at {first}"))
            elif undone := sorted(self._undone_by(name) & seen.keys()):
                cure = "leave one of them out, or give them node pools of their own (pools)"
                self.findings.append(Finding(loc, f"{name} and {undone[0]} undo each other's moves: {cure}"))
            seen.setdefault(name, index)

    def _undone_by(self, name: str) -> set[str]:
        """The strategies that conflict with this one, whichever of the two declares it."""
        return {
            other
            for other in self.known
            if other in self.known[name].conflicts_with or name in self.known[other].conflicts_with
        }

    def check_pools(self, fields: Fields) -> None:
        """Each must have a name of its own."""
        names = [pool.name for pool in fields.pools]
        for index, name in enumerate(names):
            if (first := names.index(name)) < index:
                other = format_path(("pools", first))
                taken = f"two pools are called {name}, this one and {other}: give each a name of its own"
                self.findings.append(Finding(("pools", index, "name"), taken))

    def of_pool(
        self, index: int, fields: Fields, top: Mapping[str, Mapping[str, object]]
    ) -> dict[str, StrategySettings]:
        """The effective settings of one pool's strategies: its own over those at the top."""
        pool, at = fields.pools[index], ("pools", index)
        names = fields.enabled_strategies if pool.enabled_strategies is None else pool.enabled_strategies
        if pool.enabled_strategies is not None:
            self.check_names(names, (*at, "enabledStrategies"))
        mine = self.own_settings(pool.strategies or {}, (*at, "strategies"))
        said = _inherited_settings(pool)  # a field of the pool wins over a strategy's setting at the top
        above = {name: {key: value for key, value in values.items() if key not in said} for name, values in top.items()}
        own = {name: {**above.get(name, {}), **mine.get(name, {})} for name in {*above, *mine}}
        before = len(self.findings)
        effective = self.effective_settings(own, {**_inherited_settings(fields), **said}, [*mine, *names], at)
        fresh = [finding for finding in self.findings[before:] if not self._is_reported(finding, mine, at)]
        self.findings[before:] = fresh
        return effective

    def _is_reported(self, finding: Finding, mine: Mapping[str, Mapping[str, object]], at: Loc) -> bool:
        """Whether the finding is about a value at the top, and was reported there."""
        _, name, *field = above = finding.loc[len(at) :]
        said = mine.get(str(name))
        if said is not None and (not field or field[0] in said):
            return False
        return any(each.loc == above and each.message == finding.message for each in self.findings)

    def own_settings(self, given: object, at: Loc = ("strategies",)) -> dict[str, dict[str, object]]:
        """The part of `strategies` that can be checked further."""
        if not isinstance(given, dict):
            self.findings.append(Finding(at, wrong_type(given, "a mapping of strategies to settings")))
            return {}
        own: dict[str, dict[str, object]] = {}
        for name, values in given.items():
            loc = (*at, name)
            if name not in self.known:
                self.findings.append(Finding(loc, self._unknown(name)))
            elif isinstance(values, dict):
                own[name] = keep_known_fields(values, self.known[name], self.findings, loc)
            elif values is not None:
                self.findings.append(Finding(loc, wrong_type(values, "a mapping")))
        return own

    def effective_settings(
        self,
        own: Mapping[str, Mapping[str, object]],
        inherited: Mapping[str, object],
        needed: Sequence[object],
        at: Loc = (),
    ) -> dict[str, StrategySettings]:
        """Each strategy's settings: its own, else inherited, else its defaults.

        A strategy that is neither enabled nor configured and cannot do with that (it has a setting without a default)
        is left out, so that an unused strategy never stands in the way.
        """
        effective: dict[str, StrategySettings] = {}
        for name, model in sorted(self.known.items()):
            names = fields_by_name(model)
            data = {key: value for key, value in inherited.items() if key in names} | dict(own.get(name, {}))
            parsed = parse(data, model, (*at, "strategies", name))
            if not isinstance(parsed, list):
                effective[name] = parsed
            elif name in needed:
                self.findings += parsed if at else [self._blamed(finding, own.get(name, {})) for finding in parsed]
        return effective

    def _blamed(self, finding: Finding, own: Mapping[str, object]) -> Finding:
        """Report a wrong inherited value at the field that it comes from."""
        source = finding.loc[2:]
        if len(source) != 1 or source[0] not in INHERITED or source[0] in own:
            return finding
        return Finding(source, f"{finding.message} (it is also the default of {format_path(finding.loc)})")

    def _unknown(self, name: str) -> str:
        listed = f"known: {', '.join(sorted(self.known))}" if self.known else "none are known"
        from rescheduler.convert.convert import suggest_strategy  # noqa: PLC0415 - only mistakes need the tables

        meant = suggest_strategy(name, self.known) or hint(name, self.known) or ";"
        return f"{quote(name)} is not a known strategy{meant} {listed}"

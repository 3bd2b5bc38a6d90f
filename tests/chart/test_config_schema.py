"""The schema of `config` refuses nothing that the controller takes: patterns against the controller's own parsers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from charts.config_schema import config_schema
from charts.value_comments import values_of
from charts.value_schema import SPECIAL
from hypothesis import example, given
from hypothesis import strategies as st

from rescheduler.config.schema import Fields
from rescheduler.config.validate import fields_by_name
from rescheduler.model.json import Json
from rescheduler.model.time import DurationError, format_duration, parse_duration
from rescheduler.strategies import settings_by_name
from tests.testbed.helm import CHART

CONFIG, DEFINITIONS = config_schema()
DURATION: str = CONFIG["properties"]["reschedulingInterval"]["pattern"]


def refuses(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is None


def parts(schema: object) -> Iterator[Json]:
    """A schema and all within it."""
    if isinstance(schema, dict):
        yield schema
    for each in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from parts(each)


@given(st.floats(min_value=0, max_value=1e7))
def test_every_duration_that_we_print_is_accepted(seconds: float) -> None:
    assert not refuses(DURATION, format_duration(seconds))


@given(st.text("0123456789.hmsnuµμ+", max_size=12))
@example("+1.5h.5m")
@example("0")
@example("9223372036855s")
def test_a_duration_is_accepted_if_the_controller_takes_it(text: str) -> None:
    assert refuses(DURATION, text) == (taken(text) is None)


def taken(text: str) -> float | None:
    """Seconds; None if it is none. One that is too long is a duration all the same: no pattern can count."""
    try:
        return parse_duration(text)
    except DurationError as error:
        return 0.0 if "too long" in str(error) else None


def test_every_field_of_the_configuration_is_in_the_schema() -> None:
    assert CONFIG["properties"].keys() - {"apiVersion", "kind"} == fields_by_name(Fields).keys()
    assert DEFINITIONS["strategies"]["properties"].keys() == settings_by_name().keys()
    for name, model in settings_by_name().items():
        assert DEFINITIONS["strategies"]["properties"][name]["properties"].keys() == fields_by_name(model).keys()


def test_no_section_takes_a_field_that_nobody_knows() -> None:
    for each in parts([CONFIG, DEFINITIONS]):
        if isinstance(each.get("properties"), dict) and each.get("type") == "object":
            assert each["additionalProperties"] is False


def test_what_is_referred_to_is_defined() -> None:
    named = {each["$ref"].removeprefix("#/$defs/") for each in parts([CONFIG, DEFINITIONS]) if "$ref" in each}
    assert named <= DEFINITIONS.keys()


def test_nothing_is_said_of_values_that_are_not_there() -> None:
    names = {each.name for each in values_of((CHART / "values.yaml").read_text(encoding="utf-8"))}
    assert SPECIAL.keys() <= names


@pytest.mark.parametrize(
    "pattern", sorted({each["pattern"] for each in parts([CONFIG, DEFINITIONS]) if "pattern" in each})
)
def test_patterns_are_read_alike_by_helm(pattern: str) -> None:
    """Go knows no look-around and no references; what begins and ends is said, since helm would look anywhere."""
    assert not re.search(r"\(\?[=!<]|\\[1-9]", pattern)
    assert pattern.startswith("^")
    assert pattern.endswith("$")

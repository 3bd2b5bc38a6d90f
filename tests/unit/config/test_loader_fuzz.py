"""Whatever a file holds, loading it gives a Configuration or a ConfigErrors whose lines have a place and a sentence."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.config.errors import ConfigErrors
from rescheduler.config.loader import load
from rescheduler.config.schema import Fields
from rescheduler.config.validate import fields_by_name, nested_model
from tests.support.configs import KNOWN, NATIVE_HEADER, SEED_HEADER

_NAMES = sorted(
    {"apiVersion", "kind", "profiles", "pluginConfig", "name", "args", "<<", "", "a.b", *KNOWN}
    | set(fields_by_name(Fields))
    | {
        name
        for info in fields_by_name(Fields).values()
        if (model := nested_model(info))
        for name in fields_by_name(model)
    }
    | {name for model in KNOWN.values() for name in fields_by_name(model)}
)
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["Rescheduler", "unlimited", "10s", "1e3", "80", "a in (b)", "auto", *KNOWN]),
)
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(_NAMES), inner, max_size=6)),
    max_leaves=20,
)
_fields = st.dictionaries(st.sampled_from(_NAMES), _values, max_size=8)
_SYNTAX = [*":\n\t[]{},'\"|>?@#~\0é", ": ", "- ", "  ", "&a ", "*a", "!!int ", "!x ", "<<", "---\n", "..."]
_SCALARS = ["%YAML 1.1", "\\x", "0x", "0b_", "1:30", ".nan", "on", "2024-01-01"]
_STARTS = [NATIVE_HEADER, SEED_HEADER, "profiles: [{pluginConfig: [{name: Rescheduler, args: "]
_pieces = st.sampled_from([*_NAMES, *_SYNTAX, *_SCALARS, *_STARTS])


def _check(text: str) -> None:
    try:
        config = load(text, "f", KNOWN)
    except ConfigErrors as refused:
        lines = [str(error) for error in refused.errors]
    else:
        assert load(config.effective_yaml(), "f", KNOWN) == config
        return
    assert lines
    for line in lines:
        assert line.startswith("f: ")
        assert "\n" not in line
        assert len(line) < 2000


@settings(deadline=None)
@given(st.text())
def test_any_text_is_loaded_or_refused(text: str) -> None:
    _check(text)


@settings(deadline=None)
@given(st.lists(_pieces, max_size=40).map("".join))
def test_any_heap_of_yaml_syntax_is_loaded_or_refused(text: str) -> None:
    _check(text)


@settings(deadline=None)
@given(st.sampled_from([NATIVE_HEADER, SEED_HEADER]), st.lists(_pieces, max_size=20).map("".join))
def test_any_text_after_a_sound_header_is_loaded_or_refused(header: str, text: str) -> None:
    _check(header + text)


@settings(deadline=None)
@given(_fields)
def test_any_structure_in_the_native_form_is_loaded_or_refused(data: dict[str, object]) -> None:
    header = {"apiVersion": "rescheduler.io/v1alpha1", "kind": "ReschedulerConfiguration"}
    _check(json.dumps(data | header))


@settings(deadline=None)
@given(_fields, _fields)
def test_any_structure_in_the_seeds_form_is_loaded_or_refused(top: dict[str, object], args: dict[str, object]) -> None:
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    profiles = [{"pluginConfig": [{"name": "Rescheduler", "args": args}]}]
    _check(json.dumps(top | header | {"profiles": profiles}))

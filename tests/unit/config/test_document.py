"""Text that is not one sound YAML mapping is refused with its place, and harmless corners of YAML are not."""

from __future__ import annotations

import pytest

from rescheduler.config.document import dump_document, read_document
from tests.support.configs import errors_of, native

_BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "is empty: a configuration starts with apiVersion and kind"),
        ("# only a comment\n", "is empty: a configuration starts with apiVersion and kind"),
        ("- a\n- b\n", "is a list, expected a mapping with apiVersion and kind"),
        ("hello", "is a string, expected a mapping with apiVersion and kind"),
        ("null", "is null, expected a mapping with apiVersion and kind"),
        (native("---\na: 1\n"), "holds 2 documents, expected one: the second starts on line 4"),
        ("a: b: c", "line 1, column 5: broken YAML: mapping values are not allowed in this context"),
        ("a:\n\t- b", "line 2, column 1: broken YAML: a tab where only spaces may be: indent with spaces"),
        ("é: \x07", r"line 1, column 4: broken YAML: the character '\x07' is not allowed"),
        ("a: \ud800", "is not Unicode text"),
        ("[" * 200_000, "line 1, column 101: is nested deeper than 100 levels"),
        ("a: &x [*x]", "is nested deeper than 100 levels once its aliases are followed"),
        (_BOMB, "holds more than 10000 values once its aliases are followed"),
    ],
)
def test_a_text_without_one_mapping_gives_one_error_with_its_place(text: str, error: str) -> None:
    assert errors_of(text) == [error]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("cpuThreshold: 1\ncpuThreshold: 2\n", 'line 4, column 1: "cpuThreshold" is given twice, first on line 3'),
        (
            "limits:\n  perNodeIn: 1\n  'perNodeIn': 2",
            'limits: line 5, column 3: "perNodeIn" is given twice, first on line 4',
        ),
        ("allow: {? [x] : 1}", "allow: line 3, column 11: a key is a list or a mapping, expected a string"),
        ("cpuThreshold: !foo 1", 'cpuThreshold: line 3, column 15: the tag "!foo" is not supported'),
        ("cpuThreshold: !!int x", 'cpuThreshold: line 3, column 15: "x" is not of the type int'),
        ("cpuThreshold: 0b_", 'cpuThreshold: line 3, column 15: "0b_" is not of the type int'),
        ("burst: &b 3\n<<: *b", "line 4, column 1: << is a number, expected a mapping"),
        (f"cpuThreshold: {2**63}", f'cpuThreshold: line 3, column 15: "{2**63}" is too large a number'),
    ],
)
def test_a_faulty_part_of_yaml_is_refused_with_path_line_and_column(body: str, error: str) -> None:
    assert error in errors_of(native(body))


def test_a_faulty_part_does_not_hide_other_errors() -> None:
    errors = errors_of(native("cpuThreshold: 180\nminPodAge: 1m\nminPodAge: 2m\n"))
    assert len(errors) == 2
    assert "cpuThreshold: 180 is not between 0 and 100" in errors


def test_a_huge_number_is_refused_in_a_short_line() -> None:
    for digits in ("9" * 5000, "0x" + "f" * 5000):
        (error,) = errors_of(native(f"cpuThreshold: {digits}"))
        assert len(error) < 150


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a: 1\n---\n", {"a": 1}),
        ("--- {a: 1}\n...\n", {"a": 1}),
        ('{"a": [1, 2.5, true, null, "x"]}', {"a": [1, 2.5, True, None, "x"]}),
        ("a: 8e1\nb: -1E+2\nc: 8e\n", {"a": 80.0, "b": -100.0, "c": "8e"}),
        ("a: 2024-01-01\nb: =\n", {"a": "2024-01-01", "b": "="}),
        ("1: x\non: y\nnull: z\n", {"1": "x", "on": "y", "null": "z"}),
        ("base: &b {x: 1, y: 2}\nz:\n  <<: *b\n  y: 3\n", {"base": {"x": 1, "y": 2}, "z": {"y": 3, "x": 1}}),
        (
            "p: &p {x: 1}\nq: &q {x: 2, y: 2}\nz: {<<: [*p, *q]}\n",
            {"p": {"x": 1}, "q": {"x": 2, "y": 2}, "z": {"x": 1, "y": 2}},
        ),
        ("\ufeffa: 1", {"a": 1}),
    ],
)
def test_yaml_is_read_as_kubernetes_reads_it(text: str, data: dict[str, object]) -> None:
    document = read_document(text)
    assert document.findings == ()
    assert document.data == data


@pytest.mark.parametrize(
    "text", ["1e3", "2024-01-01", "on", "0x1f", "1:30", "null", "~", "", " x ", "a: b", "重\u0085😀\x07", "=", "<<"]
)
def test_text_that_looks_like_something_else_is_printed_so_that_it_stays_text(text: str) -> None:
    data = {"a": text, "list": [text], text: 1}
    assert read_document(dump_document(data)).data == data

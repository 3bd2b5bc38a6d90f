"""YAML (and so JSON) text to plain data, and back: the one place that knows PyYAML's corners.

`load` gives it a file's text and gets one mapping of JSON's types. It refuses what Kubernetes refuses too (duplicate
keys, several documents) and what would hurt: nesting that overflows libyaml's C stack, aliases that expand without
end, integers beyond 64 bits. Dates stay text and every key is text, as in Kubernetes' own reading of YAML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import yaml
from yaml.constructor import SafeConstructor
from yaml.error import Mark
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from rescheduler.config.errors import Finding, InvalidError, Loc
from rescheduler.model.fields import describe_type, quote
from rescheduler.model.yaml import MAX_DEPTH, NestingError, check_nesting

_TAG = "tag:yaml.org,2002:"
_MOST_VALUES = 10_000
_KINDS = ("map", "seq", "str", "null", "bool", "int", "float", "timestamp", "value", "merge")
_MAX_INT64 = 2**63 - 1
# PyYAML follows YAML 1.1, where 8e1 is a string; in JSON, YAML 1.2 and Kubernetes it is a number.
_EXPONENT = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class Document:
    """A mapping of plain values, and what was wrong with parts of it; those parts are left out or null."""

    data: dict[str, object]
    findings: tuple[Finding, ...]


class _Loader(yaml.CSafeLoader):
    pass


class _Dumper(yaml.SafeDumper):
    # One object twice is written out twice: anchors in a printed configuration only puzzle.
    def ignore_aliases(self, data: object) -> bool:
        return True

    # Within other quotes PyYAML writes line breaks such as U+0085 as they are, and they come back as spaces.
    def represent_text(self, data: str) -> ScalarNode:
        return self.represent_scalar(f"{_TAG}str", data, style=None if data.isprintable() else '"')


_Dumper.add_representer(str, _Dumper.represent_text)
for _side in (_Loader, _Dumper):
    _side.add_implicit_resolver(f"{_TAG}float", _EXPONENT, list("-+0123456789"))


def dump_document(data: Mapping[str, object]) -> str:
    """Plain data as YAML that `read_document` reads back to the same data."""
    return yaml.dump(dict(data), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)


def read_document(text: str) -> Document:
    """The one mapping that the text holds; InvalidError if it is none, so that there is nothing to check further."""
    documents = _composed(text)
    if not documents:
        raise InvalidError(Finding((), "is empty: a configuration starts with apiVersion and kind"))
    if len(documents) > 1:
        second = documents[1].start_mark.line + 1
        message = f"holds {len(documents)} documents, expected one: the second starts on line {second}"
        raise InvalidError(Finding((), message))
    return _Converter().document_of(documents[0])


def read_documents(text: str) -> list[Document]:
    """All mappings that the text holds, one after the other."""
    return [_Converter().document_of(node) for node in _composed(text)]


def _composed(text: str) -> list[Node]:
    try:
        check_nesting(text)
        documents = list(yaml.compose_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        raise InvalidError(Finding((), f"{_at(error.problem_mark)}broken YAML: {_problem(error, text)}")) from error
    except NestingError as error:
        raise InvalidError(Finding((), str(error))) from error
    except yaml.YAMLError as error:  # a character that YAML does not allow
        raise InvalidError(Finding((), _bad_character(error, text))) from error
    except UnicodeError as error:
        raise InvalidError(Finding((), "is not Unicode text")) from error
    # kubectl ignores empty documents (a file that ends with ---) too.
    return [node for node in documents if not _is_empty(node)]


def _is_empty(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.tag == f"{_TAG}null" and node.value == ""


def _at(mark: Mark | None) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""


def _problem(error: yaml.MarkedYAMLError, text: str) -> str:
    mark = error.problem_mark
    if mark and text[mark.index : mark.index + 1] == "\t":
        return "a tab where only spaces may be: indent with spaces"
    return ", ".join(part for part in (error.context, error.problem) if part)


def _bad_character(error: yaml.YAMLError, text: str) -> str:
    # libyaml reports how many bytes precede it.
    before = text.encode()[: getattr(error, "position", 0)].decode(errors="ignore")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return f"line {line}, column {column}: broken YAML: the character {text[len(before) :][:1]!r} is not allowed"


class _Converter:
    """Walks a composed document once, with a budget, because an alias is walked again wherever it is used."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.values = 0
        self.scalars = SafeConstructor()

    def document_of(self, root: Node) -> Document:
        data = self._value(root, ())
        if not isinstance(data, dict):
            message = f"is {describe_type(data)}, expected a mapping with apiVersion and kind"
            raise InvalidError(self.findings[0] if self.findings else Finding((), message))
        return Document(data, tuple(self.findings))

    def _blame(self, node: Node, loc: Loc, message: str) -> None:
        self.findings.append(Finding(loc, _at(node.start_mark) + message))

    def _value(self, node: Node, loc: Loc) -> object:
        self.values += 1
        if self.values > _MOST_VALUES:
            raise InvalidError(Finding((), f"holds more than {_MOST_VALUES} values once its aliases are followed"))
        if len(loc) > MAX_DEPTH:  # an alias that contains itself ends here
            raise InvalidError(Finding((), f"is nested deeper than {MAX_DEPTH} levels once its aliases are followed"))
        if node.tag.removeprefix(_TAG) not in _KINDS:
            self._blame(node, loc, f"the tag {quote(node.tag)} is not supported")
            return None
        if isinstance(node, MappingNode):
            return self._mapping(node, loc)
        if isinstance(node, SequenceNode):
            return [self._value(item, (*loc, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, loc)

    def _mapping(self, node: MappingNode, loc: Loc) -> dict[str, object]:
        found: dict[str, object] = {}
        merged: dict[str, object] = {}
        first_lines: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self._blame(key, loc, "a key is a list or a mapping, expected a string")
                continue
            if key.tag == f"{_TAG}merge":
                merged = self._merged(key, value, loc) | merged
                continue
            name = str(key.value)
            if name in first_lines:
                self._blame(key, loc, f"{quote(name)} is given twice, first on line {first_lines[name]}")
                continue
            first_lines[name] = key.start_mark.line + 1
            found[name] = self._value(value, (*loc, name))
        return found | {name: value for name, value in merged.items() if name not in found}

    def _merged(self, key: Node, node: Node, loc: Loc) -> dict[str, object]:
        """What `<<: *base` brings along; of several bases the first one wins."""
        result: dict[str, object] = {}
        for base in node.value if isinstance(node, SequenceNode) else [node]:
            value = self._value(base, (*loc, "<<"))
            if not isinstance(value, dict):
                self._blame(key, loc, f"<< is {describe_type(value)}, expected a mapping")
                continue
            result = value | result
        return result

    def _scalar(self, node: Node, loc: Loc) -> object:
        kind = node.tag.removeprefix(_TAG)
        if kind not in ("null", "bool", "int", "float"):
            return str(node.value)
        try:
            value: object = self.scalars.construct_document(node)
        except (ValueError, LookupError, ArithmeticError):
            self._blame(node, loc, f"{quote(node.value)} is not of the type {kind}")
            return None
        if type(value) is int and abs(value) > _MAX_INT64:
            self._blame(node, loc, f"{quote(node.value)} is too large a number")
            return None
        return value

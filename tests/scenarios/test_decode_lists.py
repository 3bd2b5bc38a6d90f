"""Lists in all the forms that tools write, streams that come in pieces, and files that are no dump."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import pytest
import yaml

from rescheduler.decode import split as splitter
from rescheduler.decode.dump import DumpError, DumpReader
from rescheduler.decode.reader import SnapshotBuilder
from rescheduler.model.snapshot import ClusterSnapshot
from tests.support import dumps
from tests.support.dumps import Object
from tests.support.planning import read_bytes

NODE, POD = dumps.node("a"), dumps.pod("p", "a")


def text(*things: object) -> bytes:
    return "\n".join(json.dumps(thing) for thing in things).encode()


def bare(thing: Object) -> Object:
    """As an item in an API server's list: without apiVersion and kind."""
    return {key: value for key, value in thing.items() if key not in ("apiVersion", "kind")}


def listed(kind: str, items: Any, **more: Any) -> Object:
    return {"kind": kind, "apiVersion": "v1", **more, "items": items}


def last(thing: Object) -> Object:
    """The same list, with its items before all else."""
    return {"items": thing["items"], **{key: value for key, value in thing.items() if key != "items"}}


NODES, PODS = listed("NodeList", [bare(NODE)]), listed("PodList", [bare(POD)])
FORMS: list[tuple[str, bytes]] = [
    ("a List", text(listed("List", [NODE, POD]))),
    ("lists by kind", text(NODES, PODS)),
    ("lists by kind with the kind last", text(last(NODES), last(PODS))),
    ("lists in a List", text(listed("List", [NODES, last(PODS)]))),
    ("a List in a List", text(listed("List", [listed("List", [NODE]), POD]))),
    ("objects one after the other", text(NODE, POD)),
    ("objects with nothing between", text(NODE) + text(POD)),
    ("an array", text([NODE, POD])),
    ("empty lists", text(listed("JobList", []), [], listed("List", []), NODE, POD)),
    ("a List with null for metadata", text(listed("List", [NODE, POD], metadata=None))),
    ("spaced out", b" \r\n\t" + json.dumps(listed("List", [NODE, POD]), indent=4).encode() + b"\n\n "),
    ("with a byte order mark", b"\xef\xbb\xbf" + text(listed("List", [NODE, POD]))),
    ("gzipped", gzip.compress(text(listed("List", [NODE, POD])))),
    ("gzipped in two members", gzip.compress(text(NODE)) + gzip.compress(text(POD))),
    ("a YAML List", yaml.safe_dump(listed("List", [NODE, POD])).encode()),
    ("YAML lists by kind", yaml.safe_dump_all([NODES, PODS]).encode()),
    ("YAML documents", yaml.safe_dump_all([NODE, POD]).encode()),
    ("a YAML sequence", yaml.safe_dump([NODE, POD]).encode()),
    ("YAML with a comment first", b"# recorded today\n" + yaml.safe_dump_all([NODE, POD]).encode()),
    ("YAML with a directive", b"%YAML 1.1\n---\n" + yaml.safe_dump_all([NODE, POD]).encode()),
    ("YAML, gzipped, with a mark", gzip.compress(b"\xef\xbb\xbf" + yaml.safe_dump_all([NODE, POD]).encode())),
    ("other kinds between", text(listed("List", [NODE, {"apiVersion": "v1", "kind": "ConfigMap"}, POD]))),
    (
        "a custom kind that ends in List",
        text(listed("List", [NODE, {"apiVersion": "x.io/v1", "kind": "AllowList"}, POD])),
    ),
]


@pytest.mark.parametrize("content", [pytest.param(content, id=name) for name, content in FORMS])
def test_every_form_of_a_list_is_read_alike(content: bytes) -> None:
    found = read_bytes(content)
    assert ([node.name for node in found.nodes], [pod.name for pod in found.pods]) == (["a"], ["p"])
    assert found.pods[0].node == "a"
    assert found.warnings == ()


class Trickle(io.RawIOBase):
    """A pipe that gives a few bytes at a time."""

    def __init__(self, content: bytes, size: int) -> None:
        self._content = io.BytesIO(content)
        self._size = size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._content.read(self._size if size < 0 else min(size, self._size))

    def readinto(self, buffer: Any) -> int:
        chunk = self.read(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)


def trickled(content: bytes, size: int) -> ClusterSnapshot:
    collector = SnapshotBuilder()
    DumpReader(collector).read(Trickle(content, size), "f.json")  # type: ignore[arg-type]  # it has what is used
    return collector.snapshot()


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("name", ["a List", "gzipped", "with a byte order mark", "YAML documents"])
def test_a_pipe_that_gives_a_few_bytes_at_a_time_is_read_alike(name: str, size: int) -> None:
    assert [node.name for node in trickled(dict(FORMS)[name], size).nodes] == ["a"]


VALUES = ["1e5", "-3", "1.5", "1E+5", "true", "null", '"\\u00e9"', '"\\ud83d\\ude00"', '"é\\n"', '{"x":[-1]}', "[]"]


@pytest.mark.parametrize("value", VALUES)
def test_where_the_window_ends_does_not_matter(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = (
        f'{{"kind":"List","items":[{{"kind":"Node","metadata":{{"name":"a"}},"x":{value}}}],"y":{value}}}'.encode()
    )
    monkeypatch.setattr(splitter, "_CHUNK", 1)
    parts = [bytes(part) for part in splitter.split(Trickle(content, 1)) if not isinstance(part, splitter.ListHead)]  # type: ignore[arg-type]  # it has what is used
    assert [json.loads(part) for part in parts] == [json.loads(content)["items"][0]]


def test_a_number_at_the_end_of_the_first_megabyte_is_read() -> None:
    head = b'{"kind":"List","apiVersion":"v1","items":[{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"},"x":"'
    tail = b'","y":-'
    content = head + b"." * (2**20 - len(head) - len(tail)) + tail + b"1}]}"
    assert [node.name for node in read_bytes(content).nodes] == ["a"]


REFUSED: list[tuple[str, bytes, str]] = [
    ("nothing", b"", "is empty"),
    ("nothing, gzipped", gzip.compress(b""), "is empty"),
    ("UTF-16, little end first", '{"kind":"Pod"}'.encode("utf-16-le").join([b"\xff\xfe", b""]), "UTF-16"),
    ("an API error", text({"kind": "Status", "apiVersion": "v1", "message": "forbidden"}), "error of the API server"),
    ("half a List", text(listed("List", [NODE, POD]))[:-40], "not usable as JSON"),
    ("half a gzip", gzip.compress(text(NODE))[:-9], "cannot be read"),
    ("a comma too many", b'{"kind":"List","items":[],}', "a comma before the closing brace"),
    ("two items without comma", b'{"kind":"List","items":[{} {}]}', "expected ','"),
    ("no JSON at all", b"{kind: Pod", "not usable"),
    ("a text", b"just some words", "expected objects, found str"),
    ("a number", b"7", "expected objects"),
]


@pytest.mark.parametrize(("content", "words"), [pytest.param(*row[1:], id=row[0]) for row in REFUSED])
def test_what_is_no_dump_is_refused_with_the_name_of_the_file(content: bytes, words: str) -> None:
    with pytest.raises(DumpError) as refused:
        read_bytes(content)
    assert str(refused.value).startswith("f.json: ")
    assert words in str(refused.value)


def tried(content: bytes) -> tuple[list[str], str]:
    """The names of the nodes in it, or what the refusal says."""
    try:
        return [node.name for node in read_bytes(content).nodes], ""
    except DumpError as error:
        return [], str(error)


@pytest.mark.parametrize("items", [{}, 7, "absent"])
def test_a_list_without_items_is_not_called_deep(items: object) -> None:
    thing = {"kind": "List", "apiVersion": "v1"} if items == "absent" else listed("List", items)
    nodes, refusal = tried(text(thing, NODE))
    assert "nested too deeply" not in refusal
    assert refusal or nodes == ["a"]


@pytest.mark.parametrize("after", [[NODE], [NODE, last(listed("PodList", []))]])
def test_an_object_without_kind_is_left_out_with_a_warning(after: list[Object]) -> None:
    found = read_bytes(text({"metadata": {"name": "ghost"}}, *after))
    assert found.pods == ()
    assert any("without kind" in warning for warning in found.warnings)


ODD_YAML = [
    ("a lone equals sign", "spec: {x: =}"),
    ("a key that is yes", "spec: {yes: 1}"),
    ("a key that is null", "spec: {~: 1}"),
    ("a number without digits", "spec: {x: 0x_}"),
    ("a number that is none", "spec: {x: !!int foo}"),
    ("a truth that is none", "spec: {x: !!bool foo}"),
    ("a time that is none", "spec: {x: !!timestamp foo}"),
    ("an object of Python's", "spec: {x: !!python/object:os.system foo}"),
    ("a list in itself", "spec: &a {x: *a}"),
    ("not a number", "status: {allocatable: {cpu: .nan}}"),
]


@pytest.mark.parametrize("line", [pytest.param(line, id=name) for name, line in ODD_YAML])
def test_odd_yaml_is_read_or_refused_but_never_a_traceback(line: str) -> None:
    nodes, refusal = tried(f"apiVersion: v1\nkind: Node\nmetadata: {{name: a}}\n{line}\n".encode())
    assert refusal.startswith("f.json: ") or nodes == ["a"]


def test_a_lone_equals_sign_is_a_text() -> None:
    content = b"apiVersion: v1\nkind: Node\nmetadata: {name: a}\n---\nkind: ConfigMap\ndata: {matchType: =}\n"
    assert [node.name for node in read_bytes(content).nodes] == ["a"]

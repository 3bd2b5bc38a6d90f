"""Splits a stream of JSON into objects, one at a time, so that a large dump is never in memory as a whole.

The stream has one or more JSON values, each an object or a list of objects (`items`). msgspec finds where a value ends:
asked to skip one value, it either takes the whole buffer, names the byte at which something else starts, or says that
the text is truncated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import msgspec

_SKIP = msgspec.json.Decoder(msgspec.Raw)
_STRING = msgspec.json.Decoder(str)
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_BYTE = re.compile(r"\(byte (\d+)\)")
_SPACE = b" \t\r\n"
_CHUNK = 1 << 20
_EDGE = 64


class JsonError(ValueError):
    """Text that is not JSON; the message has the position."""


@dataclass(frozen=True, slots=True)
class ListHead:
    """The header of a list: known at its `start` if it comes before the items, certainly at its end."""

    start: bool
    api_version: str | None = None
    kind: str | None = None
    metadata: bytes = b""


class JsonStream:
    """A window over a binary stream, from which values are taken."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._window = b""
        self._at = 0
        self._passed = 0
        self._ended = False

    @property
    def position(self) -> int:
        """The number of bytes taken so far."""
        return self._passed + self._at

    def _more(self) -> bool:
        """Slide the window: drop what was taken and read on. The step grows with the unfinished value."""
        rest = self._window[self._at :]
        chunk = self._stream.read(max(_CHUNK, len(rest)))
        self._passed += self._at
        self._window, self._at = rest + chunk, 0
        self._ended = not chunk
        return bool(chunk)

    def peek(self) -> bytes:
        """Return the next character that is not white space; empty at the end."""
        while True:
            while self._at < len(self._window):
                if self._window[self._at] not in _SPACE:
                    return self._window[self._at : self._at + 1]
                self._at += 1
            if not self._more():
                return b""

    def take(self, expected: bytes) -> None:
        """Skip one punctuation mark."""
        found = self.peek()
        if found != expected:
            raise self._error(f"expected {expected.decode()!r}, found {found.decode(errors='replace') or 'the end'!r}")
        self._at += 1

    def value(self) -> memoryview:
        """Return the bytes of the next value, valid until the next call."""
        if not self.peek():
            raise self._error("the text ends where a value should be")
        while True:
            view = memoryview(self._window)[self._at :]
            size = self._size(view)
            if size is not None and (size < len(view) or self._ended or not self._may_go_on(view)):
                self._at += size
                return view[:size]
            if not self._more() and size is None:
                raise self._error("the text is cut off in the middle of a value")

    def _size(self, view: memoryview) -> int | None:
        """Return the length of the value at the start of the view; None if the view is too short."""
        try:
            _SKIP.decode(view)
        except msgspec.DecodeError as error:
            found = _TRAILING.search(str(error))
            if found:
                return int(found[1]) - 1
            inside = _BYTE.search(str(error))
            # A number or word cut by the window is reported as malformed, not truncated: read more of it.
            at_the_edge = inside is not None and int(inside[1]) >= len(view) - _EDGE
            if "truncated" in str(error) or (at_the_edge and not self._ended):
                return None
            raise JsonError(
                f"byte {self.position + (int(inside[1]) if inside else 0)}: {_BYTE.sub('', str(error)).strip()}"
            ) from None
        return len(view)

    @staticmethod
    def _may_go_on(view: memoryview) -> bool:
        """Whether a value that fills the window could be longer: a number could, a closed value could not."""
        return bytes(view[-1:]) not in (b"}", b"]", b'"')

    def _error(self, text: str) -> JsonError:
        return JsonError(f"byte {self.position}: {text}")


def split(stream: BinaryIO) -> Iterator[memoryview | ListHead]:
    """Yield each object of the stream, and the head of each list before and after its items.

    kubectl writes a list's kind after its items, which have kinds of their own; the API server writes the kind first,
    and its items have none. A view is valid until the next one is taken.
    """
    source = JsonStream(stream)
    while mark := source.peek():
        if mark == b"[":
            yield ListHead(start=True)
            yield from _elements(source)
            yield ListHead(start=False)
        elif mark == b"{":
            yield from _object(source)
        else:
            raise JsonError(f"byte {source.position}: expected an object, found {mark.decode(errors='replace')!r}")


def _elements(source: JsonStream) -> Iterator[memoryview]:
    source.take(b"[")
    if source.peek() == b"]":
        source.take(b"]")
        return
    while True:
        yield source.value()
        if source.peek() == b"]":
            source.take(b"]")
            return
        source.take(b",")


def _object(source: JsonStream) -> Iterator[memoryview | ListHead]:
    """Yield the items of a top-level list as a stream; without items, the object itself."""
    fields: dict[str, bytes] = {}
    is_list = False
    source.take(b"{")
    while source.peek() != b"}":
        if fields or is_list:
            source.take(b",")
            if source.peek() == b"}":
                raise JsonError(f"byte {source.position}: a comma before the closing brace")
        key = _string(source)
        source.take(b":")
        if key == "items" and source.peek() == b"[":
            is_list = True
            yield _head(fields, start=True)
            yield from _elements(source)
        else:
            fields[key] = bytes(source.value())
    source.take(b"}")
    if is_list or (fields.get("kind", b"").endswith(b'List"') and fields.get("items") == b"null"):
        yield _head(fields, start=False)
    else:
        body = b",".join(msgspec.json.encode(name) + b":" + value for name, value in fields.items())
        yield memoryview(b"{" + body + b"}")


def _head(fields: dict[str, bytes], *, start: bool) -> ListHead:
    return ListHead(start, _text(fields.get("apiVersion")), _text(fields.get("kind")), fields.get("metadata", b""))


def _string(source: JsonStream) -> str:
    if source.peek() != b'"':
        raise JsonError(f"byte {source.position}: expected a field name in quotes")
    return _STRING.decode(source.value())


def _text(raw: bytes | None) -> str | None:
    return _STRING.decode(raw) if raw is not None and raw.startswith(b'"') else None

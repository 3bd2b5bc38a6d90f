"""Copies of JSON objects, for whoever changes one and must leave the original. Several times as fast as deepcopy."""

from __future__ import annotations

from typing import TypeVar, cast

import msgspec

_Value = TypeVar("_Value")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def fresh(value: _Value) -> _Value:
    """The same again, with no part in common."""
    return cast("_Value", _decode(_encode(value)))

"""Protobuf bodies: those of kubectl, as its typed clients write them."""

from __future__ import annotations

from typing import Any

import pytest

from kubemini.server.protobuf import MEDIA_TYPE, UnknownMessageError, decode
from tests.unit.kubemini.served import served

Fields = list[tuple[int, Any]]


def message(fields: Fields) -> bytes:
    """A message of texts, numbers and other messages."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
            continue
        data = message(value) if isinstance(value, list) else value.encode()
        out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def enveloped(api_version: str, kind: str, fields: Fields) -> bytes:
    raw = message(fields)
    head = message([(1, [(1, api_version), (2, kind)])])
    return b"k8s\0" + head + varint(2 << 3 | 2) + varint(len(raw)) + raw + message([(3, ""), (4, "")])


METADATA: Fields = [
    (1, "p"),
    (2, ""),
    (3, "n"),
    (7, 0),
    (8, []),
    (11, [(1, "a"), (2, "b")]),
    (11, [(1, "c"), (2, "d")]),
]


def test_an_eviction_is_read() -> None:
    options: Fields = [(1, 300), (2, [(1, "some-uid")]), (5, "All")]
    assert decode(enveloped("policy/v1", "Eviction", [(1, METADATA), (2, options)])) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "n"},
        "deleteOptions": {"gracePeriodSeconds": 300, "preconditions": {"uid": "some-uid"}, "dryRun": ["All"]},
    }


@pytest.mark.parametrize(
    "raw",
    [
        b"{}",
        enveloped("apps/v1", "Deployment", []),
        enveloped("policy/v1", "Eviction", [(1, METADATA)])[:-20],
        enveloped("policy/v1", "Eviction", [(1, 7)]),
        b"k8s\0\x0a\xff",
    ],
)
def test_other_messages_are_refused(raw: bytes) -> None:
    with pytest.raises(UnknownMessageError):
        decode(raw)


async def test_kubectl_reads_why_it_cannot_create_a_deployment() -> None:
    async with served() as client:
        path = "/apis/apps/v1/namespaces/default/deployments"
        body = enveloped("apps/v1", "Deployment", [])
        refused = await client.send("POST", path, body, {"Content-Type": MEDIA_TYPE})
        assert (refused.status, refused.json["reason"]) == (415, "UnsupportedMediaType")
        assert "kubectl apply" in refused.message

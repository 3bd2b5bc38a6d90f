"""Thousands of requests that make no sense: no crash, no 5xx without a reason, and no more memory than before."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import random
import ssl
import time
from collections import Counter
from collections.abc import Callable

import pytest

from rescheduler.admission.certificates import KeyPair, new_authority, new_serving
from rescheduler.admission.extender import Extender
from rescheduler.admission.server import Address, AdmissionServer, CertificateSource, Handler, ServerLimits
from rescheduler.admission.webhook import PodMutator
from tests.support.examples import examples
from tests.support.raw_http import HOST, resident, send
from tests.unit.admission.worlds import NOW, WEB, World, record, reference

REVIEWS = examples(few=500, many=5000)
CALLERS = 8
LARGEST = 200_000
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "shop",
        "object": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": "web-",
                "namespace": "shop",
                "labels": {"app": "web"},
                "ownerReferences": [reference(WEB)],
            },
            "spec": {"containers": [{"name": "main", "image": "web:1"}]},
        },
    },
}
PATHS = [
    *["/mutate", "/mutate?timeout=5s"] * 10, *["/extender/filter", "/extender/prioritize"] * 3,
    "/", "/mutate/", "/%00", "/..//mutate", "*",
]  # fmt: skip
Random = random.Random


def routes() -> dict[str, Handler]:
    """All that we serve, on a cluster where pods of `web` have failed."""
    world = World()
    world.deployment(record("one", "two"))
    placement_advisor = world.placement_advisor()
    extender = Extender(placement_advisor, lambda new_pod, why: None)
    mutation = PodMutator(placement_advisor, lambda: ("kube-system",), lambda: NOW)
    return {
        "/mutate": mutation.review,
        "/extender/filter": extender.filter,
        "/extender/prioritize": extender.prioritize,
    }


def head(rng: Random, length: int, content: str = "application/json", path: str = "") -> bytes:
    path = path or rng.choice(PATHS)
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Type: {content}", f"Content-Length: {length}"]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode()


def whole(rng: Random, body: bytes) -> bytes:
    return head(rng, len(body)) + body


def fuzzed(rng: Random) -> bytes:
    body = bytearray(json.dumps(REVIEW).encode())
    for _ in range(rng.randint(1, 20)):
        body[rng.randrange(len(body))] = rng.randrange(256)
    return whole(rng, bytes(body))


def wrong_kind(rng: Random) -> bytes:
    value: object = rng.choice(
        [None, [], 1, "x", True, {}, {"request": None}, {"request": []}, {"request": {"uid": 5}}]
    )
    if rng.random() < 0.5:
        value = {"apiVersion": "v1", "kind": rng.choice(["Pod", "List", "", 7]), "request": value}
    return whole(rng, json.dumps(value).encode())


def deep(rng: Random) -> bytes:
    depth = rng.randint(100, 50_000)
    return whole(rng, b"[" * depth + rng.choice([b"", b"]" * depth]))


def huge(rng: Random) -> bytes:
    size = rng.randint(LARGEST // 2, LARGEST * 2)
    return whole(rng, b'{"request":{"uid":"' + b"x" * size + b'"}}')


def truncated(rng: Random) -> bytes:
    body = json.dumps(REVIEW).encode()
    cut = rng.randrange(len(body))
    if rng.random() < 0.5:
        return whole(rng, body[:cut])
    return head(rng, len(body)) + body[:cut]  # and it hangs up


def wrong_type(rng: Random) -> bytes:
    kind = rng.choice(["text/plain", "application/yaml", "", "application/vnd.kubernetes.protobuf", "\x00"])
    body = json.dumps(REVIEW).encode()
    return head(rng, len(body), kind) + body


def wrong_method(rng: Random) -> bytes:
    method = rng.choice([b"GET", b"PUT", b"DELETE", b"HEAD", b"PATCH", b"TRACE", b"CONNECT", b"post", b"\x00", b""])
    return method + whole(rng, json.dumps(REVIEW).encode())[4:]


def noise(rng: Random) -> bytes:
    return rng.randbytes(rng.randint(0, 2000))


def good(rng: Random) -> bytes:
    return whole(rng, json.dumps(REVIEW).encode())


KINDS: tuple[Callable[[Random], bytes], ...] = (
    fuzzed, fuzzed, fuzzed, wrong_kind, deep, huge, truncated, wrong_type, wrong_method, noise, good,
)  # fmt: skip


async def test_many_reviews_of_garbage() -> None:
    statuses: Counter[int] = Counter()
    sizes: list[int] = []
    numbers = iter(range(REVIEWS))
    rng = Random(6)
    async with AdmissionServer(routes(), None, Address(HOST, 0), ServerLimits(body=LARGEST)).listening() as server:
        port = server.address.port

        async def caller() -> None:
            for number in numbers:
                sent = rng.choice(KINDS)(rng)
                answer = await send(port, sent)
                if answer:
                    status = int(answer.split()[1])
                    statuses[status] += 1
                    reason = answer.partition(b"\r\n\r\n")[2]
                    assert status < 400 or reason or sent.startswith(b"HEAD"), answer
                if number % (REVIEWS // 10) == REVIEWS // 10 - 1:
                    gc.collect()
                    sizes.append(resident())

        async with asyncio.TaskGroup() as group:
            for _ in range(CALLERS):
                group.create_task(caller())
        body = json.dumps(REVIEW).encode()
        answer = await send(port, head(rng, len(body), path="/mutate") + body)
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"JSONPatch" in answer
    assert {200, 400, 404, 405, 413, 415} <= set(statuses)
    assert not [status for status in statuses if status >= 500]
    # 2,500 bodies of 30 KB on average would be 75 MB. What is in flight differs from moment to moment.
    assert max(sizes[5:]) <= max(sizes[:5]) + 16 * 2**20, sizes


async def hung_up(reader: asyncio.StreamReader) -> None:
    """The loop's clock is put forward until it is so: what takes a machine under load a second is no handshake late."""
    loop, ended = asyncio.get_running_loop(), asyncio.create_task(reader.read())
    clock, ahead = loop.time, 0.0
    loop.time = lambda: clock() + ahead  # type: ignore[method-assign]  # the loop is this test's own
    while not ended.done():
        ahead += 1.0
        await asyncio.sleep(0)
    with contextlib.suppress(ConnectionError):
        await ended


async def test_noise_where_a_handshake_should_be(caplog: pytest.LogCaptureFixture) -> None:
    now = time.time()
    authority = new_authority("test", now)

    async def given() -> KeyPair:
        return new_serving(authority, [HOST], now)

    source = CertificateSource(given)
    assert await source.refresh()
    trust = ssl.create_default_context(cadata=authority.certificate.decode())
    rng = Random(7)
    async with AdmissionServer(
        {"/echo": bytes}, source.context, Address(HOST, 0), ServerLimits(handshake=60.0)
    ).listening() as server:
        for number in range(300):
            reader, writer = await asyncio.open_connection(HOST, server.address.port)
            writer.write(rng.choice([b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/1.1\r\n\r\n"]))
            writer.write(rng.randbytes(rng.randint(0, 500)))
            if number % 100 == 0:
                await hung_up(reader)  # at the latest when the time for a handshake is over
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        _, writer = await asyncio.open_connection(HOST, server.address.port, ssl=trust)
        writer.close()
        await writer.wait_closed()
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []

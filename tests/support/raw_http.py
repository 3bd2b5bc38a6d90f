"""Bytes sent to a server of ours as they are, for tests that send garbage; and how much memory that costs it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import resource
from pathlib import Path

HOST = "127.0.0.1"


async def send(port: int, sent: bytes) -> bytes:
    """The answer; nothing if there is none."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(sent)
        await writer.drain()
        return await reader.read() if complete(sent) else b""  # else it hangs up in the middle
    except ConnectionError:
        return b""  # it was hung up on, while it still sent
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def complete(sent: bytes) -> bool:
    """Whether the body is as long as the head says; else no answer comes before it."""
    first, end, body = sent.partition(b"\r\n\r\n")
    declared = re.search(rb"\r\nContent-Length: *(\d+)", first, re.IGNORECASE)
    return bool(end and declared) and len(body) >= int(declared[1] if declared else 0)


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

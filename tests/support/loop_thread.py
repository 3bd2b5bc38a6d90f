"""An event loop in a thread of its own, for tests that block while something asynchronous runs."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Result = TypeVar("Result")


class LoopThread(Generic[T]):
    """Holds an asynchronous context open from its making until `end`, and raises what goes wrong in it."""

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[T]], name: str) -> None:
        self.loop: asyncio.AbstractEventLoop
        self.value: T
        """What the context gives."""
        self._make = make
        self._stop: asyncio.Event
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self.end()

    def call(self, make: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run a coroutine function in the loop and return its result."""
        return asyncio.run_coroutine_threadsafe(make(), self.loop).result()

    def end(self) -> None:
        """Close the context and wait for the thread."""
        if self._thread.is_alive() and self._failure is None:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself, with a failure that is raised below
                self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._hold())
        except BaseException as error:  # noqa: BLE001  it is raised again in the thread that ends this one
            self._failure = error
        finally:
            self._ready.set()

    async def _hold(self) -> None:
        self.loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self._make() as self.value:
            self._ready.set()
            await self._stop.wait()

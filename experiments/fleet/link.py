"""A link that breaks: a proxy of TCP on this machine, which cuts connections, holds what is sent, or slows it.

Links live in one thread with an event loop of its own; their methods may be called from any thread.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any

_CHUNK = 64 << 10
_LISTEN_SECONDS = 10.0


class Link:
    """Hands connections to a port of this machine on.

    Args:
        loop: that it lives in.
        port: where its connections end up.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, port: int) -> None:
        self._loop, self._target = loop, port
        self._transports: set[asyncio.StreamWriter] = set()
        self._held_until = self._slow_until = self._refused_until = 0.0
        self._delay = 0.0
        self.bytes = 0
        """That have passed."""
        self.port = 0
        """Where it listens."""

    async def listen(self) -> None:
        """Take a free port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self, seconds: float = 0.0) -> None:
        """Reset all connections, and refuse others for some seconds."""

        def now() -> None:
            self._refused_until = time.monotonic() + seconds
            for writer in list(self._transports):
                writer.transport.abort()

        self._loop.call_soon_threadsafe(now)

    def hold(self, seconds: float) -> None:
        """Keep what is sent for some seconds, as a cable does that is pulled and put back: nobody is told."""
        self._held_until = time.monotonic() + seconds

    def slow(self, delay: float, seconds: float) -> None:
        """For some seconds, all that is sent comes later."""
        self._delay, self._slow_until = delay, time.monotonic() + seconds

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._transports.add(writer)
        try:
            if time.monotonic() < self._refused_until:
                return
            with suppress(OSError):
                await self._connected(reader, writer)
        finally:
            self._transports.discard(writer)
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._transports.add(far_writer)
        try:
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        finally:
            self._transports.discard(far_writer)
            far_writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand on what comes until one side ends, which ends both."""
        while data := await reader.read(_CHUNK):
            while (left := self._held_until - time.monotonic()) > 0:
                await asyncio.sleep(left)
            if time.monotonic() < self._slow_until:
                await asyncio.sleep(self._delay)
            self.bytes += len(data)
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError("one side has ended")

    async def close(self) -> None:
        """Cut it for good."""
        self._server.close()
        for writer in list(self._transports):
            writer.transport.abort()


class Links:
    """The links of a fleet."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._thread.start()
        self.all: dict[str, Link] = {}

    def open(self, name: str, port: int) -> Link:
        """A new one, by whose name it is told of."""
        link = self.all[name] = Link(self._loop, port)
        self._run(link.listen())
        return link

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_LISTEN_SECONDS)

    def close(self) -> None:
        """End all of them."""
        for link in self.all.values():
            self._run(link.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LISTEN_SECONDS)

    def __enter__(self) -> Links:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

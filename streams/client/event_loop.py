"""An event loop that closes its connections at its end.

aiokafka drops a failed connection without waiting until it is closed. A TLS shutdown takes a while, and a loop closed meanwhile
would leave the socket open until it is garbage-collected. The thread in which Faust reads has a loop of Faust's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar
from weakref import WeakSet

__all__ = ["EventLoop", "run"]

T = TypeVar("T")


class EventLoop(asyncio.SelectorEventLoop):
    """Closes open connections when it is closed."""

    def __init__(self) -> None:
        """Make it; `close` must be called."""
        super().__init__()
        self._opened: WeakSet[asyncio.WriteTransport] = WeakSet()

    async def create_connection(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401  handed on
        """Connect as any loop does, and note it."""
        transport, protocol = await super().create_connection(*arguments, **options)
        self._opened.add(transport)
        return transport, protocol

    def close(self) -> None:
        """Abort all connections, and close. Idempotent; not for a thread in which another loop runs."""
        try:
            if not self.is_closed():
                for transport in tuple(self._opened):
                    transport.abort()
                # Their sockets are closed in the round that comes, and it is the last one.
                self.call_soon(self.stop)
                self.run_forever()
        finally:
            super().close()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as `asyncio.run` does, in such a loop."""
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        return runner.run(coroutine)

"""Event loop that closes its connections when it is closed.

aiokafka drops a failed connection without waiting for its close. A TLS shutdown takes time, and a loop that is closed meanwhile
would leave the socket open until garbage collection. The thread in which Faust reads has a loop of Faust's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar
from weakref import WeakSet

T = TypeVar("T")


class EventLoop(asyncio.SelectorEventLoop):
    """Event loop that closes its open connections."""

    def __init__(self) -> None:
        """Create the loop; `close` must be called."""
        super().__init__()
        self._opened: WeakSet[asyncio.WriteTransport] = WeakSet()

    async def create_connection(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401  handed on
        """Connect, and record the connection."""
        transport, protocol = await super().create_connection(*arguments, **options)
        self._opened.add(transport)
        return transport, protocol

    def close(self) -> None:
        """Abort all connections, and close. Idempotent; not for a thread in which another loop runs."""
        try:
            if not self.is_closed():
                for transport in tuple(self._opened):
                    transport.abort()
                # The last iteration of the loop closes their sockets.
                self.call_soon(self.stop)
                self.run_forever()
        finally:
            super().close()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in such a loop, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        return runner.run(coroutine)

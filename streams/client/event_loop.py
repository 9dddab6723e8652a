"""An event loop whose connections end with it.

aiokafka lets go of a connection that fails without waiting until it is closed. TLS takes a while to say goodbye, and a loop that is
closed meanwhile would leave the socket open until it is collected. The thread in which Faust reads has a loop of Faust's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar
from weakref import WeakSet

__all__ = ["EventLoop", "run"]

T = TypeVar("T")


class EventLoop(asyncio.SelectorEventLoop):
    """Ends the connections that still stand when it is closed."""

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
        """End what is connected or says goodbye, and close. Idempotent; not for a thread in which another loop runs."""
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

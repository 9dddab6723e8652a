"""Thread that runs aiokafka's event loop for synchronous callers.

Heartbeats, metadata updates and transaction responses are processed there while a stage decides in the caller's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from streams.client.event_loop import EventLoop

T = TypeVar("T")

_CLOSE_SECONDS: Final = 5.0


class TaskOwner:
    """Tracks the tasks of a client, so that an unresponsive client can be cancelled.

    An aiokafka producer retries forever by design and cannot be stopped gracefully without a broker.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def add(self, task: asyncio.Task[Any]) -> None:
        """Track a task until it is done."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel(self) -> None:
        """Cancel all unfinished tasks except the calling one."""
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()


_owner: ContextVar[TaskOwner | None] = ContextVar("owner", default=None)


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:  # noqa: ANN401  asyncio's
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
    # A task inherits the context of its creator, and with it the owner.
    if (owner := _owner.get()) is not None:
        owner.add(task)
    return task


class BackgroundLoop:
    """Event loop in its own thread."""

    def __init__(self, name: str) -> None:
        """Start the thread.

        Args:
            name: name of the thread.
        """
        self._loop = EventLoop()
        self._loop.set_task_factory(_make_task)
        # Failures reach their callers as exceptions; results without a caller are dropped.
        self._loop.set_exception_handler(lambda _loop, _context: None)
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    def _live(self) -> None:
        # Closed by the thread that ran it: the thread that calls `close` may run another loop.
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T], owner: TaskOwner | None = None) -> T:
        """Run a coroutine in the loop and return its result, or raise its exception, in the calling thread.

        Args:
            coroutine: coroutine to run; it must limit its own time.
            owner: tracks all tasks that the coroutine creates.
        """
        found: Future[T] = asyncio.run_coroutine_threadsafe(coroutine if owner is None else _owned(coroutine, owner), self._loop)
        try:
            return found.result()
        except BaseException:
            # Also for KeyboardInterrupt: nothing waits for the result any more.
            found.cancel()
            raise

    def call(self, function: Callable[[], object]) -> None:
        """Schedule a function in the loop; callable from any thread."""
        self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """Cancel all tasks and end the thread. Idempotent."""
        if self._loop.is_closed():
            return
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result(_CLOSE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_SECONDS)


async def _owned(coroutine: Coroutine[Any, Any, T], owner: TaskOwner) -> T:
    _owner.set(owner)
    return await coroutine


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_CLOSE_SECONDS / 2)
    await asyncio.get_running_loop().shutdown_asyncgens()
    await asyncio.get_running_loop().shutdown_default_executor()

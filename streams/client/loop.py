"""The thread that runs aiokafka's event loop beside synchronous callers.

Heartbeats, metadata and transactions' answers go on there while a stage decides in the caller's thread.
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

__all__ = ["BackgroundLoop", "TaskOwner"]

T = TypeVar("T")

_CLOSE_SECONDS: Final = 5.0


class TaskOwner:
    """Tracks the tasks started on its behalf, so that an unresponsive client can be stopped.

    An aiokafka producer retries for ever by design; while its broker is away it cannot be stopped in good order.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def add(self, task: asyncio.Task[Any]) -> None:
        """Note a task; it is forgotten when it is done."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel(self) -> None:
        """Cancel all that is not done, except the task that asks for it."""
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()


_owner: ContextVar[TaskOwner | None] = ContextVar("owner", default=None)


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:  # noqa: ANN401  asyncio's
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
    # Tasks inherit the context of the one that makes them, and with it the owner.
    if (owner := _owner.get()) is not None:
        owner.add(task)
    return task


class BackgroundLoop:
    """An event loop in a thread of its own."""

    def __init__(self, name: str) -> None:
        """Start it.

        Args:
            name: of the thread.
        """
        self._loop = EventLoop()
        self._loop.set_task_factory(_make_task)
        # Failures reach their callers as exceptions; results without a caller are dropped.
        self._loop.set_exception_handler(lambda _loop, _context: None)
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    def _live(self) -> None:
        # Closed where it ran: in the thread that wants it closed another loop may be running.
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T], owner: TaskOwner | None = None) -> T:
        """Run a coroutine in the loop and return its result, or raise its exception, in the calling thread.

        Args:
            coroutine: limits its own time.
            owner: of all tasks that it begins.
        """
        found: Future[T] = asyncio.run_coroutine_threadsafe(coroutine if owner is None else _owned(coroutine, owner), self._loop)
        try:
            return found.result()
        except BaseException:
            # KeyboardInterrupt among others: the caller is gone.
            found.cancel()
            raise

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the loop, soon; from any thread."""
        self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """Cancel what still runs and end the thread. Idempotent."""
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

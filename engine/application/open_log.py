"""A log that a program has open: its questions and its engine live until it is closed."""

from __future__ import annotations

from contextlib import ExitStack, closing
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from engine.application.questions import Questions
from engine.log.errors import LogUnavailableError
from engine.log.port import SearchableLog
from engine.runtime.opening import open_log
from engine.runtime.settings import Settings

if TYPE_CHECKING:
    from engine.application.feed import Feed, Progress
    from engine.runtime.engine import Engine
    from engine.runtime.reporter import Reporter


class OpenLog:
    """An open log; a context manager, for one thread at a time."""

    def __init__(self, log: SearchableLog, settings: Settings, *, process: bool = True, hosted: bool = True) -> None:
        """Use an open log.

        Args:
            log: the log; `close` closes it.
            settings: of this process.
            process: process inputs here, unless another process runs the log.
            hosted: whether this code runs inside another program (`Engine`).
        """
        self._log: Final = log
        self._settings: Final = settings
        self._asking: Final = Questions(settings, log)
        self._process = process
        self._hosted = hosted
        self._engine: Engine | None = None
        self._closed = False

    @classmethod
    def opened(cls, settings: Settings, *, create: bool = False, readonly: bool = True) -> Self:
        """Open the log of a command's settings; arguments and errors as of `engine.runtime.opening.open_log`."""
        with ExitStack() as stack:
            log = stack.enter_context(closing(open_log(settings.log, create=create, readonly=readonly)))
            opened = cls(log, settings, hosted=False)
            stack.pop_all()  # the log is closed with it
        return opened

    @property
    def log(self) -> SearchableLog:
        """The log itself.

        Raises:
            LogUnavailableError: it is closed.
        """
        self._must_be_open()
        return self._log

    @property
    def _questions(self) -> Questions:
        self._must_be_open()
        return self._asking

    def _must_be_open(self) -> None:
        if self._closed:
            raise LogUnavailableError(f"{self._settings.log} is closed; open it again with lahar.open")

    def feed_of(self, reporter: Reporter, *, process: bool, progress: Progress) -> Feed:
        """Return a `Feed` into the log, for a command."""
        from engine.application.feed import Feed

        return Feed(self.log, self._settings, reporter, process=process, hosted=self._hosted, progress=progress)

    def close(self) -> None:
        """Close the log. Idempotent."""
        self._closed = True
        with closing(self._log), closing(self._asking):
            if self._engine is not None:
                self._engine.close()
                self._engine = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

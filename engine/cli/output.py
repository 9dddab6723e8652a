"""A command's output: JSON lines for programs, rich text for people.

Answers go to standard output; progress, warnings and errors go to standard error, so that a pipe
carries only answers.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from decimal import Decimal
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.text import Text

from engine.cli.escaping import visible, visible_text
from engine.cli.logging_config import is_json
from engine.controls import visible_line

_logger = logging.getLogger(__name__)

_PIPE_COLUMNS = 160
"""Width of output to a file or a pipe, unless COLUMNS is set: tables are not cut."""


class _Console(Console):
    # All output passes through here, cells of tables too.
    def render_str(self, text: str, **how: Any) -> Text:  # noqa: ANN401  as rich has it
        return super().render_str(visible(text), **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        return super().render(visible_text(renderable) if isinstance(renderable, Text) else renderable, options)

    def on_broken_pipe(self) -> None:
        # rich would exit with code 1, a finding; the command's frame sets the code.
        raise BrokenPipeError


class Output:
    """The output of one command.

    Attributes:
        as_json: the caller wants JSON lines; standard output carries nothing else then.
        console: for people, on standard output; markup in names is shown literally.
        notes: the same on standard error.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.console = _Console(highlight=False, markup=False, emoji=False)
        if not self.console.is_terminal and "COLUMNS" not in os.environ:
            self.console.width = _PIPE_COLUMNS
        self.notes = _Console(stderr=True, highlight=False, markup=False, emoji=False)

    def record(self, value: dict[str, Any]) -> None:
        """Write one object as one line of JSON. Missing values are `null`, decimals are strings, key order is kept."""
        self.line(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain))

    def line(self, text: str) -> None:
        """Write one line literally, without markup or wrapping; controls as JSON escapes them."""
        sys.stdout.write(visible_line(text) + "\n")

    def flush(self) -> None:
        """Flush the output (for commands that follow the log)."""
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Print progress on standard error."""
        if is_json():
            _logger.info("%s", text)
            return
        self.notes.print(text, style="dim", soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a warning on standard error."""
        if is_json():
            _logger.warning("%s", text)
            return
        self.notes.print(Text.assemble(("warning: ", "yellow"), text), soft_wrap=True)

    def fail(self, text: str) -> None:
        """Print the command's error on standard error."""
        self.notes.print(Text.assemble(("lahar: ", "red"), text), soft_wrap=True)

    def busy(self, what: str) -> AbstractContextManager[object]:
        """Show a spinner on standard error; only on a terminal, and removed at the end."""
        return self.notes.status(f"{what} …") if self.notes.is_terminal else nullcontext()

    def progress(self, unit: str) -> Progress:
        """Return a progress bar on standard error that counts `unit`s; only on a terminal, and removed at the end."""
        return Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeElapsedColumn(),
            console=self.notes,
            transient=True,
            disable=not self.notes.is_terminal,
        )


def _plain(value: object) -> str:
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form here")

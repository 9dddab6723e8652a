"""Files that a command leaves in a folder: checked before its work, written all or none after it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


def check_files(folder: Path, names: Iterable[str]) -> None:
    """Check that files can be written to a folder, which may have to be made; nothing is left there.

    Raises:
        OSError: a directory has the name of a file, or the folder cannot be written or made.
    """
    for path in (folder / name for name in names):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with _beside(next(path for path in (folder, *folder.parents) if path.exists())):
        pass


def write_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files to a folder, which is made if it is not there; after an error those that were there stay as they were.

    Args:
        folder: the folder.
        texts: name → content.

    Raises:
        OSError: one cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _beside(folder) as beside:
        for name, text in texts.items():
            (beside / name).write_text(text, encoding="utf-8")
        for name in texts:
            (beside / name).replace(folder / name)


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """Make a directory in a folder for a while; errors name the folder."""
    try:
        with TemporaryDirectory(dir=folder) as path:
            yield Path(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from None

"""A disk that forgets what was not synchronised: SQLite's own file layer, wrapped, in this process.

SQLite reaches files through a table of functions (a VFS). The wrapper passes everything on and keeps, beside the real files, what a
disk would hold after a loss of power: what was written before the last `xSync` of a file, and whichever writes since then it likes.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_void_p, cast, memmove, pointer, sizeof, string_at
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

_OK: Final = 0
_METHODS: Final = {1: 13, 2: 17, 3: 19}
"""Words of the table of a file's functions, by its version."""
_WRITE, _TRUNCATE, _SYNC = 3, 4, 5

_KEPT: Final[list[object]] = []
"""Functions that SQLite may call as long as a file is open, which a test that fails may leave so."""

_Open = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, POINTER(c_int))
# Names are passed on as pointers: SQLite keeps them as long as the file is open, bytes made of them would not live so long.
_Write = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
_Sync = CFUNCTYPE(c_int, c_void_p, c_int)


class _Vfs(ctypes.Structure):
    _fields_ = (
        ("iVersion", c_int),
        ("szOsFile", c_int),
        ("mxPathname", c_int),
        ("pNext", c_void_p),
        ("zName", c_char_p),
        ("pAppData", c_void_p),
        ("xOpen", _Open),
        ("others", c_void_p * 15),
    )


@dataclass(slots=True)
class _File:
    durable: bytearray
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Offset and bytes written since; `None`: cut off there."""


def _apply(content: bytearray, writes: list[tuple[int, bytes | None]]) -> None:
    for offset, data in writes:
        if data is None:
            del content[offset:]
        else:
            content.extend(bytes(max(offset - len(content), 0)))
            content[offset : offset + len(data)] = data


class Disk:
    """What would be there after a loss of power."""

    def __init__(self) -> None:
        self._files: dict[Path, _File] = {}
        self.syncs = 0

    def opened(self, path: Path) -> _File:
        """Return a file; what it held before this disk was watched is safe."""
        if path not in self._files:
            self._files[path] = _File(bytearray(path.read_bytes()))
        return self._files[path]

    def synced(self, file: _File) -> None:
        self.syncs += 1
        _apply(file.durable, file.pending)
        file.pending.clear()

    def lose_power(self, dice: random.Random) -> dict[str, bytes]:
        """Return the files as they are then: of what was not synchronised, some writes have come to the disk, in any order."""
        found = {}
        for path, file in self._files.items():
            content = bytearray(file.durable)
            _apply(content, dice.sample(file.pending, dice.randint(0, len(file.pending))))
            found[path.name] = bytes(content)
        return found


def _library() -> Any:
    return ctypes.CDLL(_sqlite3.__file__)


def reachable() -> bool:
    """Tell whether this Python's SQLite lets its file layer be wrapped."""
    try:
        return bool(_library().sqlite3_vfs_register)
    except (OSError, AttributeError):
        return False


@contextmanager
def disk() -> Iterator[Disk]:
    """Watch all files that SQLite opens in this process meanwhile."""
    library, watched = _library(), Disk()
    library.sqlite3_vfs_find.restype = POINTER(_Vfs)
    found = library.sqlite3_vfs_find(None)
    vfs = _Vfs()
    memmove(pointer(vfs), found, sizeof(_Vfs))
    vfs.zName = b"power-loss"
    real_open = found.contents.xOpen

    def open_(of: int, name: int | None, file: int, flags: int, out: Any) -> int:
        code = int(real_open(of, name, file, flags, out))
        if code == _OK and name is not None:
            _KEPT.append(_wrap(file, watched, watched.opened(Path(string_at(name).decode()))))
        return code

    vfs.xOpen = _Open(open_)
    _KEPT.append(vfs)
    library.sqlite3_vfs_register(pointer(vfs), 1)
    try:
        yield watched
    finally:
        library.sqlite3_vfs_register(found, 1)
        library.sqlite3_vfs_unregister(pointer(vfs))


def _wrap(file: int, watched: Disk, image: _File) -> object:
    """Put functions of ours into the table of an open file; they must live as long as it is open."""
    head = cast(file, POINTER(c_void_p))
    version = cast(head[0], POINTER(c_int))[0]
    words = (c_void_p * _METHODS[min(version, 3)])()
    assert head[0] is not None
    memmove(words, head[0], sizeof(words))
    real_write, real_truncate, real_sync = _Write(words[_WRITE]), _Truncate(words[_TRUNCATE]), _Sync(words[_SYNC])

    def write(this: int, data: int, size: int, offset: int) -> int:
        image.pending.append((offset, string_at(data, size)))
        return int(real_write(this, data, size, offset))

    def truncate(this: int, size: int) -> int:
        image.pending.append((size, None))
        return int(real_truncate(this, size))

    def sync(this: int, flags: int) -> int:
        code = int(real_sync(this, flags))
        watched.synced(image)
        return code

    ours: tuple[Callable[..., int], ...] = (_Write(write), _Truncate(truncate), _Sync(sync))
    for place, function in zip((_WRITE, _TRUNCATE, _SYNC), ours, strict=True):
        words[place] = cast(function, c_void_p).value  # type: ignore[arg-type]  # ctypes takes any pointer
    head[0] = ctypes.addressof(words)
    return words, ours

"""A process to be killed: opens a log, processes what waits in it, says so after each step.

Usage: python kill_worker.py LOG FACTORY BATCH SNAPSHOT_EVERY; FACTORY is `module:callable` and makes the stage.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from engine.log.sqlite import SqliteLog
from engine.processor.processor import Processor


def made_by(factory: str) -> Any:
    module, _, name = factory.partition(":")
    return getattr(importlib.import_module(module), name)()


def work(processor: Processor[Any]) -> None:
    """Process what waits, and say how far it is."""
    print("opening", flush=True)
    processor.open()
    print("open", flush=True)
    while processor.step() or processor.fire_due(processor.position.now):
        print("step", flush=True)
    while processor.snapshot_dirty:
        processor.step()
    print("done", flush=True)


def main() -> None:
    path, factory, batch, every = sys.argv[1:]
    log = SqliteLog(path)
    processor: Processor[Any] = Processor(log, made_by(factory), batch=int(batch), snapshot_every=int(every))
    work(processor)
    log.close()


if __name__ == "__main__":
    main()

"""A plain Faust app that forwards one topic to another: what Lahar's own loop is compared with, for speed and under kills.

    python benchmarks/faust_forward.py --bootstrap localhost:9092 --source A --target B --app-id forward --guarantee exactly_once

It uses Faust as its documentation says and nothing of Lahar. Both topics exist beforehand, with equal numbers of partitions;
keys, values and headers are passed on as they are. It says `ready` on standard output when its partitions are assigned, and runs
until SIGTERM or SIGINT, which end it in good order with code 0.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import signal
import tempfile
from collections.abc import AsyncIterator, Sequence

import faust


def forwarder(options: argparse.Namespace, data: str) -> faust.App:
    """Return the app.

    Args:
        options: as `main` reads them.
        data: folder that Faust wants, though there are no tables.
    """
    app = faust.App(
        options.app_id,
        broker=[f"kafka://{server}" for server in options.bootstrap.split(",")],
        processing_guarantee=options.guarantee,
        broker_commit_interval=options.commit_seconds,
        consumer_auto_offset_reset="earliest",
        producer_acks=-1,
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        datadir=data,
    )
    source = app.topic(options.source, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")
    target = app.topic(options.target, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")

    @app.agent(source)
    async def forward(stream: faust.Stream[bytes]) -> AsyncIterator[None]:
        async for event in stream.events():
            await target.send(key=event.key, value=event.value, headers=event.headers)
            yield

    @app.on_partitions_assigned.connect
    async def say(_: faust.App, assigned: set[object], **__: object) -> None:
        print(f"ready: {len(assigned)} partitions", flush=True)

    return app


async def run(options: argparse.Namespace) -> int:
    """Forward until a signal comes; return the exit code, 1 if the app has crashed."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with tempfile.TemporaryDirectory() as data:
        app = forwarder(options, data)
        await app.start()
        crashed = asyncio.ensure_future(app.wait_until_stopped())
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({crashed, stopping}, return_when=asyncio.FIRST_COMPLETED)
        failed = not stop.is_set()
        await app.stop()
        for waiting in (crashed, stopping):
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
    return int(failed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options and forward; return the exit code."""
    parser = argparse.ArgumentParser(description="Forward one topic to another with Faust.")
    parser.add_argument("--bootstrap", required=True, help="HOST:PORT,… of the brokers")
    parser.add_argument("--source", required=True, help="topic to read")
    parser.add_argument("--target", required=True, help="topic to write")
    parser.add_argument("--app-id", required=True, help="consumer group, and beginning of transactional ids")
    parser.add_argument("--guarantee", choices=("exactly_once", "at_least_once"), default="exactly_once")
    parser.add_argument("--commit-seconds", type=float, default=0.05, help="commit interval (default 0.05)")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    return asyncio.run(run(options))


if __name__ == "__main__":
    raise SystemExit(main())

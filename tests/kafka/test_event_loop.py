"""Connections end with their loop, whatever the other side does."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

import pytest

from streams.client.event_loop import EventLoop, run
from streams.client.loop import BackgroundLoop

PATIENCE = 10.0
ANONYMOUS = "aNULL:@SECLEVEL=0"
"""Ciphers that need no certificate."""


def context(kind: int) -> ssl.SSLContext:
    found = ssl.SSLContext(kind)
    found.check_hostname, found.verify_mode = False, ssl.CERT_NONE
    found.maximum_version = ssl.TLSVersion.TLSv1_2
    found.set_ciphers(ANONYMOUS)
    return found


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes one connection, by TLS, and says nothing more, not even goodbye."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        over = threading.Event()

        def serve() -> None:
            taken, _ = server.accept()
            with context(ssl.PROTOCOL_TLS_SERVER).wrap_socket(taken, server_side=True):
                over.wait()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        over.set()
        thread.join(PATIENCE)


async def connected(port: int, closing: bool) -> socket.socket:
    """Connect and hold nothing of it; return the socket."""
    loop, tls = asyncio.get_running_loop(), context(ssl.PROTOCOL_TLS_CLIENT)
    transport, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", port, ssl=tls)
    found: socket.socket = transport.get_extra_info("socket")
    if closing:
        transport.close()
    return found


def in_the_background(port: int, closing: bool) -> socket.socket:
    background = BackgroundLoop("tests")
    found = background.run(connected(port, closing))
    background.close()
    return found


@pytest.mark.parametrize("closing", [False, True], ids=["open", "closing"])
@pytest.mark.parametrize("ended", [in_the_background, lambda *given: run(connected(*given))], ids=["thread", "run"])
def test_no_socket_is_left_open(silent: int, ended: Callable[[int, bool], socket.socket], closing: bool) -> None:
    assert ended(silent, closing).fileno() == -1


def test_a_background_loop_is_closed_where_another_loop_runs(silent: int) -> None:
    async def close() -> socket.socket:
        return in_the_background(silent, closing=True)

    assert asyncio.run(close()).fileno() == -1


def test_a_loop_is_closed_though_it_was_to_stop() -> None:
    loop = EventLoop()
    loop.call_soon(loop.stop)
    loop.close()
    assert loop.is_closed()


def test_a_loop_is_closed_twice() -> None:
    loop = EventLoop()
    loop.close()
    loop.close()
    assert loop.is_closed()

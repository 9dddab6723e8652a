"""HTTP server of a process: `/metrics` for Prometheus, `/healthz` and `/readyz` for probes.

| path | 200 | 503 |
|---|---|---|
| `/metrics` | always; 500 if the metrics cannot be gathered | |
| `/healthz` | the process is alive | it hangs and should be restarted |
| `/readyz` | the process is ready | it is starting, or lags, with the reasons |

The last two return `{"ok": true, "reasons": []}`, with one sentence per fault.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

_LOOPBACK: Final = "127.0.0.1"
_ADDRESS: Final = re.compile(r"(?:(?:\[(?P<ipv6>[0-9a-fA-F:.]+)\]|(?P<host>[^\s:\[\]]+)):)?(?P<port>\d{1,5})", re.ASCII)
_PATIENCE_SECONDS: Final = 10.0
"""Maximum silence of a connection (seconds), because it occupies a thread."""
_POLL_SECONDS: Final = 0.1
"""Delay until the server detects a request to close (seconds)."""
_logger: Final = logging.getLogger(__name__)

Reasons = Callable[[], Sequence[str]]
"""Returns the current faults; empty if there are none. Called from any thread; never blocks."""


class Address(NamedTuple):
    """Address to listen on."""

    host: str
    port: int
    """Port; 0: any free one."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Parse `PORT`, `HOST:PORT` or `[IPV6]:PORT`; the default host is 127.0.0.1.

    Raises:
        ValueError: the text has none of these forms, or the port is not between 0 and 65535.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65_535:
        raise ValueError(f"{text!r} is not an address: write PORT, HOST:PORT or [IPV6]:PORT, the port between 0 and 65535")
    return Address(found["ipv6"] or found["host"] or _LOOPBACK, int(found["port"]))


def _nothing_wrong() -> Sequence[str]:
    """Return no fault."""
    return ()


class Server:
    """Serves the three pages from daemon threads, until the process or the `with` block ends."""

    def __init__(
        self, address: Address, registry: CollectorRegistry, *, healthy: Reasons = _nothing_wrong, ready: Reasons = _nothing_wrong
    ) -> None:
        """Start listening.

        Args:
            address: address to listen on.
            registry: metrics of `/metrics`.
            healthy: returns the reasons why the process hangs.
            ready: returns the reasons why it is not ready.

        Raises:
            ValueError: the address is in use, unknown, or not permitted.
        """
        pages: dict[str, Callable[[str], _Answer]] = {
            "/metrics": lambda accept: _metrics(registry, accept),
            "/healthz": lambda _accept: _verdict(healthy),
            "/readyz": lambda _accept: _verdict(ready),
        }
        try:
            self._server: Final = _Listener(address, pages)
        except OSError as error:
            raise ValueError(f"--metrics {address}: {error.strerror or error}; choose another address") from None
        self.address: Final = Address(address.host, self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL_SECONDS,), name="lahar-http", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """URL of `/metrics`."""
        return f"http://{self.address}/metrics"

    def close(self) -> None:
        """Stop listening. Idempotent."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Answer(NamedTuple):
    status: HTTPStatus
    kind: str
    body: bytes


def _text(status: HTTPStatus, said: str) -> _Answer:
    return _Answer(status, "text/plain; charset=utf-8", said.encode() + b"\n")


def _metrics(registry: CollectorRegistry, accept: str) -> _Answer:
    encode, kind = choose_encoder(accept)
    return _Answer(HTTPStatus.OK, kind, encode(registry))


def _verdict(ask: Reasons) -> _Answer:
    reasons = list(ask())
    body = json.dumps({"ok": not reasons, "reasons": reasons}, ensure_ascii=False).encode() + b"\n"
    return _Answer(HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK, "application/json", body)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    # Otherwise the system may give two processes the same port, and one of them would get no requests.
    allow_reuse_port = False

    def __init__(self, address: Address, pages: dict[str, Callable[[str], _Answer]]) -> None:
        self.pages: Final = pages
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        super().__init__((address.host, address.port), _Handler)

    def server_bind(self) -> None:
        """Bind without the look-up of the host name in `HTTPServer`, which may take long."""
        TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  as socketserver has it
        """Ignore it: a client that disconnected is not an error."""


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    timeout = _PATIENCE_SECONDS
    protocol_version = "HTTP/1.1"
    server_version = "lahar"
    sys_version = ""

    def do_GET(self) -> None:
        self._send(self._answer())

    do_HEAD = do_GET  # noqa: N815  the name that http.server calls

    def _refuse(self) -> None:
        self.close_connection = True  # the request's body was not read
        self._send(_text(HTTPStatus.METHOD_NOT_ALLOWED, f"{self.command} is not allowed; GET and HEAD are"), allow="GET, HEAD")

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _refuse  # noqa: N815  names that http.server calls

    def _answer(self) -> _Answer:
        path = urlsplit(self.path).path
        page = self.server.pages.get(path)
        if page is None:
            return _text(HTTPStatus.NOT_FOUND, f"no page {path}; there are {', '.join(self.server.pages)}")
        try:
            return page(self.headers.get("Accept", ""))
        except Exception:
            # Probes and Prometheus repeat their requests; a failure of monitoring must not end the process.
            _logger.exception("%s cannot be answered", path)
            return _text(HTTPStatus.INTERNAL_SERVER_ERROR, f"{path} cannot be answered; the log of the process says why")

    def _send(self, answer: _Answer, **headers: str) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in headers.items():
            self.send_header(name.capitalize(), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as http.server has it
        """Log nothing: requests arrive every few seconds."""

"""The small HTTP server of a process: metrics, health, readiness."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse

import pytest
from prometheus_client import CollectorRegistry, Counter

from engine.runtime.serving import Address, Server, parse_address

ANYWHERE = Address("127.0.0.1", 0)


def ask(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[HTTPResponse, str]:
    connection = HTTPConnection(server.address.host, server.address.port, timeout=30)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()


@contextmanager
def serving(
    registry: CollectorRegistry | None = None,
    healthy: Callable[[], Sequence[str]] = lambda: (),
    ready: Callable[[], Sequence[str]] = lambda: (),
) -> Iterator[Server]:
    with Server(ANYWHERE, registry or CollectorRegistry(), healthy=healthy, ready=ready) as server:
        yield server


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9100", Address("127.0.0.1", 9100)),
        ("0.0.0.0:9100", Address("0.0.0.0", 9100)),  # noqa: S104  it is only read
        ("localhost:0", Address("localhost", 0)),
        ("[::1]:9100", Address("::1", 9100)),
    ],
)
def test_an_address_without_a_host_is_this_machine_alone(text: str, expected: Address) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["", "host", "host:", ":9100", "::1:9100", "[::1]", "a b:1", "65536", "-1", "1.5", "٣"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an address: write PORT, HOST:PORT or \[IPV6\]:PORT"):
        parse_address(text)


def test_metrics_come_in_the_format_that_is_asked_for() -> None:
    registry = CollectorRegistry()
    Counter("lahar_things", "Things.", registry=registry).inc(3)
    with serving(registry) as server:
        answer, page = ask(server, "/metrics?any=thing")
        assert (answer.status, answer.headers["Content-Type"].partition(";")[0]) == (200, "text/plain")
        assert "lahar_things_total 3.0\n" in page
        answer, page = ask(server, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        assert page.endswith("# EOF\n")


def test_reasons_are_told_as_they_are_at_the_moment() -> None:
    hanging: list[str] = []
    behind = ["shard lifecycle/0 is 83 s behind"]
    with serving(healthy=lambda: hanging, ready=lambda: behind) as server:
        answer, body = ask(server, "/healthz")
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
        assert json.loads(body) == {"ok": True, "reasons": []}
        answer, body = ask(server, "/readyz")
        assert answer.status == 503
        assert json.loads(body) == {"ok": False, "reasons": ["shard lifecycle/0 is 83 s behind"]}
        hanging.append("a loop hangs")
        behind.clear()
        assert [ask(server, path)[0].status for path in ("/healthz", "/readyz")] == [503, 200]


def test_head_tells_the_same_without_a_body() -> None:
    with serving(ready=lambda: ["no"]) as server:
        answer, body = ask(server, "/readyz", "HEAD")
        assert (answer.status, body) == (503, "")
        assert int(answer.headers["Content-Length"]) > 0


def test_other_pages_and_methods_are_refused() -> None:
    with serving() as server:
        answer, body = ask(server, "/secrets")
        assert (answer.status, body) == (404, "no page /secrets; there are /metrics, /healthz, /readyz\n")
        answer, _ = ask(server, "/metrics", "POST")
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_a_page_that_fails_takes_nothing_else_with_it(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> Sequence[str]:
        raise RuntimeError("broken")

    with serving(ready=fail) as server:
        assert ask(server, "/readyz")[0].status == 500
        assert ask(server, "/healthz")[0].status == 200
    assert [record.getMessage() for record in caplog.records] == ["/readyz cannot be answered"]


def test_an_address_that_is_taken_is_told() -> None:
    with (
        serving() as server,
        pytest.raises(ValueError, match=r"--metrics 127\.0\.0\.1:\d+: Address already in use; choose another"),
    ):
        Server(server.address, CollectorRegistry())


def test_listening_waits_for_no_name_service(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(_host: str) -> str:
        raise AssertionError("nobody may answer for minutes")

    monkeypatch.setattr("socket.getfqdn", resolve)
    with serving() as server:
        assert ask(server, "/healthz")[0].status == 200


def test_an_unknown_host_is_told() -> None:
    with pytest.raises(ValueError, match=r"--metrics nowhere\.invalid:0: .*; choose another address"):
        Server(Address("nowhere.invalid", 0), CollectorRegistry())

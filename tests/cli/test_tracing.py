"""Spans of OpenTelemetry, as the SDK's own exporter in memory sees them."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from counting_stage import CountingStage, custom
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from engine.log.errors import FencedError
from engine.log.memory import MemoryLog
from engine.processor.processor import Processor
from engine.runtime.tracing import Spans, exporter_of, provider_of, tracer_of

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
NOW = 1_700_000_000_000_000_000


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Spans:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Spans(tracer_of(provider), clock=lambda: NOW)


def named(exporter: InMemorySpanExporter, name: str) -> Sequence[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


def test_a_batch_and_its_commit_are_spans_one_within_the_other(exporter: InMemorySpanExporter, spans: Spans) -> None:
    log = MemoryLog()
    processor = Processor(log, CountingStage(), observer=spans)
    processor.open()
    (recovery,) = named(exporter, "lahar.recovery")
    assert recovery.attributes == {"lahar.stage": "counting", "lahar.shard": "counting/0", "lahar.recovery.events": 0}
    log.append("pods", [custom("a", 1, "timer", at=1, delays=[10]), custom("b", 1, "add", at=12)])
    processor.step()
    (batch,), (commit,) = named(exporter, "lahar.batch"), named(exporter, "lahar.commit")
    assert batch.attributes == {
        "lahar.stage": "counting",
        "lahar.shard": "counting/0",
        "lahar.inputs": 2,
        "lahar.timers": 1,
        "lahar.outputs": processor.position.shardsequence,
        "lahar.position.offsets": processor.position.vector,
        "lahar.position.shardsequence": processor.position.shardsequence,
        "lahar.position.now": 12,
    }
    assert commit.parent is not None
    assert commit.parent.span_id == batch.context.span_id
    assert batch.start_time <= commit.start_time <= commit.end_time == batch.end_time == NOW


def test_a_commit_that_was_given_up_has_failed(exporter: InMemorySpanExporter, spans: Spans) -> None:
    log = MemoryLog()
    processor = Processor(log, CountingStage(), observer=spans)
    processor.open()
    Processor(log, CountingStage()).open()
    log.append("pods", [custom("a", 1, "add", at=1)])
    with pytest.raises(FencedError):
        processor.step()
    (commit,) = named(exporter, "lahar.commit")
    assert (commit.status.status_code, commit.attributes["error.type"]) == (StatusCode.ERROR, "FencedError")
    assert "was taken over by another process" in commit.status.description


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        (ENDPOINT, "otlp"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/v1/traces"}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, None),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "TRUE"}, None),
        ({"OTEL_SERVICE_NAME": "lahar"}, None),
    ],
)
def test_the_standard_variables_say_whether_there_are_traces(environment: dict[str, str], expected: str | None) -> None:
    assert exporter_of(environment) == expected
    assert expected is not None or provider_of(environment) is None


@pytest.mark.parametrize(
    "environment", [{"OTEL_TRACES_EXPORTER": "zipkin"}, {**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}], ids=str
)
def test_what_cannot_be_had_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"OTEL_TRACES_EXPORTER=zipkin: must be|OTEL_EXPORTER_OTLP_PROTOCOL=grpc: must be http"):
        exporter_of(environment)


def test_a_provider_names_the_service_unless_the_environment_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def service(environment: dict[str, str]) -> object:
        provider = provider_of({**environment, "OTEL_TRACES_EXPORTER": "console"})
        assert provider is not None
        provider.shutdown()
        return provider.resource.attributes["service.name"]

    assert service({}) == "lahar"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    assert service({"OTEL_SERVICE_NAME": "mine"}) == "mine"


def test_without_the_extra_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("opentelemetry.")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ValueError, match=r"opentelemetry.* is not installed; install lahar\[telemetry\] or set OTEL_SDK_DISABLED"):
        provider_of(ENDPOINT)


def test_an_engine_sends_its_spans_where_the_environment_says(lahar: Callable[..., object], files: dict[str, Path]) -> None:
    received: list[tuple[str, str]] = []

    class Backend(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = ExportTraceServiceRequest.FromString(
                gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            )
            for span in (span for found in request.resource_spans for scope in found.scope_spans for span in scope.spans):
                of = {attribute.key: attribute.value.string_value for attribute in span.attributes}
                received.append((span.name, of["lahar.shard"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    lahar("apply", files["queue"], "--no-process")
    with ThreadingHTTPServer(("127.0.0.1", 0), Backend) as backend:
        Thread(target=backend.serve_forever, daemon=True).start()
        lahar("run", "--once", OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{backend.server_port}")
        backend.shutdown()
    spans = [span for span in received if span[0] != "lahar.commit"]
    # The queue is of the cluster, which both take; of it only the lifecycle stage keeps something.
    assert [name for name, of in spans if of == "lifecycle/0"] == ["lahar.recovery", "lahar.batch", "lahar.batch"]
    assert [name for name, of in spans if of == "billing/0"] == ["lahar.recovery", "lahar.batch"]

"""Traces for OpenTelemetry: opening of shards, batches and their commits, calls of callbacks.

They are created only if the environment requests them in the standard way: `OTEL_TRACES_EXPORTER` (`otlp`, `console`), or without
it `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`; never with `OTEL_SDK_DISABLED=true`. The SDK reads the
other standard variables (destination, frequency, limits) itself.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from engine import __version__
from engine.effects.executor import Delivery, Executor
from engine.effects.notice import Notice, Told
from engine.effects.receiver import Outcome, Receiver
from engine.log.errors import LogError
from engine.log.port import ShardId
from engine.processor.observer import Batch, Watched
from statemachines.callbacks import BudgetSelector, Selector

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

_EXPORTER: Final = "OTEL_TRACES_EXPORTER"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_NAMES: Final = ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES")


def exporter_of(environment: Mapping[str, str]) -> Literal["otlp", "console"] | None:
    """Return the exporter that the environment requests; `None`: no traces.

    Raises:
        ValueError: Lahar does not support the exporter.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    named = environment.get(_EXPORTER, "").strip().lower()
    wanted = named or ("otlp" if any(environment.get(name) for name in _ENDPOINTS) else "none")
    if wanted == "none":
        return None
    if wanted == "console":
        return "console"
    if wanted != "otlp":
        raise ValueError(f"{_EXPORTER}={named}: must be otlp, console or none")
    protocol = next((found for name in _PROTOCOLS if (found := environment.get(name, "").strip())), "http/protobuf")
    if protocol != "http/protobuf":
        raise ValueError(f"{_PROTOCOLS[1]}={protocol}: must be http/protobuf, the only protocol for traces")
    return "otlp"


def provider_of(environment: Mapping[str, str]) -> TracerProvider | None:
    """Return the tracer provider that the environment requests; `None` if it requests none.

    The caller shuts it down, which sends the remaining spans.

    Raises:
        ValueError: the requested traces cannot be created, or the extra is not installed.
    """
    exporter = exporter_of(environment)
    if exporter is None:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  an extra
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise ValueError(
            f"OTEL_… variables ask for traces, but {missing.name} is not installed; install lahar[telemetry] or set "
            "OTEL_SDK_DISABLED=true"
        ) from None
    # Arguments here would override both variables, which the SDK reads itself.
    service = {} if any(environment.get(name) for name in _NAMES) else {"service.name": "lahar"}
    provider = TracerProvider(resource=Resource.create({**service, "service.version": __version__}))
    provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter())
        if exporter == "otlp"
        else SimpleSpanProcessor(ConsoleSpanExporter(out=sys.stderr))  # standard output is for results
    )
    return provider


def tracer_of(provider: TracerProvider) -> Tracer:
    """Return the tracer of Lahar."""
    return provider.get_tracer("lahar", __version__)


class Spans:
    """Observer (`engine.processor.observer`) that creates spans."""

    def __init__(self, tracer: Tracer, clock: Callable[[], int] = time.time_ns) -> None:
        """Create spans with a tracer; `clock` returns Unix time (nanoseconds)."""
        self._tracer = tracer
        self._clock = clock

    def opening(self, processor: Watched) -> None:
        """Do nothing: spans are created once their duration is known."""

    def opened(self, processor: Watched, seconds: float, events: int) -> None:
        """Create the span of a recovery."""
        self._span("lahar.recovery", seconds, {**_of(processor.shard), "lahar.recovery.events": events})

    def committed(self, batch: Batch) -> None:
        """Create the span of a batch, with the span of its commit."""
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415  an extra

        ended = self._clock()
        shard = _of(batch.shard)
        whole = self._tracer.start_span(
            "lahar.batch",
            start_time=ended - int(batch.seconds * 1e9),
            attributes={
                **shard,
                "lahar.inputs": batch.inputs,
                "lahar.timers": batch.timers,
                "lahar.outputs": batch.outputs,
                "lahar.position.offsets": batch.position.vector,
                "lahar.position.shardsequence": batch.position.shardsequence,
                "lahar.position.now": batch.position.now,
            },
        )
        self._tracer.start_span(
            "lahar.commit",
            context=set_span_in_context(whole),
            start_time=ended - int(batch.commit_seconds * 1e9),
            attributes=shard,
        ).end(ended)
        whole.end(ended)

    def commit_failed(self, shard: ShardId, error: LogError) -> None:
        """Create a failed span without duration."""
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415  an extra

        now = self._clock()
        span = self._tracer.start_span("lahar.commit", start_time=now, attributes=_of(shard))
        span.set_attribute("error.type", type(error).__name__)
        span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end(now)

    def closed(self, shard: ShardId) -> None:
        """Do nothing."""

    def _span(self, name: str, seconds: float, attributes: Mapping[str, Any]) -> None:
        ended = self._clock()
        self._tracer.start_span(name, start_time=ended - int(seconds * 1e9), attributes=attributes).end(ended)


def _of(shard: ShardId) -> dict[str, str]:
    return {"lahar.stage": shard.stage, "lahar.shard": str(shard)}


class TracedExecutor:
    """Runs receivers with another executor, each call within a span; the receiver's own spans are its children."""

    def __init__(self, inner: Executor, tracer: Tracer) -> None:
        """Add spans to an executor."""
        self._inner = inner
        self._tracer = tracer

    def start(self, receiver: Receiver, notices: Sequence[Told], may_call: Callable[[], bool]) -> Delivery:
        """Start the delivery of some notices."""
        return self._inner.start(_Traced(receiver, self._tracer), notices, may_call)

    def wait(self) -> None:
        """Block until a call may have ended."""
        self._inner.wait()


class _Traced:
    """A receiver whose calls are spans."""

    def __init__(self, receiver: Receiver, tracer: Tracer) -> None:
        self._receiver = receiver
        self._tracer = tracer

    @property
    def name(self) -> str:
        return self._receiver.name

    @property
    def origin(self) -> str:
        return self._receiver.origin

    @property
    def selector(self) -> Selector | BudgetSelector:
        return self._receiver.selector

    @property
    def time_limit(self) -> int:
        return self._receiver.time_limit

    def receive(self, notice: Told) -> Outcome:
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415  an extra

        attributes: dict[str, str | int] = {
            "lahar.callback": self.name,
            "lahar.event.id": notice.id,
            "lahar.mode": notice.mode,
        }
        if isinstance(notice, Notice):
            attributes |= {"lahar.job": notice.job, "lahar.phase": notice.phase}
        else:
            attributes |= {"lahar.tenant": notice.tenant, "lahar.threshold": notice.threshold}
        with self._tracer.start_as_current_span("lahar.callback", attributes=attributes) as span:
            outcome = self._receiver.receive(notice)
            span.set_attribute("lahar.outcome", outcome.kind)
            if outcome.kind != "done":
                span.set_status(Status(StatusCode.ERROR, outcome.message))
            return outcome

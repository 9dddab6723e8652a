"""Calls of callbacks as spans of OpenTelemetry."""

from __future__ import annotations

from effects_world import Clock, Listener, World, listen, opened
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, get_current_span

from engine.effects.executor import InlineExecutor, ThreadExecutor
from engine.effects.notice import Notice
from engine.events.jobs import JobPhaseChanged
from engine.runtime.tracing import TracedExecutor


def test_every_call_is_a_span_and_those_that_fail_say_why(world: World, clock: Clock) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    first, second = world.commit("job", opened(), JobPhaseChanged("Running", "Pending"))
    listener = Listener(None, OSError("no route"))
    dispatcher = world.dispatcher(listen(listener), executor=TracedExecutor(InlineExecutor(clock), provider.get_tracer("test")))
    assert dispatcher.run_until_quiet(clock.now) == 1
    done, failed = exporter.get_finished_spans()
    assert done.attributes == {
        "lahar.callback": "listener",
        "lahar.event.id": first,
        "lahar.job": "job",
        "lahar.phase": listener.told[0].phase,
        "lahar.mode": "live",
        "lahar.outcome": "done",
    }
    assert done.status.status_code is StatusCode.UNSET
    assert (failed.attributes["lahar.event.id"], failed.status.status_code) == (second, StatusCode.ERROR)
    assert "no route" in failed.status.description


def test_what_a_callback_traces_itself_stands_below_its_call(world: World, clock: Clock) -> None:
    seen: list[int] = []

    def note(_: Notice) -> None:
        seen.append(get_current_span().get_span_context().span_id)

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    world.commit("job", opened())
    dispatcher = world.dispatcher(listen(note), executor=TracedExecutor(ThreadExecutor(), provider.get_tracer("test")))
    dispatcher.run_until_quiet(clock.now)
    (span,) = exporter.get_finished_spans()
    assert seen == [span.context.span_id]

"""No answer to `why` names a cause later than its effect, and no event is dated before the event of its job that caused it."""

from __future__ import annotations

from collections import defaultdict

from causes_in_order import must_be_in_order
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from test_lifecycle_laws import Programs

from engine.history.reading import JobHistory


class InOrder(Programs):
    """The same programs; at their end every answer about every job is read."""

    def teardown(self):
        inputs = {event.id: event for event in self.inputs}
        events = defaultdict(list)
        for event in self.driver.events:
            events[event.subject].append(event)
        for own in events.values():
            must_be_in_order(JobHistory(own, inputs))


def test_no_answer_names_a_cause_later_than_its_effect():
    quick = settings(max_examples=15, stateful_step_count=30, suppress_health_check=list(HealthCheck), deadline=None)
    run_state_machine_as_test(InOrder, settings=quick)

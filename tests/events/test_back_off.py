"""Whatever is tried again waits twice as long after each failure, up to a bound."""

from hypothesis import given
from hypothesis import strategies as st

from engine.events.back_off import BackOff

DAY = 86_400_000_000
PAIRS = st.tuples(st.integers(0, DAY), st.integers(0, DAY)).map(sorted).map(lambda pair: BackOff(*pair))


@given(PAIRS, st.integers(1, 80))
def test_each_failure_doubles_the_delay_up_to_the_longest(back_off: BackOff, failures: int) -> None:
    assert back_off.delay(1) == back_off.first
    assert back_off.delay(failures + 1) == min(back_off.delay(failures) * 2, back_off.longest)


def test_after_years_of_failures_it_is_still_the_longest() -> None:
    assert BackOff(1, DAY).delay(10**18) == DAY

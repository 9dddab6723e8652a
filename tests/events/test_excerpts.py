"""How much of a message is kept, and when two messages say the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.events.bounds import MESSAGE_BYTES
from engine.events.excerpts import LONGEST, excerpt, gist

anything = st.one_of(
    st.text(st.characters(exclude_categories=[]), max_size=80),
    st.builds(
        lambda text, times: text * times, st.text(st.characters(exclude_categories=[]), min_size=1, max_size=9), st.integers(1, 900)
    ),
)


@given(anything)
def test_an_excerpt_is_bounded_unicode_and_its_own_excerpt(message):
    kept = excerpt(message)
    assert len(kept.encode()) <= LONGEST  # a surrogate would not encode
    assert excerpt(kept) == kept


def test_a_long_message_keeps_its_beginning_and_its_end():
    message = "a" * 600 + "b" * 3_000 + "c" * 600
    kept = excerpt(message)
    assert kept == "a" * MESSAGE_BYTES + f" [… {4_200 - 2 * MESSAGE_BYTES:,} bytes …] " + "c" * MESSAGE_BYTES


@given(st.integers(0, 3), st.integers(0, 3))
def test_it_is_cut_between_characters(before, after):
    """Four bytes each: at every offset of the cut."""
    kept = excerpt("x" * before + "🌋" * 400 + "y" * after)
    assert set(kept.replace(" bytes ", "")) <= set("xy🌋[…] 0123456789,")
    assert kept.count("🌋") >= 2 * (MESSAGE_BYTES // 4 - 1)


def test_a_short_message_is_kept_as_it_is():
    assert excerpt("  0/3 nodes are available\n") == "0/3 nodes are available"
    assert excerpt("é" * 532) == "é" * 532
    assert excerpt("\ud800") == "?"


def test_messages_that_differ_in_their_numbers_say_the_same():
    one = "0/12 nodes are available: 12 Insufficient cpu, 3 node(s) had untolerated taint {gpu: yes}."
    other = "0/14 nodes are available: 4 node(s) had untolerated taint {gpu: yes}, 9 Insufficient cpu."
    assert gist(one) == gist(other) != gist("0/12 nodes are available: 12 Insufficient memory.")
    back_off = "back-off {} restarting failed container=web pod=web-1_default(a8b9)"
    assert gist(back_off.format("10s")) == gist(back_off.format("1m20s"))
    assert gist("") == "" != gist("12")

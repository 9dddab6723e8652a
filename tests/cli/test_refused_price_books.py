"""Price books of users beside the one in force: each is refused for its own reason, with the remedy, or taken."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

NOW = ("--at", "2026-06-15T00:00:00Z")
LATER = "2026-06-15T00:00:00.000000Z"


def version(name, since, price="1", /, **more):
    return {"version": name, "from": since, "prices": {"gpu_seconds": {"*": price}}, **more}


ENDED = version("2024", "2024-01-01", until="2024-07-01")
FIRST = version("2025", "2025-01-01")
SECOND = version("2026", "2026-01-01", "2")
PLANNED = version("2027", "2027-01-01", "3")
BOOK = (ENDED, FIRST, SECOND, PLANNED)


def write(*versions, **more):
    """Write the price book of a user to a file."""
    spec = {"currency": "EUR", **more, "versions": versions}
    content = {"apiVersion": "lahar.dev/v1", "kind": "PriceBook", "metadata": {"name": "prices"}, "spec": spec}
    Path("prices.json").write_text(json.dumps(content))


@pytest.fixture
def charged(lahar):
    """A log in which a book of four versions is in force: an ended one, two that follow each other, and one of next year."""
    write(*BOOK)
    lahar("apply", "prices.json", *NOW)
    return lahar


BEGAN = "was in force from 2025-01-01T00:00:00.000000Z on"
REFUSED = {
    "a backdated version": (
        (ENDED, FIRST, version("summer", "2025-06-01", "9"), SECOND, PLANNED),
        f"spec.versions[2].from: 'summer' begins at 2025-06-01T00:00:00.000000Z, but '2025' {BEGAN}; let it begin after {LATER}",
    ),
    "a planned version moved into the past": (
        (ENDED, FIRST, SECOND, version("2027", "2026-02-01", "3")),
        (
            "spec.versions[3].from: '2027' begins at 2026-02-01T00:00:00.000000Z, but '2026' was in force from "
            f"2026-01-01T00:00:00.000000Z on; let it begin after {LATER}"
        ),
    ),
    "a name with other prices": (
        (ENDED, version("2025", "2025-01-01", "7"), SECOND, PLANNED),
        (
            f"spec.versions[1]: '2025' has other rules, but {BEGAN}; keep them, and add a version of another name that begins "
            f"after {LATER}"
        ),
    ),
    "a planned name with other prices": (
        (ENDED, FIRST, SECOND, version("2027", "2027-01-01", "7")),
        "spec.versions[3]: '2027' has other rules than the version of that name before; give it another name",
    ),
    "a version left out": (
        (ENDED, SECOND, PLANNED),
        f"spec.versions: '2025' is left out, but {BEGAN}; keep it, and add one that begins after {LATER}",
    ),
    "a version that begins later than it did": (
        (ENDED, version("2025", "2025-02-01"), SECOND, PLANNED),
        f"spec.versions[1].from: '2025' begins at 2025-02-01T00:00:00.000000Z, but {BEGAN}; let it begin then",
    ),
    "a version ended in the past": (
        (ENDED, FIRST, version("2026", "2026-01-01", "2", until="2026-05-01"), PLANNED),
        f"spec.versions[2].until: '2026' ends at 2026-05-01T00:00:00.000000Z, but was in force then; let it end after {LATER}",
    ),
    "an ended version that ends earlier": (
        (version("2024", "2024-01-01", until="2024-03-01"), FIRST, SECOND, PLANNED),
        (
            "spec.versions[0].until: '2024' ends at 2024-03-01T00:00:00.000000Z, but was in force then; "
            "let it end at 2024-07-01T00:00:00.000000Z"
        ),
    ),
    "a version twice": (
        (*BOOK, FIRST),
        "spec.versions: '2025' stands there twice; leave one out, or give other rules another name",
    ),
    "two that overlap": (
        (ENDED, FIRST, version("2026", "2026-01-01", "2", until="2027-02-01"), PLANNED),
        "spec.versions: '2026' and '2027' overlap at 2027-01-01T00:00:00.000000Z; let one end where the other begins",
    ),
    "two that begin together": (
        (*BOOK, version("other", "2027-01-01")),
        "spec.versions: '2027' and 'other' overlap at 2027-01-01T00:00:00.000000Z; let one end where the other begins",
    ),
    "a credit": (
        (*BOOK, version("gift", "2028-01-01", "-1")),
        (
            "spec.versions[4].prices.gpu_seconds.*: -1 must not be below zero; a credit is no price: "
            "charge less with the factor of a multiplier, or 0"
        ),
    ),
    "a credit by a factor": (
        (*BOOK, version("gift", "2028-01-01", multipliers=[{"queue": "a", "factor": "-0.5"}])),
        (
            "spec.versions[4].multipliers[0].factor: -0.5 must not be below zero; a credit is no price: charge less "
            "with the factor of a multiplier, or 0"
        ),
    ),
    "a misspelt meter": (
        (*BOOK, version("next", "2028-01-01", prices={"gpu_second": {"*": "1"}})),
        (
            "spec.versions[4].prices.gpu_second: should be 'gpu_seconds', 'cpu_seconds', 'memory_byte_seconds' or "
            "'weighted_seconds'; did you mean gpu_seconds?"
        ),
    ),
    "a misspelt field": (
        (*BOOK, version("next", "2028-01-01", price={"gpu_seconds": {"*": "1"}})),
        "spec.versions[4].price: Extra inputs are not permitted; did you mean prices?",
    ),
    "a price in place of a version's": (
        (*BOOK, version("next", "2028-01-01", versions=[])),
        "spec.versions[4].versions: Extra inputs are not permitted; did you mean version?",
    ),
    "no version": ((), "spec.versions: write at least one"),
}


@pytest.mark.parametrize(("versions", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_book_is_refused_for_its_own_reason_with_the_remedy(charged, versions, reason):
    write(*versions)
    told = charged("apply", "prices.json", *NOW, code=2).err
    assert re.fullmatch(rf"lahar: prices\.json: line 1, column \d+: (PriceBook: )?{re.escape(reason)}\n", told), told
    if LATER not in reason:  # the check has the time of now
        assert charged("prices", "check", "prices.json", code=2).err == told
    assert [one["version"] for one in charged("prices", "show").record["versions"]] == ["2024", "2025", "2026", "2027"]


@pytest.mark.parametrize(
    ("field", "other", "reason"),
    [
        ("currency", "USD", "is USD, but EUR in the book in force; keep that: a log has one for all time"),
        ("currency", "Euro", "'Euro' is no code of ISO 4217, such as EUR"),
        (
            "time_zone",
            "Europe/Berlin",
            "is Europe/Berlin, but UTC in the book in force; keep that: a log has one for all time",
        ),
        ("time_zone", "Berlin", "'Berlin' is no name of the IANA database, such as Europe/Berlin"),
    ],
)
def test_a_log_keeps_its_currency_and_time_zone(charged, field, other, reason):
    write(*BOOK, **{field: other})
    assert f"spec.{field}: {reason}\n" in charged("apply", "prices.json", *NOW, code=2).err


@pytest.mark.parametrize("kind", ["a backdated version", "a version ended in the past", "a planned version moved into the past"])
def test_a_book_that_follows_the_remedy_is_taken(charged, kind):
    versions, reason = REFUSED[kind]
    place, field = re.match(r"spec\.versions\[(\d)\]\.(\w+)", reason).groups()
    mended = [*versions]
    mended[int(place)] = {**mended[int(place)], field: LATER.replace(".000000", ".000001")}
    write(*mended)
    assert charged("apply", "prices.json", *NOW).out == "PriceBook prices: changed\n"


def test_a_repetition_changes_nothing_however_it_is_written(charged):
    for versions in (
        BOOK,
        (PLANNED, SECOND, FIRST, ENDED),
        (*BOOK[:3], version("2027", "2027-01-01T01:00:00+01:00", "3.0", billable_from="running")),
    ):
        write(*versions)
        assert charged("apply", "prices.json").out == "PriceBook prices: unchanged\n"
        assert charged("prices", "diff", "prices.json").out == "nothing changes\n"


def test_a_gap_ahead_is_taken_with_a_warning(charged):
    write(ENDED, FIRST, version("2026", "2026-01-01", "2", until="2026-12-01"), PLANNED)
    gap = (
        "spec.versions: none is in force from 2026-12-01T00:00:00.000000Z to 2027-01-01T00:00:00.000000Z: use in that time is "
        "recorded with the amount 0 and listed as unpriced"
    )
    assert gap in charged("apply", "--strict", "prices.json", *NOW, code=2).err
    done = charged("apply", "prices.json", *NOW)
    assert gap in done.err
    assert done.out == "PriceBook prices: changed\n"


def test_a_gap_behind_may_be_filled_and_gives_no_warning(charged):
    """Nothing was charged then, so that a late version gives corrections, in closed months too."""
    write(ENDED, version("late", "2024-07-01", "5", until="2025-01-01"), FIRST, SECOND, PLANNED)
    done = charged("apply", "prices.json", *NOW)
    assert (done.out, done.err) == ("PriceBook prices: changed\n", "")

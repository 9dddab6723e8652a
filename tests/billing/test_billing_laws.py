"""The laws of the bill (specification, Laws 1 to 10) over random programs of jobs, nodes, prices, months and clocks."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from bill_oracle import expected, lifetime, month_at, slices
from billing_shard import append, messages, opened, run, tick
from hypothesis import given, settings
from hypothesis import strategies as st
from job_programs import HOUR, MINUTE, STARTS, Program, closed_programs, half_hour_programs, node_programs, programs
from standing import lines_of, must_reverse_what_it_names, net, standing, written

from engine.billing.invoice import invoices
from engine.events.attempts import AttemptEnded, AttemptLateFact
from engine.events.billing import UsageRecorded
from engine.events.inputs import ObjectApplied
from engine.log.memory import MemoryLog
from statemachines.vocabulary import failure_class

QUICK = settings(max_examples=60)
FEW = settings(max_examples=25)
DEEP = settings(max_examples=5_000, derandomize=False)


def differences(program, log, processor):
    """Return what is billed otherwise than the oracle bills it."""
    billed, right = net(standing(written(log))), expected(program, processor.position.now)
    right = {line: value for line, value in right.items() if value != (0, 0)}
    return {
        line: (billed.get(line), right.get(line)) for line in billed.keys() | right.keys() if billed.get(line) != right.get(line)
    }


# --- to the last digit ---------------------------------------------------------------------------------------------------------


def must_be_billed_rightly(program):
    """The oracle's bill stands; reversals leave nothing; no file changes once it is closed; what use was worth is told."""
    files: dict[str, str] = {}

    def note_closed(processor):
        for period in processor.state.periods.keys() - files.keys():
            files[period] = lines_of(standing(written(processor.log)), period)

    log, processor = run(program, after=note_closed)
    assert differences(program, log, processor) == {}
    records = standing(written(log))
    must_reverse_what_it_names(records)
    assert {period: lines_of(records, period) for period in files} == files
    must_tell_worth(program, records, files)
    reversed_ = {record.reverses for record in records}
    zone = program.zone if program.versions else "UTC"
    for record in records:
        if record.run.record == "usage" and record.id not in reversed_:
            assert (record.run.month or record.run.period) == month_at(record.start, zone)


def must_tell_worth(program, records, closed):
    told = defaultdict(set)
    for record in records:
        kept = record.run.kind == "reserved"
        assert kept == (record.run.worth == "reserved")
        if not kept:  # a place that is kept is no use
            told[record.run.uid].add((record.run.worth, record.run.period in closed or record.run.month is not None))
    for job in program.jobs.values():
        for facts in job.attempts.values():
            if any(is_closed for _, is_closed in told[facts.uid]):
                continue  # what its use was worth may have become known after that
            reason = facts.reason or ""
            if facts.phase in {None, "Succeeded"}:
                worth = "useful"
            elif reason.startswith("Preempted"):
                worth = "preempted"
            else:
                worth = "useful" if failure_class(reason) == "none" else "failed"
            assert {worth for worth, _ in told[facts.uid]} <= {worth}


@QUICK
@given(programs())
def test_what_stands_is_what_the_oracle_bills(program):
    must_be_billed_rightly(program)


@QUICK
@given(closed_programs())
def test_what_is_learnt_of_closed_months_is_billed_later(program):
    """Law 10: no closed file changes, whatever late ends, revisions and prices there are; later ones have the difference."""
    must_be_billed_rightly(program)


@QUICK
@given(half_hour_programs())
def test_use_across_a_month_end_within_an_hour_is_billed_as_by_the_oracle(program):
    """Law 9: the month is closed a minute after its end, 18:15 UTC."""
    must_be_billed_rightly(program)


@pytest.mark.slow
@DEEP
@given(st.one_of(programs(most=60), closed_programs(most=60)))
def test_what_stands_after_long_programs_is_what_the_oracle_bills(program):
    must_be_billed_rightly(program)


# --- law 1 -----------------------------------------------------------------------------------------------------------------------


@FEW
@given(programs())
def test_slices_and_what_is_not_billed_make_up_the_lifetime(program):
    """Law 1, by what is recorded alone: slices are disjoint, lie in one hour each, and lack of the lifetime what costs nothing."""
    log, processor = run(program)
    now = processor.position.now
    recorded: defaultdict[str, Counter[tuple[str, int, int]]] = defaultdict(Counter)
    for record in standing(written(log)):
        kind = record.run.record if record.run.reverses is None else record.run.reverses.record
        if kind == "usage":
            recorded[record.run.uid][record.charge.meter, record.start, record.end] += -1 if record.run.reverses else 1
    for job in program.jobs.values():
        for facts in job.attempts.values():
            begin, end = lifetime(program, facts, now)
            cut = list(slices(program, job, facts, now))
            assert sum(slice_.end - slice_.start for slice_ in cut) == end - begin
            for meter in {meter for meter, *_ in recorded[facts.uid]}:
                stretches = sorted(
                    (start, stop) for (name, start, stop), count in recorded[facts.uid].items() if name == meter and count
                )
                assert all(count in {0, 1} for count in recorded[facts.uid].values())
                assert all(before <= after for (_, before), (after, _) in pairwise(stretches))
                assert all(start // HOUR == (stop - 1) // HOUR for start, stop in stretches)
                free = sum(s.end - s.start for s in cut if not s.billable or not size_of(s, meter))
                assert sum(stop - start for start, stop in stretches) + free == end - begin


def size_of(slice_, meter):
    size = slice_.size
    rules = slice_.rules or {}
    weights = rules.get("weights", {})
    return {
        "gpu_seconds": size.gpu,
        "cpu_seconds": size.cpu_milli,
        "memory_byte_seconds": size.memory_bytes,
        "weighted_seconds": size.gpu * ("gpu_seconds" in weights) + size.cpu_milli * ("cpu_seconds" in weights),
    }[meter]


@FEW
@given(programs(), st.integers(-30 * MINUTE, 50 * HOUR))
def test_a_further_boundary_changes_no_total(program, distance):
    """Law 1: a price version is split in two of the same rules, at any microsecond."""
    where = program.inputs[0][1].recordedtime + distance

    def split(version):
        if not version["from"] < where < version.get("until", where + 1):
            return [version]
        return [{**version, "until": where}, {**version, "version": version["version"] + "'", "from": where}]

    other = deepcopy(program)
    other.inputs = [
        (topic, replace(event, data=replace(event.data, spec=with_versions(event.data.spec, split))))
        if isinstance(event.data, ObjectApplied)
        else (topic, event)
        for topic, event in program.inputs
    ]
    assert totals(other) == totals(program)


def with_versions(spec, split):
    return {**spec, "versions": [part for version in spec["versions"] for part in split(version)]}


def totals(program):
    log, _ = run(program)
    found: defaultdict[tuple[str, ...], tuple[Fraction, Fraction]] = defaultdict(lambda: (Fraction(0), Fraction(0)))
    for line, (quantity, amount) in net(standing(written(log))).items():
        before = found[line.uid, line.record, line.meter]
        found[line.uid, line.record, line.meter] = (before[0] + quantity, before[1] + amount)
    return {key: value for key, value in found.items() if value != (0, 0)}


# --- law 2 -----------------------------------------------------------------------------------------------------------------------


@FEW
@given(programs())
def test_an_invoice_is_the_sum_of_its_records(program):
    """Law 2; and its one rounding is a line of its own."""
    log, _ = run(program)
    records = standing(written(log))
    sums: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for record in records:
        sums[record.run.tenant, record.run.period] += record.amount
    stands = [event for event in written(log) if isinstance(event.data, UsageRecorded)]
    runs = [event for event in stands if any(record.run is event.data for record in records)]
    if len(runs) == len(stands):  # nothing was withdrawn in part
        found = {(invoice.tenant, invoice.period): invoice for invoice in invoices(runs, {})}
        assert {key: invoice.total.amount for key, invoice in found.items()} == dict(sums)
        for key, invoice in found.items():
            document = invoice.document()
            assert Decimal(document["total"]) == sums[key].quantize(Decimal("0.01"))
            assert Decimal(document["total"]) == Decimal(document["amount"]) + Decimal(document["adjustment"])
            assert sum(Decimal(line["amount"]) for line in document["lines"]) == sums[key]


# --- law 3 -----------------------------------------------------------------------------------------------------------------------


@FEW
@given(programs(), st.sampled_from(["cluster", "job-events"]), st.integers(0, 9))
def test_neither_order_nor_repetition_of_inputs_changes_a_net_amount(program, first, seed):
    """Law 3: job events and facts of the cluster come in any order, and those of a job more than once."""
    right, _ = run(program)
    other = deepcopy(program)
    dice = random.Random(seed)  # noqa: S311 - which inputs come again, no secret
    for _ in range(seed):
        place = dice.randrange(len(other.inputs))
        topic, event = other.inputs[place]
        later = place + 1 if isinstance(event.data, ObjectApplied) else dice.randrange(place, len(other.inputs)) + 1
        other.inputs.insert(later, (topic, event))
    log, _ = run(other, first)
    assert net(standing(written(log))) == net(standing(written(right)))


@QUICK
@given(node_programs(), st.randoms(use_true_random=False))
def test_an_attempt_is_charged_by_its_node_then_in_any_order_of_arrival(program, dice):
    """Law 3 between the watches of pods and nodes: each keeps its order, and falls behind the other one at will."""
    other = deepcopy(program)
    watches = {topic: [given_ for given_ in program.inputs if given_[0] == topic] for topic in ("cluster", "job-events")}
    other.inputs = []
    while waiting := [watch for watch in watches.values() if watch]:
        watch = dice.choice(waiting)
        heard = dice.choice((1, len(watch)))
        other.inputs += watch[:heard]
        del watch[:heard]
    assert nodes_of(other) == nodes_of(program)


def nodes_of(program):
    records = standing(written(run(program)[0]))
    return {(record.run.uid, record.start): (record.run.node_type, record.run.gpu_model) for record in records}


def test_a_changed_node_type_is_charged_however_late_it_is_read():
    """Law 3: the node watch lags behind that of the pods."""
    program = Program(STARTS[1], "UTC")
    for step in (("node", 0, 0, 0), ("node", 0, 1, 1), ("start", 0, 1, 2), ("run", 0, 15, 1), ("end", 0, 4, 2)):
        program.do(step)
    facts, rest = program.inputs[:2], program.inputs[2:]
    assert [event.data.type for _, event in facts] == ["large", "small"]
    late = deepcopy(program)
    late.inputs = [facts[0], *rest, facts[1]]
    bills = [net(standing(written(run(one)[0]))) for one in (program, late)]
    assert bills[0].keys() == bills[1].keys()
    types = [{record.run.node_type for record in standing(written(run(one)[0]))} for one in (program, late)]
    assert types == [{"small"}, {"small"}]


def test_what_was_said_of_a_moment_before_is_no_news_of_it():
    """Law 3: of facts of one moment the last one that is new holds, so that none may be heard once more in vain."""
    program = Program(STARTS[1], "UTC")
    for step in (("node", 0, 0, 0), ("node", 0, 1, 0), ("node", 0, 0, 0), ("start", 0, 1, 2), ("run", 0, 15, 1), ("end", 0, 4, 2)):
        program.do(step)
    facts = program.inputs[:3]
    assert [event.data.type for _, event in facts] == ["large", "small", "large"]
    assert len({event.time for _, event in facts}) == 1
    assert {record.run.node_type for record in standing(written(run(program)[0]))} == {"small"}


@FEW
@given(programs(), st.randoms(use_true_random=False))
def test_jobs_do_not_change_each_others_bills(program, dice):
    """Law 3 between jobs: any interleaving that keeps the order within each."""
    right, _ = run(program)
    other = deepcopy(program)
    queues = defaultdict(list)
    for given_ in program.inputs:
        queues[given_[1].subject if given_[0] == "job-events" else ""].append(given_)
    other.inputs = []
    while queues:
        chosen = dice.choice(sorted(queues))
        other.inputs.append(queues[chosen].pop(0))
        if not queues[chosen]:
            del queues[chosen]
    log, _ = run(other)
    assert net(standing(written(log))) == net(standing(written(right)))


# --- law 6 -----------------------------------------------------------------------------------------------------------------------


@FEW
@given(programs())
def test_only_ends_of_higher_rank_lengthen_a_bill(program):
    """Without the late facts of equal or lower rank the bill is at most as short as with them."""
    log, _ = run(program)
    ranks = {}
    kept = []
    for topic, event in program.inputs:
        data = event.data
        if isinstance(data, AttemptEnded):
            ranks[event.subject, data.index, data.attempt] = RANKS.index(data.rank)
        elif isinstance(data, AttemptLateFact) and RANKS.index(data.rank) >= ranks[event.subject, data.index, data.attempt]:
            event = replace(event, data=replace(data, ended=None))  # noqa: PLW2901 - the same fact without the end
        kept.append((topic, event))
    other = deepcopy(program)
    other.inputs = kept
    without, _ = run(other)
    lengths, longest = lengths_of(log), lengths_of(without)
    for uid, facts in ((facts.uid, facts) for job in program.jobs.values() for facts in job.attempts.values()):
        if facts.ends and min(facts.ends)[0] >= facts.ends[0][0]:
            assert lengths[uid] <= longest[uid]


RANKS = ("node", "scheduler", "watcher", "inferred")


def lengths_of(log):
    found: Counter[str] = Counter()
    for record in standing(written(log)):
        run_ = record.run
        if (run_.record if run_.reverses is None else run_.reverses.record) == "usage":
            found[run_.uid] += (record.end - record.start) * (-1 if run_.reverses else 1)
    return found


# --- law 8 -----------------------------------------------------------------------------------------------------------------------


@FEW
@given(programs())
def test_waiting_costs_nothing_unless_a_price_book_says_so(program):
    program.inputs = [given_ for given_ in program.inputs if not isinstance(given_[1].data, ObjectApplied)]
    program.versions = []
    log, processor = run(program)
    assert differences(program, log, processor) == {}
    ran = {facts.uid for job in program.jobs.values() for facts in job.attempts.values() if facts.running is not None}
    for record in standing(written(log)):
        assert record.run.uid in ran
        assert record.run.kind in {"running", "terminating"}
        assert record.amount == 0
        assert record.run.currency is None


# --- law 4: what batches make of it; recovery has a file of its own ------------------------------------------------------------


@FEW
@given(programs(), st.integers(1, 9))
def test_batches_change_no_byte(program, batch):
    """Law 4: the same inputs in the same order, with ids and sequences."""
    logs = []
    for size in (1, batch, 500):
        log = MemoryLog(clock=lambda: 1 << 60)
        append(log, [*program.inputs, tick(program.now + 6 * HOUR)])
        opened(log, batch=size).run_until_quiet()
        logs.append(messages(log))
    assert logs[0] == logs[1] == logs[2]

"""Random programs of jobs and their cluster, as job events and facts of the cluster; and what is known of each attempt in the end.

What is known is kept here in the plainest form there is, by the rules of the specification: the oracle makes the bill of it.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from hypothesis import strategies as st

from engine.events import Data, Event, Topic
from engine.events.attempts import (
    AttemptBound,
    AttemptChanged,
    AttemptEnded,
    AttemptLateFact,
    AttemptRunning,
    AttemptStarted,
    AttemptTerminating,
)
from engine.events.billing import PeriodClosed
from engine.events.ids import digest
from engine.events.inputs import NodeDeleted, NodeObserved, ObjectApplied
from engine.events.jobs import JobForgotten, JobOpened, JobPhaseChanged, JobRevised
from engine.events.times import format_time, parse_time
from statemachines.spec import JobSpec, Requests

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
CLUSTER: Final = "c1"
EVER: Final = -(10**18)
"""Before all events."""

STARTS: Final = tuple(
    map(
        parse_time,
        (
            "2026-10-24T22:59:30Z",  # summer time ends in Europe
            "2026-10-31T21:10:00Z",  # a month ends; summer time ends in America the day after
            "2027-12-31T20:00:00Z",
            "2028-02-28T23:30:00Z",  # a leap day
            "2017-09-30T23:00:00Z",  # midnight of the month is skipped in Paraguay
            "2020-10-31T22:00:00Z",  # midnight of the month comes twice in Cuba
        ),
    )
)
ZONES: Final = ("UTC", "Europe/Berlin", "Asia/Kathmandu", "America/New_York", "America/Asuncion", "America/Havana")
SIZES: Final = (
    Requests(1500, 1 << 30, 0),
    Requests(8000, 7, 2),
    Requests(0, 0, 1),
    Requests(1, 0, 0),
    Requests(0, 0, 0),
    Requests(250, 512 << 20, 8),
)
RULES: Final[tuple[dict[str, Any], ...]] = (
    {"prices": {"gpu_seconds": {"*": "0.0005", "H100": "0.001100001"}, "cpu_seconds": {"*": "0.00001"}}},
    {
        "prices": {"gpu_seconds": {"A100": "0.0007"}, "memory_byte_seconds": {"*": "0.0000000000000000001"}},
        "multipliers": [{"queue": "research", "factor": "1.25"}, {"tenant": "t1", "factor": "0.3"}],
        "increment_seconds": "60",
    },
    {"billable_from": "bound", "minimum_seconds": "600", "prices": {"cpu_seconds": {"*": "3", "large": "0.1"}}},
    {
        "bill_queued": True,
        "bill_terminating": False,
        "weights": {"gpu_seconds": {"*": "1"}, "cpu_seconds": {"*": "0.125"}},
        "prices": {"weighted_seconds": {"*": "0.77"}},
        "increment_seconds": "7",
        "round": "half_even",
    },
    {
        "preempted_free_seconds": "7200",
        "minimum_seconds": "900",
        "increment_seconds": "60",
        "billable_from": "bound",
        "bill_reserved": True,
        "prices": {"gpu_seconds": {"*": "1"}, "cpu_seconds": {"*": "0"}},
        "multipliers": [{"priority_class": "high", "factor": "2"}, {"preemptible": True, "factor": "0.5"}],
    },
)
REASONS: Final = ("PreemptedByScheduler", "AppFailed", "KilledByAction", "NodeLost", "PreemptedByNotice", "RejectedByNode")
RANKS: Final = ("node", "scheduler", "watcher", "inferred")
TYPES: Final = (("large", "A100"), ("small", None), ("large", "H100"), (None, None))


@dataclass(frozen=True)
class Fact:
    """What is so since when."""

    since: int
    value: Any


@dataclass
class AttemptFacts:
    """What is known of an attempt: times as they were said, whatever their order."""

    uid: str
    created: int
    sizes: list[Fact]
    bound: int | None = None
    node: str | None = None
    node_type: str | None = None
    gpu_model: str | None = None
    running: int | None = None
    terminating: int | None = None
    ends: list[tuple[int, int]] = field(default_factory=list)
    """Rank and time of each."""
    phase: str | None = None
    reason: str | None = None


@dataclass
class JobFacts:
    """What is known of a job."""

    terms: list[Fact]
    attempts: dict[tuple[str, int, int], AttemptFacts] = field(default_factory=dict)
    sequence: int = 1
    owner: bool = False
    reservations: list[tuple[int, int]] = field(default_factory=list)
    """Since when and until when a place is kept for it."""

    def keep_nothing(self, moment: int) -> None:
        """End the reservation that there is, if there is one."""
        if self.reservations:
            since, until = self.reservations.pop()
            if since < moment:
                self.reservations.append((since, min(until, moment)))


Input = tuple[Topic, Event[Any]]
Step = tuple[str, int, int, int]


class Program:
    """Carries out the steps of a program, each at its own moment; one that cannot be taken is none."""

    def __init__(self, start: int, zone: str) -> None:
        self.now = start
        self.zone = zone
        self.inputs: list[Input] = []
        self.jobs: dict[str, JobFacts] = {}
        self.nodes: dict[str, list[Fact]] = {}
        self.versions: list[dict[str, Any]] = []
        """Of the price book in force."""
        self.currency = ""
        self.closed: list[str] = []
        self._count = 0

    def __repr__(self) -> str:
        told = (f"{format_time(event.recordedtime)} {format_time(event.time)} {event.data}" for _, event in self.inputs)
        return "\n".join((f"months of {self.zone}", *told, format_time(self.now)))

    def do(self, step: Step) -> None:
        """Carry out one step; a number of it chooses how long after the one before."""
        name, which, what, lag = step
        self.now += GAPS[lag % len(GAPS)]
        carry_out: Callable[[int, int, int], None] = getattr(self, f"_{name}")
        carry_out(which, what, self.now + SKEWS[(lag // len(GAPS)) % len(SKEWS)])

    # --- writing ----------------------------------------------------------------------------------------------------------

    def say(self, topic: Topic, data: Data, subject: str, time: int, sequence: int = 0) -> None:
        """Add an input, recorded now."""
        self._count += 1
        ident = digest(f"{topic}-{self._count}".encode())
        correlation = subject if topic == "job-events" else ""
        self.inputs.append(
            (topic, Event(ident, "test", data.TYPE, subject, time, self.now, sequence, correlation, "cause", CLUSTER, data))
        )

    def of_job(self, job: str, data: Data, time: int) -> None:
        """Add a job event."""
        facts = self.jobs[job]
        self.say("job-events", data, job, time, facts.sequence)
        facts.sequence += 1

    def _slot(self, which: int) -> tuple[str, tuple[str, int, int], AttemptFacts] | None:
        found = [(job, slot, facts) for job, known in self.jobs.items() for slot, facts in known.attempts.items()]
        return found[which % len(found)] if found else None

    @property
    def live(self) -> list[tuple[str, tuple[str, int, int], AttemptFacts]]:
        """The attempts that have not ended."""
        return [
            (job, slot, facts) for job, known in self.jobs.items() for slot, facts in known.attempts.items() if facts.phase is None
        ]

    def _live(self, which: int) -> tuple[str, tuple[str, int, int], AttemptFacts] | None:
        found = self.live
        return found[which % len(found)] if found else None

    # --- jobs -------------------------------------------------------------------------------------------------------------

    def _start(self, which: int, what: int, at: int) -> None:
        job = f"j{which % 3}"
        if job not in self.jobs:
            self.jobs[job] = JobFacts([Fact(EVER, {"tenant": "t0", "queue": "default", "priority": None, "preemptible": False})])
            self.of_job(job, JobOpened("Job", job, managed=False, spec=JobSpec(), tenant="t0", user="ann"), at)
        known, index = self.jobs[job], what % 2
        number = 1 + sum(slot[1] == index for slot in known.attempts)
        slot, size = ("main", index, number), SIZES[what % len(SIZES)]
        uid = f"{job}-{index}-{number}"
        known.attempts[slot] = AttemptFacts(uid, at, [Fact(EVER, size)])
        self.of_job(job, AttemptStarted(*slot, uid=uid, requests=size), at)

    def _bind(self, which: int, what: int, at: int) -> None:
        if (found := self._live(which)) is None or found[2].bound is not None:
            return
        job, slot, facts = found
        facts.bound, facts.node = at, f"n{what % 3}"
        facts.node_type, facts.gpu_model = (None, None) if what % 2 else ("large", "A100")
        self.of_job(
            job,
            AttemptBound(*slot, node=facts.node, node_type=facts.node_type, gpu_model=facts.gpu_model, inferred=what % 5 == 0),
            at,
        )

    def _run(self, which: int, what: int, at: int) -> None:
        if (found := self._live(which)) is None or found[2].running is not None or found[2].terminating is not None:
            return
        job, slot, facts = found
        if facts.bound is None:
            self._bind(which, what, at)
        facts.running = at
        self.of_job(job, AttemptRunning(*slot, inferred=what % 5 == 0), at)

    def _resize(self, which: int, what: int, at: int) -> None:
        if (found := self._live(which)) is None:
            return
        job, slot, facts = found
        started = at - what * MINUTE if facts.terminating is not None and facts.running is None and what % 2 else None
        if started is not None:
            facts.running = started
        size = SIZES[what % len(SIZES)]
        facts.sizes.append(Fact(at, size))
        self.of_job(job, AttemptChanged(*slot, requests=size, started=started), at)

    def _delete(self, which: int, what: int, at: int) -> None:
        if (found := self._live(which)) is None or found[2].terminating is not None:
            return
        job, slot, facts = found
        facts.terminating = at
        self.of_job(job, AttemptTerminating(*slot), at)

    def _end(self, which: int, what: int, at: int) -> None:
        if (found := self._live(which)) is None:
            return
        job, slot, facts = found
        rank, reason = RANKS[what % len(RANKS)], REASONS[what % len(REASONS)]
        facts.phase = "Succeeded" if what % 3 == 0 else "Failed"
        facts.reason = None if facts.phase == "Succeeded" else reason
        facts.ends.append((RANKS.index(rank), at))
        if facts.running is None and what % 4 == 1:
            facts.running = at - what * MINUTE
        data = AttemptEnded(
            *slot, phase=facts.phase, reason=facts.reason, rank=rank, inferred=rank == "inferred", started=facts.running
        )  # type: ignore[arg-type]  # by name
        self.of_job(job, data, at)
        if all(other.phase is not None for other in self.jobs[job].attempts.values()) and what % 2:
            self.jobs[job].keep_nothing(at)
            self.of_job(job, JobPhaseChanged("Completed", "Running"), at)

    def _reserve(self, which: int, what: int, at: int) -> None:
        """Keep a place for a job: its notice of preemption is executed."""
        if not self.jobs:
            return
        job = sorted(self.jobs)[which % len(self.jobs)]
        if any(self.now < until for _, until in self.jobs[job].reservations):
            return  # a job is in one notice at a time
        until = self.now + (MINUTE, 17 * MINUTE, 2 * HOUR)[what % 3]
        self.jobs[job].reservations.append((self.now, until))
        self.of_job(job, JobPhaseChanged("Pending", "Privileged", reserved=until), self.now)

    def _phase(self, which: int, what: int, at: int) -> None:
        """Change the phase of a job: nothing is kept for it from then on, unless it waits again."""
        if not self.jobs:
            return
        job = sorted(self.jobs)[which % len(self.jobs)]
        phase = ("Running", "Restarting", "Pending", "Aborted")[what % 4]
        if phase != "Pending":
            self.jobs[job].keep_nothing(self.now)
        self.of_job(job, JobPhaseChanged(phase, "Pending"), self.now)

    def _late(self, which: int, what: int, at: int) -> None:
        if (found := self._slot(which)) is None or found[2].phase is None:
            return
        job, slot, facts = found
        rank = RANKS[what % len(RANKS)]
        at = (at, facts.ends[0][1] + (at - self.now) // 7, min(facts.ends)[1] - 1)[which % 3]
        started = at - what * MINUTE if facts.running is None and what % 3 == 0 else None
        if started is not None:
            facts.running = started
        terminating = at - 90 * SECOND if facts.terminating is None and what % 4 == 1 else None
        if terminating is not None:
            facts.terminating = terminating
        facts.ends.append((RANKS.index(rank), at))
        told = AttemptLateFact(*slot, rank=rank, ended=at, started=started, terminating=terminating)
        self.of_job(job, told, self.now)

    def _revise(self, which: int, what: int, at: int) -> None:
        if not self.jobs:
            return
        job = sorted(self.jobs)[which % len(self.jobs)]
        known = self.jobs[job]
        terms = known.terms
        last = terms[-1].value
        given: dict[str, Any]
        news: dict[str, Any]
        if what % 4 == 0:
            given, news = {"tenant": f"t{what % 2}"}, {"tenant": f"t{what % 2}"}
        elif what % 4 == 1:
            preemptible = what % 8 > 4
            given = {"labels": {"volcano.sh/preemptable": str(preemptible).lower()}}
            news = {**given, "preemptible": preemptible}
        else:
            priority = "high" if what % 3 else None
            queue = "research" if what % 4 == 2 else "default"
            given = {"spec": JobSpec(queue=queue, priority_class=priority)}
            news = {"queue": queue, "priority": priority}
        # The lifecycle stage stamps a revision with its own time, which never falls.
        owner = what % 5 == 0
        if last | news != last:
            if owner and not known.owner:  # of pods that were seen before their owner it was so from the beginning
                terms.clear()
            terms.append(Fact(self.now if terms else EVER, last | news))
        known.owner = known.owner or owner
        self.of_job(job, JobRevised(owner=owner, **given), self.now)

    # --- the cluster ------------------------------------------------------------------------------------------------------

    def _node(self, which: int, what: int, at: int) -> None:
        self._node_is(f"n{which % 3}", TYPES[what % len(TYPES)], self.now)

    def _node_late(self, which: int, what: int, at: int) -> None:
        """Hear what a node was when an attempt got it: its watch lags behind that of the pods."""
        if (found := self._slot(which)) is None or found[2].node is None or found[2].bound is None:
            return
        self._node_is(found[2].node, TYPES[(what + which) % len(TYPES)], found[2].bound - what * MINUTE)

    def _node_is(self, name: str, value: tuple[str | None, str | None], since: int) -> None:
        known = self.nodes.setdefault(name, [])
        # What has been said of that very moment before is no news, or a repetition would be.
        if value not in {fact.value for fact in known if fact.since == since}:
            insort(known, Fact(since, value), key=lambda fact: fact.since)
        self.say("cluster", NodeObserved(name, type=value[0], gpu_model=value[1]), name, since)

    def _node_gone(self, which: int, what: int, at: int) -> None:
        self.say("cluster", NodeDeleted(f"n{which % 3}"), f"n{which % 3}", self.now)

    def _book(self, which: int, what: int, at: int) -> None:
        since = self.now + (-30, -1, 0, 0, 1, 5)[what % 6] * HOUR + which * SECOND
        versions = [version for version in self.versions if version["from"] != since]
        if what % 7 == 3 and versions:  # other rules under a known name are refused
            versions[which % len(versions)] = {**RULES[what % len(RULES)], **_name(versions[which % len(versions)])}
        else:
            new = {**RULES[what % len(RULES)], "version": f"v{len(self.inputs)}", "from": since}
            if what % 5 == 4:
                later = [version["from"] for version in versions if version["from"] > since]
                new["until"] = min([since + 3 * HOUR, *later])
            versions = [_ended_before(version, since) for version in versions] + [new]
        self.say(
            "cluster",
            ObjectApplied("PriceBook", "prices", {"currency": "EUR", "time_zone": self.zone, "versions": versions}),
            "prices",
            self.now,
        )
        if self._is_lawful(versions):
            self.versions = versions

    def _is_lawful(self, versions: list[dict[str, Any]]) -> bool:
        """Tell whether a book leaves alone what was in force up to now, and gives no new rules an old name."""
        named = {version["version"]: _without_times(version) for version in self.versions}
        if any(named.get(version["version"], _without_times(version)) != _without_times(version) for version in versions):
            return False
        moments = {moment for version in (*self.versions, *versions) for moment in (version["from"], version.get("until"))}
        return all(
            _without_times(old) == _without_times(in_force(versions, moment) or {})
            for moment in moments
            if moment is not None and moment <= self.now and (old := in_force(self.versions, moment)) is not None
        )

    def _close(self, which: int, what: int, at: int) -> None:
        self.close(self.now - (0, 3, 3, 30)[what % 4] * 24 * HOUR)

    def close(self, moment: int) -> None:
        """Ask for the closing of the month in which a moment lies."""
        month = datetime.fromtimestamp(moment // SECOND, UTC).strftime("%Y-%m")
        self.say("cluster", PeriodClosed(month), CLUSTER, self.now)

    def _wait(self, which: int, what: int, at: int) -> None:
        """Let time pass, and the stage know of it."""
        self.now += (1, 7, 30, 24, 1)[what % 5] * HOUR
        self._node(which, what + which, at)


def in_force(versions: Sequence[dict[str, Any]], moment: int) -> dict[str, Any] | None:
    """Return the version of a price book that is in force at a moment."""
    begun = [version for version in versions if version["from"] <= moment]
    last = max(begun, key=lambda version: version["from"], default=None)
    return None if last is None or last.get("until", moment + 1) <= moment else last


def _ended_before(version: dict[str, Any], since: int) -> dict[str, Any]:
    """Return a version that does not overlap one that begins then."""
    return {**version, "until": since} if version["from"] < since < version.get("until", since) else version


def _name(version: dict[str, Any]) -> dict[str, Any]:
    return {name: version[name] for name in ("version", "from", "until") if name in version}


def _without_times(version: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in version.items() if name not in ("from", "until")}


GAPS: Final = (0, SECOND, 10 * MINUTE, 1, 47 * MINUTE, 17 * SECOND + 1, HOUR, 3 * HOUR + 7)
SKEWS: Final = (0, 0, 0, -HOUR, HOUR, -1, -3 * HOUR, 10 * MINUTE, -5 * MINUTE)
"""Of what is said against the moment at which it is recorded: producers' clocks differ, and facts come late."""

STEPS: Final = (
    *("start",) * 2,
    *("bind",) * 2,
    *("run",) * 4,
    *("end",) * 4,
    *("wait",) * 4,
    *("late",) * 3,
    *("close",) * 3,
    *("resize",) * 2,
    *("book",) * 2,
    *("reserve", "phase"),
    *("revise", "delete", "node", "node_gone", "node_late", "node_late"),
)

_numbers: Final = st.integers(0, 59)


def _step(*names: str) -> st.SearchStrategy[Step]:
    return st.tuples(st.sampled_from(names), st.integers(0, 8), _numbers, st.integers(0, 71))


@st.composite
def programs(draw: st.DrawFn, least: int = 12, most: int = 30) -> Program:
    """Draw a program of some steps; most begin with a price book and an attempt that runs."""
    program = Program(draw(st.sampled_from(STARTS)), draw(st.sampled_from(ZONES)))
    program.do(draw(_step("book", "wait")))
    for name in ("start", "start", "run"):
        program.do(draw(_step(name)))
    for step in draw(st.lists(_step(*STEPS), min_size=least, max_size=most)):
        program.do(step)
    return program


@st.composite
def node_programs(draw: st.DrawFn) -> Program:
    """Draw a program of attempts on one node that changes its type."""
    program = Program(STARTS[1], "UTC")
    steps = st.sampled_from(("node", "node", "node_late", "start", "run", "run", "end", "wait"))
    numbers = st.sampled_from(range(0, 60, 3))
    for step in draw(st.lists(st.tuples(steps, numbers, numbers, st.integers(0, 71)), min_size=12, max_size=30)):
        program.do(step)
    return program


@st.composite
def closed_programs(draw: st.DrawFn, most: int = 16) -> Program:
    """Draw a program of attempts that have ended and months that are closed, of which more is learnt then."""
    program = draw(programs(4, most))
    while program.live:
        program.do(draw(_step("end")))
    program.now += 40 * 24 * HOUR
    for back in (40, 39, 20):
        program.close(program.now - back * 24 * HOUR)
    for step in draw(
        st.lists(_step("late", "late", "late", "revise", "node", "node_late", "book", "close"), min_size=2, max_size=8)
    ):
        program.do(step)
    return program


@st.composite
def forgotten_programs(draw: st.DrawFn, most: int = 16) -> Program:
    """Draw a program of jobs that are over and forgotten one by one, while price books come and nodes change."""
    program = draw(programs(4, most))
    while program.live:
        program.do(draw(_step("end")))
    for job in draw(st.permutations(sorted(program.jobs))):
        program.of_job(job, JobPhaseChanged("Completed", "Running"), program.now)
        for step in draw(st.lists(_step("book", "wait", "node", "node_late"), max_size=3)):
            program.do(step)
        program.of_job(job, JobForgotten(finished=program.now), program.now)
    for step in draw(st.lists(_step("book", "book", "close", "node", "wait"), max_size=5)):
        program.do(step)
    return program


@st.composite
def half_hour_programs(draw: st.DrawFn) -> Program:
    """Draw a program of attempts that run while a month ends at 18:15 UTC, which is closed a minute later."""
    program = Program(parse_time("2026-03-31T16:40:00Z"), "Asia/Kathmandu")
    program.do(draw(_step("book")))
    for name in ("start", "run", *draw(st.lists(st.sampled_from(("start", "run", "end", "resize", "revise")), max_size=5))):
        program.do(draw(_step(name)))
    program.now = max(program.now, parse_time("2026-03-31T18:16:00Z"))
    program.close(parse_time("2026-03-31T00:00:00Z"))
    for step in draw(st.lists(_step("end", "late", "start", "run", "wait", "revise", "node_late", "book"), max_size=6)):
        program.do(step)
    return program

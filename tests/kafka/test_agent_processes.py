"""`lahar agents run` and the plain consumer, as processes on a real broker: what they are told, and what a kill leaves behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from broker import until
from lifecycle_inputs import inputs
from running_agents import PATIENCE, history

from engine.events import Message, Topic, decode
from engine.events.jobs import JobPhaseChanged
from engine.lifecycle.stage import LifecycleStage
from engine.log.port import Partition
from engine.processor.processor import Processor
from streams.agents.usage_book import FOLDED, UsageBook
from streams.log import KafkaLog
from streams.settings import KafkaSettings

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
LAHAR = "from engine.cli.main import main; main()"

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(settings: KafkaSettings, tmp_path: Path) -> Iterator[Start]:
    """Starts a process that writes to the files `out` and `err`; all are killed at the end of the test."""
    started: list[subprocess.Popen[bytes]] = []
    environment = os.environ | {
        "KAFKA_TOPIC_PREFIX": settings.topic_prefix,
        "KAFKA_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "LAHAR_LOG": "kafka://",
        "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), *sys.path]),
    }

    def start_one(*command: str, folder: Path = tmp_path) -> subprocess.Popen[bytes]:
        with (tmp_path / "out").open("ab") as out, (tmp_path / "err").open("ab") as err:
            started.append(subprocess.Popen([sys.executable, *command], cwd=folder, env=environment, stdout=out, stderr=err))
        return started[-1]

    yield start_one
    for process in started:
        process.kill()
        process.wait()


def lines(path: Path) -> list[str]:
    """The whole lines of a file."""
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def wait(process: subprocess.Popen[bytes], folder: Path, true: Callable[[], bool], what: str) -> None:
    def must_live() -> None:
        assert process.poll() is None, (folder / "err").read_text(encoding="utf-8")

    until(true, PATIENCE, what, must_live)


def stopped(process: subprocess.Popen[bytes], how: signal.Signals = signal.SIGTERM) -> int:
    process.send_signal(how)
    return process.wait(PATIENCE)


def listens(process: subprocess.Popen[bytes]) -> bool:
    """Tell whether a process listens on any port."""
    links = [str(link.readlink()) for link in Path(f"/proc/{process.pid}/fd").iterdir()]
    mine = {link.removeprefix("socket:[").removesuffix("]") for link in links if link.startswith("socket:")}
    tables = "".join(Path(f"/proc/{process.pid}/net/{name}").read_text() for name in ("tcp", "tcp6"))
    return any(row.split()[3] == "0A" and row.split()[9] in mine for row in tables.splitlines() if ":" in row.split()[0])


def test_five_lines_pay_every_job_whose_end_is_stated_and_once(
    make_log: Callable[[int], KafkaLog], start: Start, tmp_path: Path
) -> None:
    log = make_log(2)
    given = inputs(100)
    for topic in dict.fromkeys(topic for topic, _ in given):
        log.append(topic, [message for found, message in given if found == topic])
    expected: list[str] = []
    for number in range(2):
        processor = Processor(log, LifecycleStage(), number)
        processor.open()
        processor.run_until_quiet()
        offset = 0
        while records := log.read(Partition("job-events", number), offset, 1_000):
            offset = records[-1].offset + 1
            for record in records:
                event = decode(record.message)
                if isinstance(event.data, JobPhaseChanged) and event.data.phase == "Completed" and not event.data.inferred:
                    expected.append(f"paid {event.subject}")
    assert expected
    assert len(set(expected)) == len(expected)
    out = tmp_path / "out"
    told = start("-c", LAHAR, "agents", "run", "paid", folder=EXAMPLES / "agents")
    wait(told, tmp_path, lambda: len(lines(out)) >= len(expected), "the example is told")
    if Path("/proc").exists():
        assert not listens(told), "no web server, and no metrics that nobody asked for"
    assert stopped(told) == 0
    assert sorted(lines(out)) == sorted(expected)
    again = start("-c", LAHAR, "agents", "run", "paid:paid", folder=EXAMPLES / "agents")
    assert again.wait(PATIENCE) == 2
    assert "is no `Agents`" in (tmp_path / "err").read_text(encoding="utf-8")


def test_after_kills_each_event_is_delivered_and_counts_once_by_sequence(
    make_log: Callable[[int], KafkaLog], start: Start, tmp_path: Path
) -> None:
    log = make_log(2)
    given = [message for number in range(1_000) for message in history(f"job-{number}", 4)]
    log.append("job-events", given)
    every = [f"{message.subject} {message.sequence}" for message in given]
    told = tmp_path / "told"
    for wanted in (300, 1_500):
        process = start("-c", LAHAR, "agents", "run", "counting_agents", "--instance", "a")
        wait(process, tmp_path, lambda most=wanted: len(lines(told)) > most, "the agents are told")  # type: ignore[misc]  # bound now
        stopped(process, signal.SIGKILL)
    last = start("-c", LAHAR, "agents", "run", "counting_agents", "--instance", "a", "--metrics", "0")
    wait(last, tmp_path, lambda: set(lines(told)) >= set(every), "every event is told")
    (page,) = re.findall(r"metrics: (http://127\.0\.0\.1:\d+)/metrics", (tmp_path / "err").read_text(encoding="utf-8"))
    with urlopen(f"{page}/metrics") as answer:  # noqa: S310  it begins with http
        shown = answer.read().decode()
    assert 'lahar_agent_events_total{agent="note",outcome="done"}' in shown
    assert 'lahar_agent_missing_total{agent="note"} 0.0' in shown
    with urlopen(f"{page}/readyz") as answer:  # noqa: S310  it begins with http
        assert answer.status == 200
    assert stopped(last, signal.SIGINT) == 130
    # What is keyed by (job, sequence) counts every event once.
    assert sorted(set(lines(told))) == sorted(every)


def test_killed_usage_recovers_its_state_without_reading_all_history(
    make_log: Callable[[int], KafkaLog], start: Start, tmp_path: Path
) -> None:
    log, given = make_log(2), inputs(400)
    half = len(given) // 2
    processors = [Processor(log, LifecycleStage(), number) for number in range(2)]
    for processor in processors:
        processor.open()

    def process(part: list[tuple[Topic, Message]]) -> tuple[Counter[str], int]:
        """Put in some inputs and process them; return what all of the history says now, and its length."""
        for topic in dict.fromkeys(topic for topic, _ in part):
            log.append(topic, [message for found, message in part if found == topic])
        figures: Counter[str] = Counter()
        length = 0
        for number, processor in enumerate(processors):
            processor.run_until_quiet()
            book, records = UsageBook(), log.read(Partition("job-events", number), 0, 1_000_000)
            length += len(records)
            for event in (decode(record.message) for record in records):
                if type(event.data) in FOLDED:
                    book.fold(event)
            for kind, found in (("jobs", book.jobs), ("replicas", book.replicas)):
                for (_, phase), many in found.items():  # of several tenants and queues
                    figures[f"{kind} {phase}"] += many
        return +figures, length

    def usage() -> tuple[subprocess.Popen[bytes], Counter[str], float]:
        """Start it; return what it shows when it is ready, and how many records it has taken."""
        (tmp_path / "err").unlink(missing_ok=True)
        target = ("agents", "run", "streams.agents.usage:app", "--instance", "a", "--metrics", "0")
        started = start("-c", LAHAR, *target)
        wait(started, tmp_path, lambda: bool(pages(tmp_path)), "it serves its metrics")
        (page,) = pages(tmp_path)
        wait(started, tmp_path, lambda: answers(f"{page}/readyz"), "it is ready")
        with urlopen(f"{page}/metrics") as answer:  # noqa: S310  it begins with http
            text = answer.read().decode()
        figures: Counter[str] = Counter()
        for kind, phase, value in re.findall(r'^lahar_usage_(jobs|replicas)\{phase="(\w+)".* (\S+)$', text, re.MULTILINE):
            figures[f"{kind} {phase}"] += int(float(value))
        taken = re.findall(r'^lahar_agent_events_total\{agent="usage",.* (\S+)$', text, re.MULTILINE)
        return started, +figures, sum(map(float, taken))

    wanted, length = process(given[:half])
    first, figures, _ = usage()
    assert figures == wanted
    assert wanted["jobs Running"] > 0
    stopped(first, signal.SIGKILL)
    wanted, length = process(given[half:])
    second, figures, taken = usage()
    assert figures == wanted
    assert 0 < taken < length * 0.7, "it has read everything"
    assert stopped(second) == 0


def pages(folder: Path) -> list[str]:
    return re.findall(r"metrics: (http://127\.0\.0\.1:\d+)/metrics", "\n".join(lines(folder / "err")))


def answers(url: str) -> bool:
    """Tell whether a page is there and says that all is well."""
    try:
        with urlopen(url) as answer:  # noqa: S310  it begins with http
            return bool(answer.status == 200)
    except HTTPError as error:
        error.close()
        return False


def test_the_plain_consumer_reads_all_events_and_reports_gaps(
    make_log: Callable[[int], KafkaLog], settings: KafkaSettings, start: Start, tmp_path: Path
) -> None:
    log, out = make_log(2), tmp_path / "out"
    whole, torn = history("whole", 5), history("torn", 5)
    log.append("job-events", [*whole, *torn[:2], *torn[3:]])
    consumer = (str(EXAMPLES / "consumer" / "consumer.py"), settings.bootstrap_servers, "plain", settings.topic_prefix)
    process = start(*consumer)
    wait(process, tmp_path, lambda: len(lines(out)) >= 10, "the consumer reads")
    stopped(process, signal.SIGTERM)
    read = [re.sub(r" lahar\.job\..*", "", line) for line in lines(out)]
    assert sorted(read) == sorted(
        [f"whole {number}" for number in range(1, 6)]
        + [f"torn {number}" for number in (1, 2, 4, 5)]
        + ["GAP: torn lacks what stands between 2 and 4"]
    )


def test_the_app_of_the_page_is_run_by_fausts_own_command(
    make_log: Callable[[int], KafkaLog], start: Start, tmp_path: Path
) -> None:
    page = (HERE.parents[1] / "docs" / "agents.md").read_text(encoding="utf-8")
    assert "`faust -A MODULE:app worker` runs it" in page
    (tmp_path / "mixed.py").write_text(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[-1], encoding="utf-8")
    make_log(1).append("job-events", history("a"))
    running = start("-m", "faust", "-A", "mixed:app", "worker")
    # Faust takes what is printed for a warning.
    wait(running, tmp_path, lambda: (tmp_path / "err").read_text().count("lahar.job.") == 3, "it is told")
    assert not listens(running)
    assert stopped(running) == 0

"""`lahar run`, and other commands beside it, as processes of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from claim_builders import claim, results
from claim_builders import pod as pod_with_claims

COMMAND = [sys.executable, "-c", "from engine.cli.main import main; main()"]
ROOT = Path(__file__).parents[2]
SHARDS = ["billing/0", "budgets/0", "lifecycle/0", "scheduling/0"]


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command as a process, which ends with the block."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, *arguments], env=environment, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def running() -> Iterator[subprocess.Popen[str]]:
    """An engine that runs the log; it has said so."""
    with started("run") as process:
        told_that_it_runs(process)
        yield process


def told_that_it_runs(process: subprocess.Popen[str]) -> list[str]:
    """What an engine says until its shards are open, in lines."""
    said: list[str] = []
    while not (any(line.startswith("running") for line in said) and sum(" is open: " in line for line in said) == len(SHARDS)):
        line = process.stderr.readline()
        assert line, said
        said.append(line)
    return said


def stop(process: subprocess.Popen[str], number: int) -> tuple[int, str, str]:
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


def lines_until(process: subprocess.Popen[str], wanted: str) -> list[str]:
    lines = []
    for line in process.stdout:
        lines.append(line)
        if wanted in line:
            return lines
    raise AssertionError(lines)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_stops_when_told_to(lahar, files, number, code):
    with running() as process:
        stopped, out, err = stop(process, number)
        assert (stopped, out) == (code, "")
        assert (
            sorted(re.findall(r"^\S+Z INFO engine\.processor\.shard_logging: shard (\S+) is closed$", err, re.MULTILINE)) == SHARDS
        )
        assert err.count("\n") == len(SHARDS)
    assert lahar("status", "--json").lifecycle["running"] is False
    lahar("apply", files["queue"], files["job"])


def test_a_second_one_is_turned_away(lahar):
    with running() as process:
        done = lahar("run", "--once", code=4)
        assert re.fullmatch(rf"lahar: .*lahar\.db\.lock is held by process {process.pid}, which runs this log; .*\n", done.err)
        assert lahar("status", "--json").lifecycle["running"] is True
        assert "an engine runs it" in lahar("status").out


def test_what_is_appended_beside_it_is_processed_by_it(lahar, files):
    with running(), started("events", "--follow", "--json") as follower:
        done = lahar("apply", files["queue"], files["job"])
        assert done.out == "Queue research: created\nml/train: appended\n"
        assert done.err == "appended; the engine that runs this log processes it\n"
        lines_until(follower, "lahar.effect.requested.v1")
        assert lahar("job", "list", "--json").record["name"] == "train"
        assert lahar("job", "command", "ml/train", "AbortJob", "--no-process", "--json").record["outcome"] == "appended"
        lines_until(follower, '"Aborting"')
    assert [found["ok"] for found in lahar("verify", "--json").records] == [True] * 4


def test_following_begins_behind_what_there_was_and_misses_nothing(lahar, files):
    lahar("apply", files["queue"], files["job"])
    with started("events", "--follow", "--from", "now", "--json") as follower:
        assert json.loads(follower.stdout.readline())["caught_up"] is True
        lahar("job", "command", "ml/train", "AbortJob")
        (first, *_, last) = [json.loads(line) for line in lines_until(follower, '"lahar.job.phase_changed.v1"')]
        assert int(first["sequence"]) == 6
        assert last["data"]["phase"] in {"Aborting", "Aborted"}
        code, _, err = stop(follower, signal.SIGINT)
        assert (code, err) == (130, "")


def test_a_reader_who_has_had_enough_is_no_failure(lahar, files):
    lahar("import-trace", LAHAR_BILLING="0")  # its 200,000 hours of use take half a minute
    for arguments in (["events"], ["export"], ["job", "list", "--json"]):
        with started(*arguments) as process:
            process.stdout.readline()
            process.stdout.close()
            assert process.wait(30) == 0
            assert "Traceback" not in process.stderr.read()


def test_metrics_are_served_on_this_machine_alone(lahar, files):
    lahar("apply", files["queue"], files["job"])
    with started("run", "--metrics", "0") as process:
        address = re.search(r"http://127\.0\.0\.1:\d+/metrics", "".join(told_that_it_runs(process)))
        with urlopen(address[0]) as answer:  # noqa: S310 - the address was just read
            page = answer.read().decode()
        for probe in ("healthz", "readyz"):
            with urlopen(address[0].replace("metrics", probe)) as answer:  # noqa: S310 - as above
                assert json.load(answer) == {"ok": True, "reasons": []}
        assert re.search(r'^lahar_inputs_received_total\{shard="0",stage="lifecycle"\} 2\.0$', page, re.MULTILINE), page
        port = address[0].split(":")[2].split("/")[0]
        done = lahar("run", "--once", "--metrics", port, "--log", "sqlite:other.db", code=2)
        assert done.err == f"lahar: --metrics 127.0.0.1:{port}: Address already in use; choose another address\n"


def test_a_watch_is_taken_in_as_it_comes(lahar):
    """What has come is processed when the stream pauses, not when it ends."""
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "x", "uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": "m"}]},
    }
    lahar("ingest", given="")
    with started("ingest", "-") as source, started("events", "--follow", "--json") as follower:
        for uid in ("u1", "u2"):
            pod["metadata"]["uid"] = uid
            source.stdin.write(json.dumps({"type": "ADDED", "object": pod}, indent=1) + "\n")
            source.stdin.flush()
            lines_until(follower, f'"subject":"{uid}"')
        # Another command processes in between; the stream takes the shard back.
        lahar("job", "command", "u1", "AbortJob", code=2)
        pod["metadata"]["uid"] = "u3"
        out, err = source.communicate(json.dumps({"type": "ADDED", "object": pod}))
        assert (source.returncode, out, err) == (0, "3 taken; 3 processed\n", "")
        lines_until(follower, '"subject":"u3"')


def test_pods_of_a_watch_do_not_wait_for_claims_that_may_never_come(lahar):
    """Once the claim has come, the next that is seen of the pod has its devices."""
    lahar("ingest", given="")
    with started("ingest", "-") as source, started("events", "--follow", "--json") as follower:
        source.stdin.write(json.dumps(pod_with_claims("u1", "one")) + "\n")
        source.stdin.flush()
        lines_until(follower, '"resourceclaims":1000')
        source.stdin.write(json.dumps(claim(allocated=results("gpu"), pods=("u1",))) + "\n")
        source.communicate(json.dumps(pod_with_claims("u1", "one", version=2)))
        assert source.returncode == 0
        assert '"requests":{"gpu":1}' in lines_until(follower, "lahar.attempt.changed.v1")[-1]


def test_two_that_append_at_once_leave_nothing_undone(lahar, files):
    lahar("apply", files["queue"])
    with ExitStack() as stack:
        processes = [stack.enter_context(started("job", "submit", "--allow-same-name", str(files["job"]))) for _ in range(4)]
        for process in processes:
            process.communicate(timeout=60)
            assert process.returncode == 0
    assert [found["lag"] for found in lahar("status", "--json").records] == [0] * 4
    assert len(lahar("job", "list", "--json").records) == 4

"""docs/kafka.md, Rights: with those of a row its processes and commands work, without one of them they say so.

A broker of its own, on which who is not named in the table may do nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Collection, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from aiokafka.protocol.admin import CreateAclsRequest, DescribeAclsRequest, DescribeAclsRequest_v1
from broker import Cluster, Options, need_broker, until
from documentation_pages import ROOT
from lahar_command import Command
from running_agents import Running
from topics_of_tests import administered
from worker_process import Lahar

from engine.events import Event
from streams.agents import agent, job_events
from streams.settings import KafkaSettings

PASSWORD: Final = "any"  # noqa: S105  of a broker that lives as long as the tests
USERS: Final = 60
PATIENCE: Final = 60.0
COLUMNS: Final = ("topics", "groups", "transactional ids")
KINDS: Final = {"topics": 2, "groups": 3, "transactional ids": 5}
OPERATIONS: Final = {"Read": 3, "Write": 4, "Create": 5, "Describe": 8, "DescribeConfigs": 10, "AlterConfigs": 11}
LITERAL, PREFIXED, ALLOW, ANY = 3, 4, 3, 1
MODULES: Final = """\
from engine.effects import Disable, callback
from streams.agents import agent, job_events


@callback(level="job")
def told(notice):
    print(f"told of {notice.name}", flush=True)


@callback(level="job")
def refusing(notice):
    raise Disable("it is closed")


@agent(job_events)
async def given(event):
    print(f"given {event.type}", flush=True)
"""
READING: Final = "readers"
APPENDING: Final = "appenders"
BOTH: Final = "commands that read and append"
LIFECYCLE: Final = "worker --stage lifecycle"
SCHEDULING: Final = "worker --stage scheduling"
BILLING: Final = "worker --stage billing"
BUDGETS: Final = "worker --stage budgets"
EFFECTS: Final = "worker --stage effects"
ALL_WORKERS: Final = (LIFECYCLE, SCHEDULING, BILLING, BUDGETS, EFFECTS)
OWN: Final = "agents run of your own"
USAGE: Final = "agents run streams.agents.usage:app"
TOPICS: Final = ("--partitions", 1, "--replication", 1)
POD: Final = """\
{"apiVersion": "v1", "kind": "Pod", "spec": {},
 "metadata": {"name": "p", "namespace": "ml", "uid": "p1", "creationTimestamp": "2026-03-02T09:30:00Z"}}"""


RAN: Final = """\
{"apiVersion": "v1", "kind": "Pod",
 "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
 "metadata": {"name": "ran", "namespace": "ml", "uid": "ran", "creationTimestamp": "2026-03-02T09:30:00Z"},
 "status": {"phase": "Succeeded", "startTime": "2026-03-02T09:30:00Z", "containerStatuses": [{"name": "c", "state":
  {"terminated": {"exitCode": 0, "startedAt": "2026-03-02T09:31:00Z", "finishedAt": "2026-03-02T09:41:00Z"}}}]}}"""
GRANT: Final = "{apiVersion: lahar.dev/v1, kind: Grant, metadata: {name: g}, spec: {principals: ['*'], namespaces: ['*']}}"


def job(name: str) -> str:
    return f"""\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}, namespace: ml}}
spec:
  minAvailable: 1
  tasks:
  - {{name: worker, replicas: 1, template: {{spec: {{containers: [{{name: main, image: train}}]}}}}}}
"""


class Right(NamedTuple):
    """An operation on what is named; behind the log's prefix, `*` at the end: on all that begin so."""

    kind: str
    operation: str
    name: str


def rights(*rows: str) -> list[Right]:
    """Return what the page names in some rows, each known by the beginning of its first cell."""
    part = (ROOT / "docs" / "kafka.md").read_text(encoding="utf-8").split("\n## Rights\n")[1].split("\n## ")[0]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("| ")]
    found: list[Right] = []
    for row in rows:
        ((_, *cells),) = [cells for cells in table[1:] if cells[0].replace("`", "").startswith(row)]
        for kind, cell in zip(COLUMNS, cells, strict=True):
            for granted in filter(None, cell.split("; ")):
                operations: list[str] = []
                names: list[str] = []
                for word in granted.replace(",", "").split():
                    (operations if word in OPERATIONS else names).append(word)
                assert operations
                assert names
                found += [
                    Right(kind, operation, "*" if name == "all" else name.strip("`")) for operation in operations for name in names
                ]
    return list(dict.fromkeys(found))


def without(given: Collection[Right], *taken: str) -> list[Right]:
    """Return rights without some of them, each written as `Write snapshots`."""
    left = [right for right in given if f"{right.operation} {right.name}" not in taken]
    assert len(left) == len(given) - len(taken)
    return left


class AclsOf(DescribeAclsRequest):  # type: ignore[misc]  # aiokafka has no types
    """In a version that aiokafka encodes as brokers read it."""

    def __init__(self, user: str) -> None:
        super().__init__(ANY, None, ANY, user, None, ANY, ANY)

    def prepare(self, versions: object) -> DescribeAclsRequest_v1:
        return self.build(DescribeAclsRequest_v1)


class Guarded:
    """A broker that lets nobody do anything, and a log on it."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.folder = folder
        self._settings = KafkaSettings(bootstrap_servers=cluster.bootstrap)
        self._servers = f"127.0.0.1:{cluster.brokers[0].ports['OPEN']}"
        self._users = count()

    def log(self, prefix: str) -> Command:
        """Return the command in the hands of whoever may do everything."""
        return Command(f"kafka://{self._settings.bootstrap_servers}", KAFKA_TOPIC_PREFIX=prefix)

    def user(self, given: Sequence[Right], prefix: str = "made-") -> dict[str, str]:
        """Make somebody who has these rights and no others; return the environment of a process of his."""
        name = f"user{next(self._users)}"
        self.grant(name, given, prefix)
        return {
            "LAHAR_LOG": f"kafka://{self._servers}",
            "KAFKA_TOPIC_PREFIX": prefix,
            "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "KAFKA_SASL_USERNAME": name,
            "KAFKA_SASL_PASSWORD": PASSWORD,
            "KAFKA_REQUEST_SECONDS": "20",
        }

    def grant(self, name: str, given: Sequence[Right], prefix: str = "made-") -> None:
        """Give somebody these rights too; they hold when this returns."""
        user = f"User:{name}"
        wanted = self._rights_of(user) + len(given)
        asyncio.run(administered(self._settings, lambda admin: _grant(admin, user, given, prefix)))
        # Brokers hear of it a little after the controller has said yes.
        until(lambda: self._rights_of(user) >= wanted, PATIENCE, "the broker knows the rights")

    def _rights_of(self, user: str) -> int:
        """Return how many rights somebody has, as the broker knows."""
        answer = asyncio.run(administered(self._settings, lambda admin: admin._send_request(AclsOf(user))))
        assert not answer.error_code
        return sum(len(acls) for *_, acls in answer.resources)

    def command(self, given: Sequence[Right], prefix: str = "made-") -> Command:
        environment = self.user(given, prefix)
        return Command(environment.pop("LAHAR_LOG"), **environment)

    def process(self, given: Sequence[Right], *arguments: str, metrics: bool = True, **more: str) -> Lahar:
        environment = self.user(given) | {"LAHAR_CONFIG": "lahar.toml"} | more
        return Lahar(self._settings, *arguments, folder=self.folder, metrics=metrics, **environment)


async def _grant(admin: Any, user: str, given: Sequence[Right], prefix: str) -> None:
    for kind, operation, name in given:
        pattern = PREFIXED if name.endswith("*") else LITERAL
        resource = prefix + name.removesuffix("*")
        request = CreateAclsRequest(KINDS[kind], resource, pattern, user, "*", OPERATIONS[operation], ALLOW)
        answer = await admin._send_request(request)
        assert [code for code, _ in answer.creation_responses] == [0], answer


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """With a log behind the prefix `made-`, in which a job was processed."""
    need_broker()
    folder = tmp_path_factory.mktemp("rights")
    (folder / "guarded.py").write_text(MODULES)
    (folder / "lahar.toml").write_text("callbacks = ['guarded']\n")
    logins = " ".join(f'user_user{number}="{PASSWORD}"' for number in range(USERS))
    options = Options(
        listeners={"OPEN": "SASL_PLAINTEXT"},
        settings={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.open.plain.sasl.jaas.config": (
                f"org.apache.kafka.common.security.plain.PlainLoginModule required {logins};"
            ),
        },
    )
    with Cluster(options=options) as cluster:
        found = Guarded(cluster, folder)
        lahar = found.log("made-")
        lahar("topics", "apply", "--partitions", 1, "--replication", 1)
        lahar("apply", "-", given=job("first"))
        assert lahar.records("run", "--once")[0]["processed"] == 1
        yield found


def refused(lahar: Command, *arguments: object, **more: Any) -> str:
    """Return the one line that a command says that may not do its work."""
    said = lahar(*arguments, code=4, **more).err
    assert said.count("\n") == 1, said
    return said


def test_topics_are_made_and_compared(guarded: Guarded) -> None:
    prefix = "anew-"
    maker, planner = (guarded.command(rights(row), prefix) for row in ("topics apply", "topics plan"))
    assert "pods: missing" in maker("topics", "apply", *TOPICS).out
    assert planner("topics", "plan", *TOPICS).out == "the topics are as declared\n"


def test_commands_that_read(guarded: Guarded) -> None:
    lahar = guarded.command(rights(READING))
    lahar("summary")
    assert "first" in lahar("why", "ml/first").out
    assert lahar.records("status")[0]["lag"] >= 0
    assert len(lahar("export").out.splitlines()) > 3
    lahar("verify")
    lahar("callbacks", "list")
    refused(lahar, "apply", "-", given=job("never"))


def test_commands_that_append(guarded: Guarded) -> None:
    lahar = guarded.command(rights(APPENDING))
    assert "1 taken" in lahar("ingest", "-", given=POD).out
    lahar = guarded.command(rights(BOTH))
    assert "ml/second: appended" in lahar("apply", "-", given=job("second")).out


def test_a_users_inputs_bear_the_login_name_and_give_no_grant(guarded: Guarded) -> None:
    environment = guarded.user(without(rights(BOTH), "Write cluster"))
    lahar = Command(environment.pop("LAHAR_LOG"), **environment)
    lahar("apply", "-", given=job("signed"))
    lahar("job", "command", "ml/first", "AbortJob", "--by", "somebody-else")
    exported = [json.loads(line) for line in guarded.log("made-")("export").out.splitlines()]
    mine = [one for one in exported if one.get("data", {}).get("principal") == environment["KAFKA_SASL_USERNAME"]]
    assert [one["type"] for one in mine] == ["lahar.job.submitted.v1", "lahar.command.issued.v2"]
    assert "TopicAuthorizationFailedError" in refused(lahar, "apply", "-", given=GRANT)


def test_an_export_is_imported_and_processed_on(guarded: Guarded) -> None:
    prefix = "moved-"
    guarded.log("made-")("run", "--once")
    guarded.log(prefix)("topics", "apply", *TOPICS)
    exported = guarded.command(rights(READING))("export").out
    assert len(exported.splitlines()) > 3
    more = (Right("topics", "Write", "*"), Right("groups", "Read", "lahar-cursor-import"))
    guarded.command([*rights(LIFECYCLE, SCHEDULING, BILLING, BUDGETS), *more], prefix)("import", "-", given=exported)
    assert guarded.command(rights(READING), prefix)("export").out == exported
    guarded.log(prefix)("apply", "-", given=job("later"))
    assert guarded.command(rights(*ALL_WORKERS), prefix).records("run", "--once")[0]["processed"] == 1


LESS: Final = [
    (READING, "summary", "Read *", "TopicAuthorizationFailedError"),
    (READING, "summary", "Describe lahar-*", "GroupAuthorizationFailedError"),
    (APPENDING, "ingest -", "Write pods", "TopicAuthorizationFailedError"),
    ("topics plan", "topics plan", "DescribeConfigs *", "TopicAuthorizationFailedError"),
    ("run", "run --once", "Write lahar-lifecycle*", "TransactionalIdAuthorizationFailed"),
    ("run", "run --once", "Read lahar-lifecycle*", "GroupAuthorizationFailedError"),
    ("run", "run --once", "Write job-events", "TopicAuthorizationFailedError"),
    ("run", "run --once", "Write snapshots", "TopicAuthorizationFailedError"),
    ("run", "run --once", "Write lahar-billing*", "TransactionalIdAuthorizationFailed"),
    ("run", "run --once", "Read lahar-billing*", "GroupAuthorizationFailedError"),
    ("run", "run --once", "Write billing", "TopicAuthorizationFailedError"),
    ("run", "run --once", "Write lahar-scheduling*", "TransactionalIdAuthorizationFailed"),
    ("run", "run --once", "Write lahar-budgets*", "TransactionalIdAuthorizationFailed"),
    ("run", "run --once", "Write budgets", "TopicAuthorizationFailedError"),
    ("run", "run --once", "Read lahar-cursor-*", "GroupAuthorizationFailedError"),
]


@pytest.mark.parametrize(("row", "command", "taken", "error"), LESS, ids=[f"{command}: {taken}" for _, command, taken, _ in LESS])
def test_what_is_missing_is_said_in_a_line(
    guarded: Guarded, row: str, command: str, taken: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(guarded.folder)
    monkeypatch.setenv("LAHAR_CONFIG", "lahar.toml")
    guarded.log("made-")("apply", "-", given=job("waiting"))
    given = rights(*ALL_WORKERS) if row == "run" else rights(row)
    lahar = guarded.command(without(given, taken))
    assert error in refused(lahar, *command.split(), given=POD)


def test_a_lifecycle_worker_and_who_follows_what_it_decides(guarded: Guarded) -> None:
    with (
        guarded.process(rights(LIFECYCLE), "worker", "--stage", "lifecycle", "--instance", "a") as worker,
        guarded.process(rights(READING), "events", "--follow", metrics=False) as follower,
    ):
        worker.until(lambda: worker.is_ready)
        guarded.command(rights(BOTH))("apply", "-", given=job("third"))
        follower.until(lambda: "ml/third" in follower.said)
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0
        assert "WARNING" not in worker.said


def test_a_billing_worker_and_who_closes_a_month(guarded: Guarded) -> None:
    with guarded.process(rights(BILLING), "worker", "--stage", "billing", "--instance", "a") as worker:
        worker.until(lambda: worker.is_ready)
        everybody = guarded.log("made-")
        everybody("ingest", "--recorded", "-", given=RAN)
        everybody("run", "--once", LAHAR_BILLING="0")
        reader = guarded.command(rights(READING))
        worker.until(lambda: bool(reader.records("billing", "records", "--all")))
        reader("billing", "verify")
        refused(reader, "billing", "close", "2026-03")
        guarded.command(rights(BOTH))("billing", "close", "2026-03")
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0
        assert "WARNING" not in worker.said


def test_without_billing_and_scheduling_nobody_needs_a_right_to_them(guarded: Guarded) -> None:
    guarded.log("made-")("apply", "-", given=job("unbilled"))
    environment = guarded.user(rights(LIFECYCLE, EFFECTS)) | {"LAHAR_BILLING": "0", "LAHAR_SCHEDULING": "0"}
    lahar = Command(environment.pop("LAHAR_LOG"), **environment)
    assert lahar.records("run", "--once")[0]["processed"] >= 1


@pytest.mark.parametrize("taken", ["Write billing", "Write lahar-billing*"])
def test_a_billing_worker_without_rights_reports_it_in_its_readiness(guarded: Guarded, taken: str) -> None:
    # By the name of the one before, whose place the group keeps for a restart.
    billing = ["worker", "--stage", "billing", "--instance", "a"]
    with guarded.process(without(rights(BILLING), taken), *billing, KAFKA_REQUEST_SECONDS="3") as worker:
        guarded.log("made-")("ingest", "--recorded", "-", given=RAN.replace("ran", f"ran-{len(taken)}"))
        guarded.log("made-")("run", "--once", LAHAR_BILLING="0")
        worker.until(lambda: "AuthorizationFailed" in worker.page("/readyz"))
        (reason,) = json.loads(worker.page("/readyz"))["reasons"]
        assert reason.count("AuthorizationFailed") == 1


def test_an_effects_worker(guarded: Guarded) -> None:
    with guarded.process(rights(EFFECTS), "worker", "--stage", "effects", "--instance", "a") as worker:
        worker.until(lambda: "told of first" in worker.said and "refusing is disabled" in worker.said)
        worker.until(lambda: worker.is_ready)
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0
        # So does whatever is wrong with the log begin.
        assert "callbacks:" not in worker.said


@pytest.mark.parametrize(
    ("row", "module", "told"),
    [(OWN, "guarded", "given lahar.job.opened"), (USAGE, "streams.agents.usage:app", 'lahar_usage_jobs{phase="Pending"')],
)
def test_agents(guarded: Guarded, row: str, module: str, told: str) -> None:
    with guarded.process(rights(row), "agents", "run", module) as agents:
        agents.until(lambda: agents.is_ready and told in agents.said + agents.page("/metrics"))
        agents.send(signal.SIGTERM)
        assert agents.wait() == 0
        assert "WARNING" not in agents.said


@pytest.mark.parametrize("taken", ["Read job-events", "Read lahar-agents-*"])
def test_agents_say_what_is_missing(guarded: Guarded, taken: str) -> None:
    with guarded.process(without(rights(OWN), taken), "agents", "run", "guarded") as agents:
        assert agents.wait() == 4
        assert "AuthorizationFailedError" in agents.said.splitlines()[-1]


@pytest.mark.parametrize(
    "taken",
    [
        ["Describe *", "Read snapshots"],
        *(pytest.param(taken, marks=pytest.mark.slow) for taken in (["Read snapshots"], ["Describe lahar-lifecycle*"])),
    ],
)
def test_usage_is_counted_from_the_beginning_by_who_may_read_no_snapshots(guarded: Guarded, taken: list[str]) -> None:
    given = without(rights(USAGE), *taken)
    with guarded.process(given, "agents", "run", "streams.agents.usage:app") as agents:
        agents.until(lambda: agents.is_ready and 'lahar_usage_jobs{phase="Pending"' in agents.page("/metrics"))
        assert "no snapshots are available, so the whole history is read: " in agents.said


@pytest.mark.parametrize("row", [LIFECYCLE, BILLING])
def test_a_worker_that_may_not_read_the_log_says_so_and_ends(guarded: Guarded, row: str) -> None:
    left = without(rights(row), "Read *")
    with guarded.process(left, *row.split(), "--instance", "c") as worker:
        assert worker.wait() == 4
        assert "TopicAuthorizationFailedError" in worker.said.splitlines()[-1]


@pytest.mark.parametrize(("row", "taken"), [(LIFECYCLE, "Read lahar-lifecycle*"), (BILLING, "Read lahar-billing*")])
def test_who_is_not_let_into_the_group_of_the_workers_says_so_and_ends(guarded: Guarded, row: str, taken: str) -> None:
    left = without(rights(row), taken)
    with guarded.process(left, *row.split(), "--instance", "b") as worker:
        assert worker.wait() == 4
        assert "GroupAuthorizationFailedError" in worker.said.splitlines()[-1]


def test_agents_that_send_have_a_producer_as_soon_as_they_may(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in guarded.user(rights(OWN)).items():
        monkeypatch.setenv(name, value)
    settings, failed, sent = KafkaSettings.of_url(os.environ["LAHAR_LOG"]), threading.Event(), threading.Event()

    @agent(job_events, name="sending")
    async def send(event: Event[Any]) -> None:
        try:
            await (await running.app.topic("made-preemptions").send(value=b"{}"))
        except Exception:
            failed.set()
            raise
        sent.set()

    with Running(settings, send, name="sending") as running:
        until(failed.is_set, PATIENCE, "sending has failed")
        assert not sent.is_set()
        guarded.grant(settings.sasl_username, [Right("topics", "Write", "preemptions")])
        until(sent.is_set, PATIENCE, "something was sent")

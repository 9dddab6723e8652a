"""Who runs the command is the principal of what it puts in, whatever is typed."""

from __future__ import annotations

import json
import os
import pwd

import pytest
from documentation_pages import ROOT
from watched_pods import JOB

ME = pwd.getpwuid(os.geteuid()).pw_name
GRANT = "{{apiVersion: lahar.dev/v1, kind: Grant, metadata: {{name: g}}, spec: {{principals: [{}], namespaces: [research]}}}}"


def grant(lahar, who):
    lahar("apply", "-", given=GRANT.format(who))


def test_without_a_grant_everybody_may(lahar):
    lahar("apply", "-", given=JOB)
    lahar("job", "command", "research/train", "AbortJob")


def test_who_has_no_grant_is_rejected_and_refused(lahar):
    grant(lahar, ME)
    lahar("apply", "-", given=JOB)
    grant(lahar, "somebody-else")
    said = lahar("job", "command", "research/train", "AbortJob", "--by", "somebody-else", code=2, USER="somebody-else").err
    assert f"'{ME}' may not speak for namespace research: no Grant of cluster default says so" in said
    said = lahar("apply", "-", given=JOB.replace("name: train", "name: second"), code=2).err
    assert "metadata.namespace" in said
    assert f"'{ME}' may not speak" in said
    assert [line["phase"] for line in lahar("job", "list", "--json").records] == ["Pending"]


def test_a_cloudevent_does_not_say_whose_it_is(lahar):
    grant(lahar, ME)
    lahar("apply", "-", given=JOB)
    grant(lahar, "boss")
    (job,) = (line["id"] for line in lahar("job", "list", "--json").records)
    command = {
        "specversion": "1.0",
        "id": "forged",
        "source": "somewhere",
        "type": "lahar.command.issued.v2",
        "subject": job,
        "data": {"action": "AbortJob", "by": "boss", "principal": "boss"},
    }
    lahar("ingest", "-", given=json.dumps(command))
    assert lahar("job", "show", job, "--json").record["phase"] == "Pending"
    inputs = [json.loads(line) for line in lahar("export").out.splitlines()]
    assert [one["data"]["principal"] for one in inputs if one["type"] == "lahar.command.issued.v2"] == [ME]


@pytest.mark.parametrize(
    "spec", ["{principals: [a]}", "{namespaces: [a]}", "{principals: [], namespaces: [a]}", "{principals: a, tenants: [a]}"]
)
def test_a_grant_that_names_nobody_or_nothing_is_bad_input(lahar, spec):
    assert (
        "Grant"
        in lahar("apply", "-", given=f"{{apiVersion: lahar.dev/v1, kind: Grant, metadata: {{name: g}}, spec: {spec}}}", code=2).err
    )


def test_a_grant_of_something_else_is_left_alone(lahar):
    foreign = {"apiVersion": "mysql.example.org/v1", "kind": "Grant", "metadata": {"name": "g"}, "spec": {}}
    assert "1 ignored" in lahar("ingest", "-", given=json.dumps(foreign)).out


def test_the_grant_of_the_page_is_one(lahar):
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    given = page.split("## Who may speak for whom")[1].split("```yaml\n")[1].split("```")[0]
    assert lahar("apply", "-", given=given).out == "Grant research: created\n"
    assert "may not speak for namespace research" in lahar("apply", "-", given=JOB, code=2).err

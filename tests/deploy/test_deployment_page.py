"""What docs/deployment.md says of files and commands is so; test_compose.py does what it tells to do."""

from __future__ import annotations

import re
import shlex

import pytest
from compose_stack import NOT_RUN
from container_files import compose
from deployment_page import COMMANDS, PAGE

SERVICES = compose()["services"]
INLINE = re.findall(r"`(docker compose [^`]+)`", PAGE)
OPTIONS = {
    "build": set[str](),
    "down": {"--volumes"},
    "exec": set[str](),
    "logs": {"--follow"},
    "ps": set[str](),
    "run": {"--rm"},
    "up": {"--detach", "--build", "--scale"},
}
"""Of Compose's command line, as far as the page uses it."""


@pytest.mark.parametrize("command", [*COMMANDS, *INLINE])
def test_a_command_is_one_of_lahar_or_of_compose_on_a_service_of_ours(command: str) -> None:
    program, *rest = shlex.split(command)
    if program == "lahar":
        return
    verb, *rest = rest[1:]
    inside = rest.index("lahar") if "lahar" in rest else len(rest)
    for word in rest[:inside]:
        name = re.sub(r"=\d+$", "", word)
        assert name in OPTIONS[verb] or name in SERVICES, command


def test_the_table_of_services_is_that_of_the_file() -> None:
    table = re.findall(r"^\| `([a-z]\w+)` \|", PAGE, re.MULTILINE)
    assert table == list(SERVICES)
    for name, service in SERVICES.items():
        for port in service.get("ports", []):
            assert f"localhost:{port.split(':')[1]}" in next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}`"))


def test_it_says_which_services_are_not_run_by_the_tests() -> None:
    _, _, said = PAGE.partition("### What of this has been run")
    assert re.findall(r"`(\w+)` is not run at all", said.partition("\n#")[0]) == sorted(NOT_RUN)

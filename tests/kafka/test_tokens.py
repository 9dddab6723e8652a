"""A provider of tokens is found where callbacks and agents are, and what it does wrong stays with it."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.client.tokens import TokenError, TokenProvider

SECRET = "s3cr3t"  # noqa: S105  of nothing
LAHAR = [sys.executable, "-P", "-c", "from engine.cli.main import main; main()"]
"""As the installed command: the working directory is not among the places where Python looks."""
TOKENS = "def fetch() -> str:\n    return 'token'\n"
AGENTS = "from streams.agents import agent, job_events\n@agent(job_events)\nasync def see(event): ...\n"

_released = threading.Event()
_faults: list[BaseException] = []


def fetch() -> str:
    if _faults:
        raise _faults.pop()
    return "t0ken"


def hang() -> str:
    _released.wait()
    return "t0ken"


class NotNow(Exception):  # noqa: N818  as clients of other services name theirs
    """An error that nobody here knows."""


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Lets the calls return that hang; at its end all have returned."""
    _released.clear()
    yield _released
    _released.set()
    for thread in threading.enumerate():
        if thread.name == "kafka-token":
            thread.join()


@pytest.mark.parametrize(
    "fault", [NotNow(SECRET), OSError(SECRET), TimeoutError(SECRET), SystemExit(SECRET), StopIteration(SECRET)]
)
def test_it_raises_one_retriable_error_that_does_not_repeat_the_token(fault: BaseException) -> None:
    provider = TokenProvider(f"{__name__}:fetch", 5.0)
    _faults.append(fault)
    with pytest.raises(TokenError) as raised:
        asyncio.run(provider.token())
    assert str(raised.value) == f"TokenError: KAFKA_SASL_TOKEN_PROVIDER={__name__}:fetch raised {type(fault).__name__}"
    assert (raised.value.retriable, raised.value.__context__) == (True, None)
    assert provider.failure is raised.value
    assert asyncio.run(provider.token()) == "t0ken"
    assert provider.failure is None


def test_one_that_does_not_return_is_left_after_its_time(released: threading.Event) -> None:
    provider = TokenProvider(f"{__name__}:hang", 0.01)
    # Also at its end, the loop does not wait for the call.
    with pytest.raises(TokenError, match=r"has not returned within 0\.01 s$"):
        asyncio.run(provider.token())


def test_calls_that_do_not_return_do_not_use_up_all_threads(released: threading.Event) -> None:
    provider = TokenProvider(f"{__name__}:hang", 0.01)

    async def many() -> set[str]:
        asked = (provider.token() for _ in range(40))
        return {str(error) for error in await asyncio.gather(*asked, return_exceptions=True)}

    said = asyncio.run(many())
    assert any("32 calls of it wait" in text for text in said)
    assert sum(thread.name == "kafka-token" for thread in threading.enumerate()) == 32


def test_one_that_gives_no_text() -> None:
    with pytest.raises(ValueError, match="has no function SECRET"):
        TokenProvider(f"{__name__}:SECRET", 1.0)
    provider = TokenProvider("builtins:dict", 1.0)
    with pytest.raises(TokenError, match="returned no text but dict"):
        asyncio.run(provider.token())


@pytest.mark.parametrize(
    "name", ["fetch", "my_platform.tokens", "my_platform.tokens:", "./tokens.py:fetch", ".tokens:fetch", ":fetch"]
)
def test_a_name_of_another_form_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"write module:callable, as in my_platform\.tokens:fetch"):
        TokenProvider(name, 1.0)


@pytest.fixture
def nowhere() -> Iterator[str]:
    """A place where nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"kafka://127.0.0.1:{held.getsockname()[1]}"


@pytest.mark.parametrize("command", ["summary", "topics plan", "worker --stage lifecycle", "agents run my_platform.seeing"])
def test_every_command_finds_it_where_python_looks(tmp_path: Path, nowhere: str, command: str) -> None:
    (tmp_path / "my_platform").mkdir()
    (tmp_path / "my_platform" / "tokens.py").write_text(TOKENS)
    (tmp_path / "my_platform" / "seeing.py").write_text(AGENTS)
    environment = os.environ | {
        "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "KAFKA_SASL_MECHANISM": "OAUTHBEARER",
        "KAFKA_SASL_TOKEN_PROVIDER": "my_platform.tokens:fetch",
        "KAFKA_START_SECONDS": "0",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), str(tmp_path)]),
        "COLUMNS": "300",
    }
    done = subprocess.run(
        [*LAHAR, "--log", nowhere, *command.split()], cwd="/", env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "ConnectionRefusedError" in done.stderr) == (4, True), done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import no_such_client", "No module named 'no_such_client'"),
        ("def fetch(:", "invalid syntax (own_tokens.py, line 1)"),
        (f"raise RuntimeError('{SECRET}')", "importing own_tokens raises RuntimeError"),
        ("", "own_tokens has no function fetch"),
    ],
)
def test_one_that_cannot_be_imported_is_a_setting_that_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "own_tokens", raising=False)
    (tmp_path / "own_tokens.py").write_text(text)
    with pytest.raises(ValueError, match=f"^KAFKA_SASL_TOKEN_PROVIDER=own_tokens:fetch: {re.escape(said)}$"):
        TokenProvider("own_tokens:fetch", 1.0)
    sys.modules.pop("own_tokens", None)

"""Tokens for OAUTHBEARER from a function of the deployment, with its failures turned into errors of the client.

aiokafka asks for a token in its metadata task and expects only its own errors there: any other would end that task silently, and an
endless call would block it for ever.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError

from engine.effects.modules import MODULE_NAME, import_named

__all__ = ["TokenError", "TokenProvider"]

_MOST_CALLS: Final = 32
"""Most calls at a time, abandoned ones included: a call that never returns keeps its thread."""

_logger: Final = logging.getLogger(__name__)


class TokenError(KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """Raised when the provider gives no token. It is asked again for the next connection.

    Names the class of what the provider has raised, never its text: that may hold a token, a secret, or the address of one.
    """

    retriable = True


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """Asks a function for a token, in a thread: it may go over the network."""

    def __init__(self, name: str, seconds: float) -> None:
        """Import the function.

        Args:
            name: `module:callable`, as the setting has it.
            seconds: how long one call may take.

        Raises:
            ValueError: there is no such function, or its module cannot be imported.
        """
        self._setting = f"KAFKA_SASL_TOKEN_PROVIDER={name}"
        self._function = _found(name, self._setting)
        self._seconds = seconds
        self._free = threading.Semaphore(_MOST_CALLS)
        self.failure: TokenError | None = None
        """Of the last call; `None` if that gave a token."""

    async def token(self) -> str:
        """Return a token.

        Raises:
            TokenError: the function raised something, returned something else, or did not return in time.
        """
        try:
            async with asyncio.timeout(self._seconds):
                token, fault = await asyncio.wrap_future(self._asked())
        except TimeoutError:
            token, fault = "", f"has not returned within {self._seconds:g} s"
        if fault:
            failure = TokenError(f"{self._setting} {fault}")
            if self.failure is None:
                _logger.info("%s; it is asked again for the next connection", failure)
            self.failure = failure
            raise failure
        self.failure = None
        return token

    def _asked(self) -> Future[tuple[str, str]]:
        """Start a call; its result is a token or an error."""
        answer: Future[tuple[str, str]] = Future()
        answer.set_running_or_notify_cancel()
        if self._free.acquire(blocking=False):
            # Not one of a pool's threads: a process waits for those at its end, and so for a call that never returns.
            threading.Thread(target=self._call, args=(answer,), name="kafka-token", daemon=True).start()
        else:
            answer.set_result(("", f"does not return: {_MOST_CALLS} calls of it wait"))
        return answer

    def _call(self, answer: Future[tuple[str, str]]) -> None:
        try:
            token = self._function()
        except BaseException as error:  # noqa: BLE001  foreign code: even its SystemExit must not stop the engine
            answer.set_result(("", f"raised {type(error).__name__}"))
        else:
            answer.set_result((token, "") if isinstance(token, str) else ("", f"returned no text but {type(token).__name__}"))
        finally:
            self._free.release()


def _found(name: str, setting: str) -> Callable[[], object]:
    module, _, attribute = name.partition(":")
    if not MODULE_NAME.fullmatch(module) or not attribute.isidentifier():
        raise ValueError(f"{setting}: write module:callable, as in my_platform.tokens:fetch")
    try:
        found: object = getattr(import_named(module), attribute, None)
    except (ImportError, SyntaxError) as error:
        raise ValueError(f"{setting}: {error}") from None
    except Exception as error:  # noqa: BLE001  importing runs foreign code, which may raise anything, with a secret in its text
        raise ValueError(f"{setting}: importing {module} raises {type(error).__name__}") from None
    if not callable(found):
        raise ValueError(f"{setting}: {module} has no function {attribute}")  # noqa: TRY004  a setting does not fit
    return found

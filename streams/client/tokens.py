"""OAUTHBEARER tokens from a user's function; its failures become Kafka errors.

aiokafka requests tokens in its metadata task and expects only its own errors there: any other error would end that task silently,
and a call that never returns would block it forever.
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

_MOST_CALLS: Final = 32
"""Maximum number of concurrent calls, including abandoned ones: a call that never returns keeps its thread."""

_logger: Final = logging.getLogger(__name__)


class TokenError(KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """Raised when the provider returns no token. The next connection calls it again.

    The message has only the class of the provider's error, because its text may contain a token or a secret.
    """

    retriable = True


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """Calls a function for tokens in a separate thread, because it may use the network."""

    def __init__(self, name: str, seconds: float) -> None:
        """Import the function.

        Args:
            name: `module:callable` from the setting.
            seconds: time limit of one call.

        Raises:
            ValueError: the function does not exist, or its module cannot be imported.
        """
        self._setting = f"KAFKA_SASL_TOKEN_PROVIDER={name}"
        self._function = _found(name, self._setting)
        self._seconds = seconds
        self._free = threading.Semaphore(_MOST_CALLS)
        self.failure: TokenError | None = None
        """Error of the last call; `None` after a success."""

    async def token(self) -> str:
        """Return a token.

        Raises:
            TokenError: the function raised an error, returned a non-string, or did not return in time.
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
        """Start a call; its result is a token and an error text, one of them empty."""
        answer: Future[tuple[str, str]] = Future()
        answer.set_running_or_notify_cancel()
        if self._free.acquire(blocking=False):
            # Not in a thread pool: the process would wait at its exit for a call that never returns.
            threading.Thread(target=self._call, args=(answer,), name="kafka-token", daemon=True).start()
        else:
            answer.set_result(("", f"does not return: {_MOST_CALLS} calls of it wait"))
        return answer

    def _call(self, answer: Future[tuple[str, str]]) -> None:
        try:
            token = self._function()
        except BaseException as error:  # noqa: BLE001  third-party code: even its SystemExit must not stop the engine
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
        raise ValueError(f"{setting}: {module} has no function {attribute}")  # noqa: TRY004  an invalid setting
    return found

"""Errors of the Kafka log, all of them errors of the log (`engine.log.errors`); those of groups are in `membership`.

LogError
├── LogUnavailableError
│   └── TopicsMissingError   the cluster lacks topics of the log
├── LayoutError              wrong partition counts
└── TopicsDifferError        a topic differs in a way that cannot be changed in place
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    InvalidReplicationFactorError,
    InvalidTransactionTimeout,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    RequestTimedOutError,
    StaleMetadata,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)

from engine.log.errors import LogError, LogUnavailableError

# Without a handler, Python prints its warnings about unreachable brokers to stderr.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())
# At level DEBUG aiokafka logs every request, including passwords and tokens.
logging.getLogger("aiokafka.conn").addFilter(lambda record: "SaslAuthenticate" not in record.getMessage())


_Remedies = Mapping[type[BaseException], str]

_REMEDIES: Final[_Remedies] = {
    InvalidReplicationFactorError: "there are fewer brokers than copies: name fewer with --replication",
    InvalidTransactionTimeout: "set KAFKA_TRANSACTION_SECONDS within the brokers' transaction.max.timeout.ms",
    TopicAuthorizationFailedError: "let this user describe, read and write the topics",
    GroupAuthorizationFailedError: "let this user describe and read the groups that begin with the prefix and lahar-",
    TransactionalIdAuthorizationFailed: "let this user describe and write the transactional ids that begin with the prefix",
    ClusterAuthorizationFailedError: "let this user write to the topics",
}
"""Remedies for permanent rejections by brokers, which need an operator."""


REFUSALS: Final = (TopicAuthorizationFailedError, GroupAuthorizationFailedError)
"""Errors of missing permissions on a topic or a group."""

_TRANSIENT: Final = (KafkaConnectionError, KafkaTimeoutError, RequestTimedOutError, StaleMetadata, OSError)
"""Errors of unreachable brokers. Failed logins and invalid certificates (an `OSError` too) are not transient."""


class TopicsMissingError(LogUnavailableError):
    """Raised when the cluster lacks topics of the log."""

    transient = True

    def __init__(self, names: Sequence[str], where: str) -> None:
        super().__init__(f"{where} has no topic {', '.join(names)}; make them with `lahar topics apply`")


class TopicsDifferError(LogError):
    """Raised when topics differ from their declaration in a way that cannot be changed in place."""

    def __init__(self, differences: Sequence[str], remedies: Sequence[str]) -> None:
        super().__init__("; ".join([*differences, *remedies]))


def unavailable(what: str, error: BaseException, remedies: _Remedies | None = None) -> LogUnavailableError:
    """Return the log error for an error of the client or the network.

    Args:
        what: operation that failed.
        error: cause. The message names hosts and topics, never credentials.
        remedies: advice for some errors, in place of the default.
    """
    name = type(error).__name__
    # aiokafka prefixes messages with the name of the error, some also with a number.
    text = " ".join(str(error).split()).rpartition(f"{name}: ")[2].removesuffix(name)
    message = f"{what}: {name}" + (f": {text}" if text and not text.startswith("[Error ") else "")
    remedy = {**_REMEDIES, **(remedies or {})}.get(type(error))
    found = LogUnavailableError(message if remedy is None else f"{message}; {remedy}")
    found.transient = isinstance(error, _TRANSIENT) and not isinstance(error, ssl.SSLError)
    return found


@contextmanager
def unavailable_if(what: str, remedies: _Remedies | None = None) -> Iterator[None]:
    """Convert errors of the client and the network to `unavailable(…)` for the length of a `with` block."""
    try:
        yield
    except (KafkaError, OSError, TimeoutError) as error:
        raise unavailable(what, error, remedies) from error


def must_be_described(refused: Sequence[str], where: str) -> None:
    """Check that brokers let this user describe the topics.

    Raises:
        LogUnavailableError: some topics may not be described, whether or not they exist.
    """
    with unavailable_if(f"the topics of {where} cannot be read"):
        if refused:
            raise TopicAuthorizationFailedError(", ".join(refused))

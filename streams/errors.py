"""Errors of the Kafka log, all of them errors of the log (`engine.log.errors`); those of groups stand in `membership`.

LogError
├── LogUnavailableError
│   └── TopicsMissingError   the cluster has no topics of ours
├── LayoutError              counts of partitions are not what they must be
└── TopicsDifferError        topics stand in a way that cannot be changed in place
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

__all__ = ["REFUSALS", "TopicsDifferError", "TopicsMissingError", "must_be_described", "unavailable", "unavailable_if"]

# Its warnings about brokers that come and go are of no use without a handler, and Python would print them.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())
# At level DEBUG it writes down every request, and with it passwords and tokens.
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
"""Permanent refusals of brokers: waiting does not help, an operator has to act."""


REFUSALS: Final = (TopicAuthorizationFailedError, GroupAuthorizationFailedError)
"""What brokers answer to who lacks a right on a topic or a group."""

_TRANSIENT: Final = (KafkaConnectionError, KafkaTimeoutError, RequestTimedOutError, StaleMetadata, OSError)
"""Nobody answers. A failed login is something else, and so is a certificate that does not fit, though it is an `OSError`."""


class TopicsMissingError(LogUnavailableError):
    """Raised when topics are not there."""

    transient = True

    def __init__(self, names: Sequence[str], where: str) -> None:
        super().__init__(f"{where} has no topic {', '.join(names)}; make them with `lahar topics apply`")


class TopicsDifferError(LogError):
    """Raised when topics differ from their declaration in a way that cannot be changed in place."""

    def __init__(self, differences: Sequence[str], remedies: Sequence[str]) -> None:
        super().__init__("; ".join([*differences, *remedies]))


def unavailable(what: str, error: BaseException, remedies: _Remedies | None = None) -> LogUnavailableError:
    """Return the log's own error for one of the client or of the network.

    Args:
        what: the operation that failed.
        error: its cause. The text names hosts and topics, never credentials.
        remedies: advice for some errors, where it differs from the usual one.
    """
    name = type(error).__name__
    # aiokafka's errors begin with their own names, some with a number before it.
    text = " ".join(str(error).split()).rpartition(f"{name}: ")[2].removesuffix(name)
    said = f"{what}: {name}" + (f": {text}" if text and not text.startswith("[Error ") else "")
    remedy = {**_REMEDIES, **(remedies or {})}.get(type(error))
    found = LogUnavailableError(said if remedy is None else f"{said}; {remedy}")
    found.transient = isinstance(error, _TRANSIENT) and not isinstance(error, ssl.SSLError)
    return found


@contextmanager
def unavailable_if(what: str, remedies: _Remedies | None = None) -> Iterator[None]:
    """Turn errors of the client and of the network into `unavailable(…)` for the length of a `with` block."""
    try:
        yield
    except (KafkaError, OSError, TimeoutError) as error:
        raise unavailable(what, error, remedies) from error


def must_be_described(refused: Sequence[str], where: str) -> None:
    """Check that there are no topics that brokers do not let this user describe, whether they are there or not.

    Raises:
        LogUnavailableError: there are.
    """
    with unavailable_if(f"the topics of {where} cannot be read"):
        if refused:
            raise TopicAuthorizationFailedError(", ".join(refused))

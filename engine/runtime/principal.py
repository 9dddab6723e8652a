"""The command's user, as the principal of its inputs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from engine.events import EventError, Message, decode, encode
from engine.events.inputs import CommandIssued, CustomEventRaised, EffectReported, JobDeleted, JobSubmitted, JobUpdated
from engine.runtime.opening import is_shared, kafka_of

__all__ = ["principal_of", "spoken_by"]

_SPOKEN: Final = (JobSubmitted, JobUpdated, JobDeleted, CommandIssued, CustomEventRaised, EffectReported)
_TYPES: Final = frozenset(cls.TYPE for cls in _SPOKEN)


def principal_of(log: str) -> str:
    """Return the principal of this process for a log.

    On an embedded log it is the user that the operating system runs the process as, by its effective id: no variable and no option
    changes it. On Kafka it is the user of its SASL login; empty where it has none (a certificate is known to the brokers alone).

    Args:
        log: the log's URL.
    """
    if is_shared(log):
        _, settings = kafka_of(log)
        return settings.sasl_username or ""
    if os.name != "posix":
        return ""
    import pwd  # noqa: PLC0415  not on every system

    user = os.geteuid()
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:  # containers run as ids without a name
        return str(user)


def spoken_by(messages: Sequence[Message], principal: str) -> list[Message]:
    """Return inputs with the principal of who puts them in, whatever they say themselves.

    Args:
        messages: inputs; observations, and what cannot be read, stay as they are.
        principal: who.
    """
    return [_spoken_by(message, principal) if message.type in _TYPES else message for message in messages]


def _spoken_by(message: Message, principal: str) -> Message:
    try:
        event = decode(message)
    except EventError:
        return message
    if not isinstance(event.data, _SPOKEN) or event.data.principal == principal:
        return message
    event.data = replace(event.data, principal=principal)
    return encode(event, message.key)

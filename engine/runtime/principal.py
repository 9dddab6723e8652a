"""The command's user, as the principal of its inputs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from engine.events import EventError, Message, decode, encode
from engine.events.inputs import CommandIssued, CustomEventRaised, EffectReported, JobDeleted, JobSubmitted, JobUpdated
from engine.runtime.opening import is_shared, kafka_of

_SPOKEN: Final = (JobSubmitted, JobUpdated, JobDeleted, CommandIssued, CustomEventRaised, EffectReported)
_TYPES: Final = frozenset(cls.TYPE for cls in _SPOKEN)


def principal_of(log: str) -> str:
    """Return the principal of this process for a log.

    On an embedded log, the operating system's user of the process, by its effective id, which no variable or option
    changes. On Kafka, the user of its SASL login; empty without one (only the brokers know the name in a certificate).

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
    except KeyError:  # containers may run under ids without a name
        return str(user)


def spoken_by(messages: Sequence[Message], principal: str) -> list[Message]:
    """Return inputs with this principal in place of the stated one.

    Args:
        messages: inputs; observations and unreadable ones are returned unchanged.
        principal: principal of the process that appends them.
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

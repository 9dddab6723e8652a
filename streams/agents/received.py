"""Received record with its topic, partition and offset, and its event."""

from __future__ import annotations

from typing import Any

from engine.events import Data, Event, Message, UndecodableError, decode, from_cloudevent


class Received:
    """One record of a topic; its data are decoded when `event` is first read."""

    __slots__ = ("_event", "message", "offset", "partition", "topic")

    def __init__(self, message: Message, topic: str = "", partition: int = 0, offset: int = -1) -> None:
        """Wrap a message; tests may leave out topic and offset.

        Args:
            message: message from the codec. Attributes of a structured-mode record are parsed here.
            topic: name of the topic in the cluster.
            partition: number of the partition.
            offset: offset in the partition.
        """
        if not message.type and not message.source:
            try:
                message = from_cloudevent(message.data, message.recordedtime)
            except UndecodableError as error:
                message = message._replace(source=str(error))
        self.message = message
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self._event: Event[Data] | None = None

    @property
    def event(self) -> Event[Any]:
        """The event, upcast to the current version of its type.

        Raises:
            UndecodableError: the record is not an event, or its data violate the schema.
            UnknownTypeError: the type is not in the vocabulary; a newer Lahar wrote it.
        """
        if self._event is None:
            self._event = decode(self.message)
        return self._event

    @property
    def job(self) -> str:
        """Subject of the event: the job on `job-events` and `billing`, the shard on `dead-letters`."""
        return self.message.subject

    @property
    def sequence(self) -> int:
        """Sequence number among the events of its subject, gapless from 1; 0 if the record has none."""
        return self.message.sequence

    @property
    def place(self) -> str:
        """Topic, partition and offset as text, for messages."""
        return f"{self.topic}/{self.partition} offset {self.offset}"

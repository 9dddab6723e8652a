"""Inputs of one List as a consistent snapshot: the same inputs in the same order, whatever the order of its items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from engine.events import Event, Message, Topic, decode, encode
from engine.events.bounds import MOMENT_BYTES, MOMENT_INPUTS
from engine.events.inputs import JobObserved, PodObserved
from engine.kubernetes.input_events import event_of
from engine.kubernetes.owner_chains import OwnerChains

_ORDER: Final[tuple[Topic, ...]] = ("cluster", "jobs", "pods")
"""Order of topics: nodes and owners first, because pods depend on them."""

_Place = tuple[int, str, str]
_Group = tuple[str, str, str]


class ListMoments:
    """Holds the inputs of a List back until its last item, and returns them with one recorded time.

    A List with more than `MOMENT_INPUTS` or `MOMENT_BYTES` is split into several such groups.
    """

    def __init__(self, chains: OwnerChains) -> None:
        """Start empty; `chains` has the owners of the items."""
        self._chains = chains
        self._list: tuple[int, str] | None = None
        self._held: list[tuple[Topic, Message]] = []
        self._bytes = 0

    def take(self, of_list: tuple[int, str] | None, inputs: Sequence[tuple[Topic, Message]]) -> list[tuple[Topic, Message]]:
        """Add an item's inputs; return the inputs that can be appended now.

        Args:
            of_list: List of the item (`Document.of_list`); `None`: none.
            inputs: inputs of the item.
        """
        done = [] if of_list == self._list else self.end()
        self._list = of_list
        if of_list is None:
            return [*done, *inputs]
        self._held += inputs
        self._bytes += sum(len(message.data) for _, message in inputs)
        return [*done, *self.end()] if len(self._held) >= MOMENT_INPUTS or self._bytes >= MOMENT_BYTES else done

    def end(self) -> list[tuple[Topic, Message]]:
        """Return the held inputs at the end of the source."""
        held, self._held, self._list, self._bytes = self._held, [], None, 0
        return of_one_moment(self._chains.resolve(held))


def of_one_moment(inputs: Sequence[tuple[Topic, Message]]) -> list[tuple[Topic, Message]]:
    """Return the inputs of one List with the recorded time of the last one, in the order in which a stage should process them.

    Pods are in order of their creation, so that a replacement pod becomes the next attempt. Each of several pods of a job has a
    flag for whether more of them follow; pods of managed jobs do not, because the size of these jobs is known, and a pod with a
    false claim becomes a job of its own. A job that runs by its counts of pods, which have no time, has been running since the
    start of its first pod.
    """
    recorded = max((message.recordedtime for _, message in inputs), default=0)
    inputs = [(topic, message._replace(recordedtime=recorded)) for topic, message in inputs]
    places: dict[int, _Place] = {}
    groups: dict[int, _Group] = {}
    starts: dict[tuple[str, str], int] = {}
    for number, (topic, message) in enumerate(inputs):
        pod = _pod_of(message) if topic == "pods" else None
        if pod is not None:
            places[number] = (pod.created, pod.name, pod.uid)
            if not pod.managed:
                groups[number] = (message.clusterid, pod.job, pod.namespace)
                if pod.running is not None:
                    job = message.clusterid, pod.job
                    starts[job] = min(starts.get(job, pod.running), pod.running)
    order = sorted(range(len(inputs)), key=lambda number: (_ORDER.index(inputs[number][0]), places.get(number, (0, "", ""))))
    last: dict[_Group, int] = {}
    several: set[_Group] = set()
    for number in order:
        group = groups.get(number)
        if group is not None:
            several |= {group} & last.keys()
            last[group] = number
    made: list[tuple[Topic, Message]] = []
    for number in order:
        topic, message = inputs[number]
        start = starts.get((message.clusterid, message.subject)) if topic == "jobs" else None
        if start is not None:
            message = _dated(message, start)
        elif groups.get(number) in several:
            message = _marked(message, last=last[groups[number]] == number)
        made.append((topic, message))
    return made


def _pod_of(message: Message) -> PodObserved | None:
    event = event_of(message)
    return event.data if event is not None and isinstance(event.data, PodObserved) else None


def _dated(message: Message, start: int) -> Message:
    """Return a job's observation with its start time, if it has none because its controller only counts pods."""
    event = event_of(message)
    data = None if event is None else event.data
    if event is None or not isinstance(data, JobObserved):
        return message
    if data.owner_decides or data.phase != "Running" or data.since is not None:
        return message
    return encode(replace(event, data=replace(data, since=start)), message.key)


def _marked(message: Message, *, last: bool) -> Message:
    event: Event[PodObserved] = decode(message)  # type: ignore[assignment]  # checked before
    return encode(replace(event, data=replace(event.data, listed="last" if last else "more")), message.key)

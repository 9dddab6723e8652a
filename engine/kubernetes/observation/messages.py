"""Messages about a pod's state, from scheduler, kubelet and containers."""

from __future__ import annotations

from engine.events.excerpts import excerpt
from engine.events.times import format_time
from engine.kubernetes.observation.view import Container, PodView
from engine.kubernetes.reading.fields import code, mapping, text
from statemachines.vocabulary import AttemptPhase


def pod_message(pod: PodView, phase: AttemptPhase) -> str:
    """Return an excerpt of a pod's distinct messages; empty if there are none.

    Args:
        pod: the pod.
        phase: phase by the pod table.
    """
    over = phase == "Succeeded"
    parts = [text(pod.status.get("message"))]
    if pod.node is None:
        scheduled = pod.conditions.get("PodScheduled", {})
        if scheduled.get("status") == "False":
            parts.insert(0, text(scheduled.get("message")))
    if not over and "DisruptionTarget" in pod.conditions:
        parts.append(text(pod.true("DisruptionTarget").get("message")))
    several = len(pod.containers) + len(pod.inits) > 1
    # Most pods run as started and have no message.
    talking = [one for one in pod.containers if not one.running or one.status.get("lastState")]
    parts.extend(_named(one, several, _said(one, over=over)) for one in talking)
    if phase == "Bound":
        latest = max((one.started for one in (*pod.containers, *pod.inits) if one.started is not None), default=0)
        parts.extend(_initializing(one, sidecar=one.name in pod.sidecars, latest_start=latest) for one in pod.inits)
    elif not over:
        parts.extend(_named(one, several, _of_init(one)) for one in pod.inits)
    said = dict.fromkeys(part.strip() for part in parts if part)
    if phase == "Bound" and not said and (step := _next_step(pod)) is not None:
        return excerpt(step)
    return excerpt("; ".join(said)) if said else ""


def _named(one: Container, several: bool, said: str | None) -> str | None:
    return f"{one.name}: {said}" if said and several and one.name else said


def _said(one: Container, *, over: bool) -> str | None:
    """Return the messages of why a container waits or how it ended and, unless the pod is over, how its previous run ended."""
    state = mapping(one.status.get("state"))
    said = text(mapping(state.get("terminated" if one.terminated else "waiting")).get("message"))
    last = mapping(mapping(one.status.get("lastState")).get("terminated"))
    if not last or one.terminated or over:
        return said
    return "; ".join(part for part in (said, f"its last run {_end(last)}") if part)


def _of_init(one: Container) -> str | None:
    """Return how an init container failed, or why it waits; `None` if it succeeded, or runs for the first time."""
    if one.failed:
        return _end(mapping(mapping(one.status.get("state")).get("terminated")))
    return None if one.terminated else _said(one, over=False)


def _initializing(one: Container, *, sidecar: bool, latest_start: int) -> str | None:
    """Return the same for a pod that has not started, also the init container that it waits for, and since when.

    Args:
        one: the init container.
        sidecar: true if it keeps running beside the regular containers.
        latest_start: latest start of a container of the pod (microseconds).
    """
    said, name = _of_init(one), one.name
    if one.running and one.started is not None and not sidecar:
        return f"init container {name} runs since {_moment(one.started)}" + (f"; {said}" if said else "")
    if not one.failed or one.finished is None:
        return _named(one, True, said)  # noqa: FBT003 - its pod has others
    stuck = ", and no container has started since" if one.finished > latest_start else ""
    return f"init container {name} {said} at {_moment(one.finished)}{stuck}"


def _next_step(pod: PodView) -> str | None:
    """Return the step that a pod waits for between init containers, and since when; `None` if no init container shows it."""
    waiting = next((one for one in pod.inits if not one.running and not one.terminated), None)
    for one in pod.inits:
        if one is waiting:
            break
        if one.running and one.started is not None and one.status.get("started") is not True:  # a sidecar: others have messages
            return f"waits until sidecar {one.name} has started, which runs since {_moment(one.started)}"
    ended = [(one.finished, one) for one in pod.inits if one.finished is not None]
    if not ended:
        return None
    time, last = max(ended, key=lambda end: end[0])
    what = "its containers" if waiting is None else f"init container {waiting.name}"
    return f"waits for {what} since {_moment(time)}, when init container {last.name} ended"


def _moment(micros: int) -> str:
    return format_time(micros)[:19].replace("T", " ") + "Z"


def _end(terminated: dict[str, object]) -> str:
    exit_code = code(terminated.get("exitCode"))
    how = f"ended with exit {'unknown' if exit_code is None else exit_code}"
    reason, message = text(terminated.get("reason")), text(terminated.get("message"))
    return how + (f" ({reason})" if reason else "") + (f": {message.strip()}" if message else "")

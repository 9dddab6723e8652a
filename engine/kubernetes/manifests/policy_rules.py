"""Rules for lifecycle policies (Volcano: its webhook's checks of `policies` of jobs and tasks)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from engine.events.outcomes import Fault
from engine.kubernetes.errors import DurationError
from engine.kubernetes.manifests.job_shapes import LifecyclePolicy
from engine.kubernetes.reading.durations import parse_duration
from engine.kubernetes.reading.shapes import child
from statemachines.names import hint
from statemachines.vocabulary import BUS_EVENTS, POLICY_EVENTS, USER_ACTIONS

_ANY: Final = "*"


def policy_faults(policies: list[LifecyclePolicy] | None, path: str, declared: Collection[str] = ()) -> list[Fault]:
    """Validate a list of policies; like Volcano, stop at the first invalid one.

    Args:
        policies: policies of a job or a task.
        path: path of the list.
        declared: names of the job's custom events, which are valid like built-in ones.
    """
    seen_events: set[str] = set()
    seen_codes: set[int] = set()
    faults: list[Fault] = []
    for index, policy in enumerate(policies or []):
        fault = next(_faults_of(policy, child(path, index), declared, seen_events, seen_codes), None)
        if fault is not None:
            faults.append(fault)
            break
    if _ANY in seen_events and len(seen_events) > 1:
        faults.append(
            Fault(path, "if there's * here, no other policy should be here: a policy of * leaves nothing to other events")
        )
    for index, policy in enumerate(policies or []):
        faults += _timeout_faults(policy, child(path, index, "timeout"))
    return faults


def _faults_of(
    policy: LifecyclePolicy, path: str, declared: Collection[str], seen_events: set[str], seen_codes: set[int]
) -> Iterator[Fault]:
    events = policy.all_events
    if not policy.event and not policy.events:
        if policy.exit_code is None:
            yield Fault(path, "either event and exitCode should be specified")
        elif policy.exit_code == 0:
            yield Fault(child(path, "exitCode"), "0 is not a valid error code")
        elif policy.exit_code in seen_codes:
            yield Fault(child(path, "exitCode"), f"duplicate exitCode {policy.exit_code}")
        else:
            seen_codes.add(policy.exit_code)
        return
    if policy.exit_code is not None:
        yield Fault(path, "must not specify event and exitCode simultaneously")
        return
    for event in events:
        listed = policy.events or []
        where = child(path, "events", listed.index(event)) if event in listed else child(path, "event")
        if event not in POLICY_EVENTS and event not in declared:
            internal = "is internal to the engine" if event in BUS_EVENTS else "is unknown"
            near = hint(event, {*POLICY_EVENTS, *declared})
            yield Fault(where, f"invalid policy event {event}: it {internal}; write one of {_list(POLICY_EVENTS, declared)}{near}")
        elif policy.action not in USER_ACTIONS:
            given = policy.action or ""
            near = hint(given, USER_ACTIONS)
            yield Fault(child(path, "action"), f"invalid policy action {given}: write one of {_list(USER_ACTIONS)}{near}")
        elif event in seen_events:
            yield Fault(where, f"duplicate event {event} across different policy")
        else:
            seen_events.add(event)


def _timeout_faults(policy: LifecyclePolicy, path: str) -> Iterator[Fault]:
    if policy.timeout is None:
        return
    try:
        if parse_duration(policy.timeout) < 0:
            yield Fault(path, "must not be negative")
    except DurationError as error:
        yield Fault(path, str(error))


def _list(names: Collection[str], more: Collection[str] = ()) -> str:
    return ", ".join([*sorted(names), *sorted(more)])

"""Breadth-first search over the states of the small world, and what must hold in each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic

from notice_actions import ALONE, actions, first, take
from notice_world import World


@dataclass
class Found:
    """What a search has found."""

    states: int = 0
    steps: int = 0
    depth: int = 0
    """Longest of the shortest ways to a state."""
    complete: bool = True
    """Every state within the bounds was visited."""
    ends: dict[str, int] = field(default_factory=dict)
    """How the notices of the states stand → in how many states."""
    fault: str = ""
    way: list[str] = field(default_factory=list)
    """Steps that lead to the fault."""


def search(
    *,
    happen: int,
    late: int,
    privileged: Mapping[str, int] = ALONE,
    notices: int = 1,
    states: int = 10**9,
    seconds: float = float("inf"),
    clock: Callable[[], float] = monotonic,
) -> Found:
    """Visit states until something is wrong or the bounds are reached.

    Args:
        happen: things that happen outside, at most, on one way.
        late: how often time passes while messages are under way, at most, on one way.
        privileged: the privileged jobs, and how many pods each has.
        notices: where so many have come to their end, and everybody knows, a way ends.
        states: how many states at most.
        seconds: for how long at most.
        clock: tells the time in seconds.
    """
    found, begun = Found(), clock()
    start = first(privileged)
    seen, came = {hash(start.essence())}, {id(start): (None, "")}
    alive = [start]  # keeps ids of states unique
    waiting = deque([(start, 0)])
    while waiting:
        if len(seen) >= states or clock() - begun > seconds:
            found.complete = False
            break
        world, depth = waiting.popleft()
        found.depth = max(found.depth, depth)
        if world.over(notices):
            continue
        for action in actions(world, happen, late):
            after, faults = take(world, action)
            found.steps += 1
            faults += _faults(after)
            if faults:
                found.fault, found.way = faults[0], [*_way(came, world), action]
                found.states = len(seen)
                return found
            essence = hash(after.essence())
            if essence not in seen:
                seen.add(essence)
                alive.append(after)
                came[id(after)] = (world, action)
                waiting.append((after, depth + 1))
                for _, state in after.ends:
                    found.ends[state] = found.ends.get(state, 0) + 1
    found.states = len(seen)
    return found


def _way(came: dict[int, tuple[World | None, str]], world: World | None) -> list[str]:
    way: list[str] = []
    while world is not None:
        before, action = came[id(world)]
        if action:
            way.append(action)
        world = before
    return way[::-1]


def _faults(world: World) -> list[str]:
    """Return what is wrong in a state."""
    notices, due = world.scheduling.open, world.scheduling.due
    members = [job for jobs in notices.values() for job in jobs]
    found = [] if len(members) == len(set(members)) else ["a job is in two open notices"]
    found += [
        f"notice {ident} is open, and no timer ends it"
        for ident, time in world.scheduling.timers.items()
        if due is None or due > time
    ]
    if {ident for ident, state in world.ends if state == "open"} != notices.keys():
        found.append("a notice is open by its records and not by the state, or the other way round")
    return found + [f"{job} is half stopped by a notice" for job in world.lifecycle.halved]

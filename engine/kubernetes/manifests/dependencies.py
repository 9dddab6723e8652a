"""Dependencies between tasks (Volcano: the topological sort of `dependsOn`)."""

from __future__ import annotations

from engine.kubernetes.manifests.job_shapes import Task


def order_of(tasks: list[Task]) -> list[str] | None:
    """Return the tasks' names, dependencies first; `None` if there is no such order.

    There is none for cyclic dependencies, a dependency on an unknown task, or a repeated one (Volcano's count of it never reaches
    zero). Of several possible orders, the task that was released last comes first, as with Volcano's stack.
    """
    waiting: dict[str, int] = {}
    followers: dict[str, list[str]] = {}
    for task in tasks:
        name, needed = task.name or "", (task.depends_on.name if task.depends_on else None) or []
        waiting[name] = len(needed)
        for other in dict.fromkeys(needed):
            followers.setdefault(other, []).append(name)
    free = [name for name, count in reversed(waiting.items()) if count == 0]
    order: list[str] = []
    while free:
        name = free.pop()
        order.append(name)
        for follower in reversed(followers.get(name, [])):
            waiting[follower] -= 1
            if waiting[follower] == 0:
                free.append(follower)
    return order if len(order) == len(tasks) else None

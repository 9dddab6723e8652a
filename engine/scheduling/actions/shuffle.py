"""Shuffle: evict running pods that plugins name without a claimant."""

from __future__ import annotations

from engine.scheduling.cluster.entities import Task
from engine.scheduling.placement import Placement
from engine.scheduling.session import Session
from engine.scheduling.statement import Statement


def shuffle(session: Session, placement: Placement) -> None:
    """Evict the victims of the first tier that names any, except protected ones (Volcano)."""
    del placement
    session.begin("shuffle")
    statement = Statement(session)
    for victim in shuffled(session):
        statement.evict(victim)
    statement.commit()


def shuffled(session: Session) -> list[Task]:
    """Return the tasks that shuffle evicts."""
    running = [
        task
        for job in session.cluster.jobs.values()
        if not job.held
        for task in job.with_status("Running").values()
        if task.pod_class.preemptable
    ]
    for tier in session.functions("victims"):
        named = {victim.key: victim for function in tier for victim in function(running)}
        if named:
            # Jobs by name, so that a budget spares the same pods whichever job came first.
            victims = sorted(named.values(), key=lambda victim: victim.job.key)
            for protectors in session.functions("protected"):
                for protector in protectors:
                    victims = protector(victims)
            return victims
    return []

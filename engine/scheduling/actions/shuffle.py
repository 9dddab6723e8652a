"""Shuffle: evict running pods that plugins want to be elsewhere, or gone."""

from __future__ import annotations

from engine.scheduling.cluster.entities import Task
from engine.scheduling.placement import Placement
from engine.scheduling.session import Session
from engine.scheduling.statement import Statement

__all__ = ["shuffle", "shuffled"]


def shuffle(session: Session, placement: Placement) -> None:
    """Evict what the plugins of the first tier that names anything name, except what others protect (Volcano)."""
    del placement
    session.begin("shuffle")
    statement = Statement(session)
    for victim in shuffled(session):
        statement.evict(victim)
    statement.commit()


def shuffled(session: Session) -> list[Task]:
    """Return whom shuffle evicts."""
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
            # Jobs by name, so that those whom a budget spares do not depend on which job came first.
            victims = sorted(named.values(), key=lambda victim: victim.job.key)
            for protectors in session.functions("protected"):
                for protector in protectors:
                    victims = protector(victims)
            return victims
    return []

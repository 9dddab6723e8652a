"""Work that jobs save when they are given notice."""

from __future__ import annotations

from simulated import BEGIN, machine, row

from engine.events import Data, Event, decode
from engine.events.actions import EffectRequested
from engine.events.inputs import PodObserved
from engine.events.jobs import JobPhaseChanged
from engine.events.times import SECOND
from engine.simulation.cluster import Conduct, SimulatedCluster
from engine.simulation.event_queue import EventQueue
from engine.simulation.workload import plan


def test_work_that_is_saved_twice_counts_once():
    """A pod of 1,000 s saves at 100 s and at 200 s; it is then stopped, and has 800 s left."""
    (job,) = plan([row(1, 0, 1000)], "philly", "c").jobs
    event_queue = EventQueue()
    cluster = SimulatedCluster("c", event_queue, Conduct(start=0, stop=0, checkpoint=0))
    event_queue.now = BEGIN
    cluster.add_node(machine())
    cluster.submit(job)

    def event(data: Data) -> Event:
        return Event(f"e{event_queue.now}", "t", data.TYPE, job.id, event_queue.now, event_queue.now, 1, job.id, "", "c", data)

    def pods() -> list[PodObserved]:
        return [decode(message).data for topic, messages in cluster.inputs() if topic == "pods" for message in messages]

    def start(attempt: int) -> str:
        cluster.act(event(EffectRequested("create_pod", task="main", index=0, attempt=attempt, pod="p")))
        (made,) = pods()
        cluster.act(event(EffectRequested("bind_pod", task="main", index=0, attempt=attempt, uid=made.uid, node="n1")))
        event_queue.advance(event_queue.now)
        return made.uid

    uid = start(1)
    for second in (100, 200):
        event_queue.advance(BEGIN + second * SECOND)
        cluster.phase_changed(event(JobPhaseChanged("WillEvicted", "Running", notice=f"c/{second}")))
        event_queue.advance(event_queue.now)
        cluster.phase_changed(event(JobPhaseChanged("Running", "WillEvicted")))
    event_queue.advance(BEGIN + 300 * SECOND)
    cluster.act(event(EffectRequested("delete_pod", task="main", index=0, attempt=1, uid=uid)))
    event_queue.advance(event_queue.now)
    pods()
    start(2)
    assert event_queue.due == BEGIN + (300 + 800) * SECOND

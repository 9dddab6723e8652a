"""Verify: comparison of the state that shards recover with the fold of their history.

The shard's state is folded twice, from the oldest event and from the snapshot with its tail. Both must agree in every subject and
in the outcomes of inputs. Each input that the shard has processed must be decodable and have one outcome.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.formatting import plural
from engine.history.input_check import InputCheck
from engine.history.transfer import is_partly_restored
from engine.log.port import ShardId, ShardView
from engine.log.shard_inputs import extended
from engine.processor.partitions import input_partitions
from engine.processor.recovery import recover
from engine.processor.snapshots import ACCOUNTS, rehashed, state_hash
from engine.processor.stage import Stage


@dataclass(frozen=True, slots=True)
class Part:
    """A subject in which snapshot and history differ."""

    subject: str
    event: str | None
    """Id of the last event of the subject in the log, at or before which they differ; `None`: the log has none."""


@dataclass(slots=True)
class Verdict:
    """Result of one shard's verification."""

    shard: str
    outputs: int
    """Number of events folded, dead letters included."""
    subjects: int
    from_history: str
    """State hash by the fold from the beginning."""
    from_snapshot: str
    """State hash by snapshot and tail."""
    parts: list[Part] = field(default_factory=list)
    intact: bool = True
    """True if the snapshot's records match its own hash. Recovery ignores a snapshot that does not match."""
    fault: str = ""
    """Reason why this release cannot read the snapshot, so that nothing was compared; empty if it can."""
    inputs: int | None = None
    """Number of records processed; `None`: not counted, or some were deleted or are damaged."""
    input_faults: list[str] = field(default_factory=list)
    """Faults of the inputs."""

    @property
    def ok(self) -> bool:
        """True if history and snapshot agree, and the inputs have no fault."""
        return not self.input_faults and self._agree

    @property
    def _agree(self) -> bool:
        return self.intact and not self.parts and self.from_history == self.from_snapshot

    def document(self) -> dict[str, Any]:
        """Return the verdict as JSON."""
        return {
            "shard": self.shard,
            "ok": self.ok,
            "outputs": self.outputs,
            "subjects": self.subjects,
            "from_history": self.from_history,
            "from_snapshot": self.from_snapshot,
            "intact": self.intact,
            "fault": self.fault or None,
            "inputs": self.inputs,
            "input_faults": self.input_faults,
            "parts": [{"subject": part.subject, "event": part.event} for part in self.parts],
        }

    def sentence(self) -> str:
        """Return the verdict as a sentence."""
        if self.input_faults:
            count = plural(len(self.input_faults), "fault")
            return f"{self.shard}: {count} in the inputs; {'; '.join(self.input_faults)}"
        folded = f"{self.outputs:,} outputs folded into {plural(self.subjects, 'subject')}"
        if self.fault:
            no_snapshot = f"no snapshot to compare: {self.fault}, so the next run rebuilds it"
            return f"{self.shard}: ok, {folded} ({self.from_history}); {no_snapshot}"
        if self.ok:
            return f"{self.shard}: ok, {folded}; history and snapshot agree ({self.from_history})"
        if not self.parts:
            return f"{self.shard}: DIFFERS, {folded}; a record of the snapshot was changed, so the next run ignores the snapshot"
        first = self.parts[0]
        at = f"at event {first.event} or before it" if first.event else "which has no event in the history"
        return f"{self.shard}: DIFFERS, {folded}; {plural(len(self.parts), 'subject')} differ, the first is {first.subject}, {at}"


def verify_shard(log: Any, stage: Stage[Any], number: int, input_check: InputCheck | None = None) -> Verdict:  # noqa: ANN401
    """Compare a shard's history with its snapshot.

    Args:
        log: embedded log to read.
        stage: stage of this release.
        number: number of the shard.
        input_check: check of the stage's inputs; `None`: inputs are not checked.

    Raises:
        LogDamagedError: the history has a gap, or bytes do not match their checksum.
    """
    shard = ShardId(stage.name, number)
    view = log.look(shard)
    faults = ["the import of this log was cut off: import again, into a new log"] if is_partly_restored(log) else []
    if view is None:
        return Verdict(str(shard), 0, 0, "0" * 32, "0" * 32, input_faults=faults)
    history = recover(log, stage, shard, ShardView(view.position, []), 1)
    # Recovery ignores a snapshot whose hash does not match; it is compared all the same, to name the difference.
    records, intact = rehashed(view.records)
    snapshot = recover(log, stage, shard, ShardView(view.position, records), 1)
    verdict = Verdict(
        str(shard),
        view.position.shardsequence,
        sum(1 for _ in stage.records(history.state)),
        state_hash(stage, history.state),
        state_hash(stage, snapshot.state),
        intact=intact,
        fault=snapshot.fault,
        input_faults=faults,
    )
    if verdict.from_history != verdict.from_snapshot:
        verdict.parts = _parts(log, stage, number, history.state, snapshot.state)
    if history.accounts.outcomes != snapshot.accounts.outcomes:
        verdict.parts.append(Part(ACCOUNTS, None))
    if input_check is not None:
        inputs = input_partitions(log, stage, number)
        vector = extended(view.position.vector, len(inputs))
        outcomes = sum(history.accounts.outcomes.values())
        verdict.inputs = input_check.taken(inputs, vector)
        verdict.input_faults += input_check.faults(inputs, vector)
        # Fewer inputs than outcomes are valid: retention deleted some, here or in the log from which this one was restored.
        if verdict.inputs is not None and verdict.inputs > outcomes:
            verdict.input_faults.append(f"{verdict.inputs:,} inputs were taken and {outcomes:,} have an outcome")
    return verdict


def _parts(log: Any, stage: Stage[Any], number: int, history: Any, snapshot: Any) -> list[Part]:  # noqa: ANN401 - a stage's state
    records = sorted({*stage.records(history), *stage.records(snapshot)})
    differing = dict.fromkeys(stage.subject(name) for name in records if stage.dump(history, name) != stage.dump(snapshot, name))
    last: dict[str, tuple[int, str]] = {}
    shard = ShardId(stage.name, number)
    for record in log.scan(stage.outputs):
        if record.shard == str(shard):
            last[record.message.subject] = (record.shardsequence, record.message.id)

    def latest(subject: str) -> tuple[int, str]:
        return last.get(subject) or last.get(subject.partition("/")[2]) or (0, "")

    return [Part(subject, latest(subject)[1] or None) for subject in sorted(differing, key=lambda subject: latest(subject)[0])]

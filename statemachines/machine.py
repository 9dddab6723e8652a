"""Transition tables: declared in the format of `transitions`, compiled to a dict for running, drawn as Mermaid.

A machine is a list of `{trigger, source, dest, conditions, before, after}`. Of the rows of one source and trigger the first whose
conditions all hold is taken; a `dest` of `None` keeps the phase. `transitions` runs such a table fifty times slower than the
compiled dict, so it only draws the diagrams, and a test shows that both agree everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, NotRequired, TypedDict, TypeVar

from statemachines.errors import TableError

if TYPE_CHECKING:
    from transitions import Machine

F = TypeVar("F")


class TransitionRow(TypedDict):
    """One row of a table, in the format of `transitions`."""

    trigger: str
    source: str
    dest: str | None
    """Phase entered; `None`: unchanged (an internal transition)."""
    conditions: NotRequired[list[str]]
    """Names of guards that must all hold."""
    before: NotRequired[str]
    """Effect before the conditions are tested; the same in all rows of a source and trigger."""
    after: NotRequired[str]
    """Counts of the job that taking this row increments."""


class Row(NamedTuple, Generic[F]):
    """One compiled row."""

    guards: tuple[Callable[[F], bool], ...]
    dest: str
    effect: str | None
    after: str | None


Compiled = Mapping[tuple[str, str], tuple[Row[F], ...]]
"""(state, trigger) → rows in order. A missing pair is a trigger that the table does not list for the state."""


@dataclass(frozen=True)
class MachineTable(Generic[F]):
    """One machine: rows, states, triggers, guards.

    Raises:
        TableError: a row names an unknown state, trigger or condition, or the rows of one state and trigger differ in their effect.
    """

    name: str
    states: Mapping[str, str]
    """State → its meaning and the states that may follow."""
    initial: str
    triggers: Mapping[str, str]
    """Trigger → its meaning."""
    rows: Sequence[TransitionRow]
    guards: Mapping[str, Callable[[F], bool]]
    """Condition → its function of the facts."""
    compiled: Compiled[F] = field(init=False)

    def __post_init__(self) -> None:
        for row in self.rows:
            for state in (row["source"], row["dest"]):
                if state is not None and state not in self.states:
                    raise TableError(f"{self.name}: {state} is no state")
            if row["trigger"] not in self.triggers:
                raise TableError(f"{self.name}: {row['trigger']} is no trigger")
        object.__setattr__(self, "compiled", compile_table(self.rows, self.guards))


def compile_table(
    rows: Sequence[TransitionRow], guards: Mapping[str, Callable[[F], bool]]
) -> dict[tuple[str, str], tuple[Row[F], ...]]:
    """Compile a table for running.

    Args:
        rows: the table.
        guards: condition name → function of the facts.

    Raises:
        TableError: a row names a condition that `guards` lacks, or the rows of one state and trigger differ in their effect.
    """
    compiled: dict[tuple[str, str], list[Row[F]]] = {}
    for row in rows:
        where = f"{row['source']} --{row['trigger']}-->"
        try:
            functions = tuple(guards[name] for name in row.get("conditions", ()))
        except KeyError as missing:
            raise TableError(f"{where} {row['dest']}: no guard is called {missing}") from None
        dest = row["source"] if row["dest"] is None else row["dest"]
        entries = compiled.setdefault((row["source"], row["trigger"]), [])
        if entries and entries[0].effect != row.get("before"):
            raise TableError(f"{where}: its rows have different effects, {entries[0].effect} and {row.get('before')}")
        entries.append(Row(functions, dest, row.get("before"), row.get("after")))
    return {key: tuple(entries) for key, entries in compiled.items()}


def step(compiled: Compiled[F], state: str, trigger: str, facts: F) -> Row[F] | None:
    """Return the row taken; `None` if the table lists the trigger for the state but no row's conditions hold.

    Raises:
        KeyError: the table does not list the trigger for the state.
    """
    for row in compiled[state, trigger]:
        for guard in row.guards:
            if not guard(facts):
                break
        else:
            return row
    return None


def machine_of(table: MachineTable[Any], model: object, *, state: str | None = None, free: bool = False) -> Machine:
    """Return the machine of a table as a `transitions` machine, for subscribers that follow events.

    Its triggers are `enter_PHASE`, because the writer of the event has already chosen the row. The model gets `state` and
    `trigger`, and its `on_enter_PHASE(event)`, `on_exit_PHASE(event)` are called.

    Args:
        table: the machine.
        model: object that gets the phase.
        state: its present phase; the table's first one unless given.
        free: allow changes that the table does not list; otherwise `transitions` raises `MachineError`.
    """
    from transitions import Machine  # noqa: PLC0415 - only subscribers need it

    changes = {(row["source"], row["dest"]) for row in table.rows if row["dest"] not in (None, row["source"])}
    if free:
        changes |= {(source, dest) for source in table.states for dest in table.states}
    return Machine(
        model=model,
        states=list(table.states),
        transitions=[{"trigger": f"enter_{dest}", "source": source, "dest": dest} for source, dest in sorted(changes)],
        initial=state or table.initial,
        auto_transitions=False,
        send_event=True,
    )


class _Drawing:
    """Model of a diagram for `transitions`."""


_MANY: Final = 6
"""With more triggers than this between two phases, a diagram has `any other` (or `any`)."""


def diagram(table: MachineTable[Any]) -> str:
    """Draw a machine as a Mermaid state diagram, by `transitions`. Rows that change no phase are left out.

    Returns:
        Mermaid source, ending in a newline.
    """
    from transitions.extensions import GraphMachine  # noqa: PLC0415 - only diagrams need it

    edges: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for row in table.rows:
        if row["dest"] is not None and row["dest"] != row["source"]:
            edges.setdefault((row["source"], row["dest"], tuple(row.get("conditions", ()))), []).append(row["trigger"])
    drawn = GraphMachine(
        model=_Drawing(),
        states=list(table.states),
        transitions=[
            {"trigger": _label(source, names, edges), "source": source, "dest": dest, "conditions": list(conditions)}
            for (source, dest, conditions), names in edges.items()
        ],
        initial=table.initial,
        title=f"title: {table.name}",
        graph_engine="mermaid",
        auto_transitions=False,
        show_conditions=True,
    )
    lines = str(drawn.get_combined_graph().draw(None)).splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _label(source: str, names: list[str], edges: Mapping[tuple[str, str, tuple[str, ...]], list[str]]) -> str:
    if len(names) <= _MANY:
        return ", ".join(names)
    others = any(set(triggers) - set(names) for (start, _, _), triggers in edges.items() if start == source)
    return "any other" if others else "any"

"""What one input may cost at most. Beyond a bound it is refused with the bound's name, at the edge and again where it is decided.

Sizes are far above what people and clusters write, and small enough that the dearest input within all of them holds up nobody
else: docs/reliability.md lists each with what happens beyond it.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "CHECK_NESTING",
    "CHECK_STEPS",
    "EVENT_DATA_BYTES",
    "EVENT_DATA_NESTING",
    "NESTING",
    "NUMBER_CHARACTERS",
    "SCHEMA_NESTING",
    "SCHEMA_VALUES",
    "YAML_TAG_DIRECTIVES",
    "YAML_VALUES",
]

NESTING: Final = 100
"""Levels of lists and mappings within each other, in every text that is parsed, bracketed or indented."""

NUMBER_CHARACTERS: Final = 100
"""Characters of one number in a text; arithmetic on longer ones has its price."""

YAML_VALUES: Final = 2_000_000
"""Values of a file in YAML, what aliases repeat counted each time: some 40 MB of ordinary YAML."""

YAML_TAG_DIRECTIVES: Final = 100
"""`%TAG` lines of a file in YAML."""

# --- JSON Schemas of custom events, and their data --------------------------------------------------------------------------

SCHEMA_NESTING: Final = 32
"""Levels of a schema. Its validator recurses several times a level; the answer must not depend on how much stack is in use."""

SCHEMA_VALUES: Final = 500
"""Values of all the schemas of a job together. Each takes up to 0.6 ms to be judged."""

EVENT_DATA_BYTES: Final = 64 << 10
"""The data of a custom event, as JSON."""

EVENT_DATA_NESTING: Final = 32
"""Levels of data that are judged by a schema."""

CHECK_STEPS: Final = 50_000
"""Steps of judging the data of one event by its schema; a step takes some 10 µs."""

CHECK_NESTING: Final = 100
"""Keywords of a schema that are applied within each other; each is four calls deep."""

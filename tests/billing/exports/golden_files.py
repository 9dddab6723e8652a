"""The exports of the sample, as they are committed.

python tests/billing/exports/golden_files.py      # writes them anew
"""

from __future__ import annotations

from pathlib import Path

from usage_records import SELLER, sample

from engine.billing.exports.formats import FORMATS, export

GOLDEN = Path(__file__).parent / "golden"
FILES = {name: GOLDEN / (f"{name}.csv" if name.startswith("focus") else f"records.{name}") for name in FORMATS}


if __name__ == "__main__":
    for name, path in FILES.items():
        with path.open("wb") as stream:
            export(name, sample(), SELLER, stream)

"""Reads docs/deployment.md."""

from __future__ import annotations

import re

from container_files import ROOT

PAGE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Return the blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


COMMANDS = [line for block in blocks("shell") for line in block.splitlines()]
"""Not in `sh` or `console` blocks: those of all pages are played as they stand, and no Docker is needed for the tests."""

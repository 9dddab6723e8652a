"""A reader finds a plugin by its name in Volcano, and what it decides in the first lines of its file."""

from __future__ import annotations

import inspect
import re
import sys

import pytest

from engine.scheduling.extension_points import POINTS
from engine.scheduling.plugins import PLUGINS
from engine.scheduling.session import Plugin


@pytest.mark.parametrize("plugin", PLUGINS.values(), ids=list(PLUGINS))
def test_a_plugins_file_has_its_name(plugin: type[Plugin]) -> None:
    assert plugin.__module__.rpartition(".")[2] == plugin.NAME.replace("-", "_")


@pytest.mark.parametrize("plugin", PLUGINS.values(), ids=list(PLUGINS))
def test_a_plugins_file_begins_with_its_extension_points(plugin: type[Plugin]) -> None:
    stated = (inspect.getdoc(sys.modules[plugin.__module__]) or "").partition("Extension points: ")[2]
    assert re.findall(r"`(\w+)`", stated) == [point for point in POINTS if hasattr(plugin, point)]

"""What the Dockerfile makes, made here: an environment with the wheel and the locked versions of what it needs."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest
from built_image import Image, build

# The broker's jars and what waits for a broker.
sys.path.append(str(Path(__file__).parents[1] / "kafka"))


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image, as far as it can be made without a network and without Docker."""
    return build(tmp_path_factory.mktemp("image"), Path(sysconfig.get_path("purelib")))

"""The pytest plugin of Navarch: the fixture `scenario`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from navarch.testing.scenarios import ScenarioRun


@pytest.fixture
def scenario() -> "Callable[[str | Path | Mapping[str, object]], ScenarioRun]":
    """Run scenarios against the real control plane, with your own extensions.

    See `navarch.testing.scenarios`. The simulator is imported on first use, so test runs without
    scenarios do not pay for it.
    """
    from navarch.testing.scenarios import scenario as build

    return build

"""What pytest learns from an installed Navarch: the fixture `scenario`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from navarch.testing.scenarios import Rehearsal


@pytest.fixture
def scenario() -> "Callable[[str | Path | Mapping[str, object]], Rehearsal]":
    """Play scenarios around the real control plane, with extensions of your own.

    See `navarch.testing.scenarios`. It is loaded when it is used: a test run that has no
    scenarios pays nothing for it.
    """
    from navarch.testing.scenarios import scenario as build

    return build

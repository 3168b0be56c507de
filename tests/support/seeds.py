"""Seeds of random stories: a few in the gate, all of them in `make test-all`."""

import pytest


def seeds(count: int, *, gate: int) -> list[object]:
    """Return the parameters 0 to `count`; those from `gate` on are too long for `make test`."""
    later = [pytest.param(seed, marks=pytest.mark.long) for seed in range(gate, count)]
    return [*range(gate), *later]

"""Memory of finished runs."""

import gc

import pytest
from bases import FLEET, POOL, Plain, played

from navarch.core.event import Recorded


@pytest.mark.parametrize("scenario", [FLEET, POOL], ids=["fleet", "pool"])
def test_the_journal_of_a_run_is_freed_without_the_garbage_collector(scenario: Plain) -> None:
    gc.collect()
    gc.disable()
    try:
        before = _entries()
        outcome = played(scenario)
        assert outcome.nodes, "nothing happened"
        assert _entries() == before
    finally:
        gc.enable()


def _entries() -> int:
    return sum(type(each) is Recorded for each in gc.get_objects())

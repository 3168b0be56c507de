"""A session that nobody asks for reasons is gone when it has decided."""

import gc
from collections.abc import Iterator

import pytest

from navarch.scheduler import SchedulerConfig, decide, run_cycle
from navarch.scheduler.model.node import Node
from navarch.testing.scheduler_workloads import random_cluster, whole_nodes


@pytest.fixture
def nothing_is_collected() -> Iterator[None]:
    """Leave what hangs together in circles where it lies."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def nodes_alive() -> int:
    """Return how many nodes of sessions there are."""
    return sum(isinstance(thing, Node) for thing in gc.get_objects())


@pytest.mark.parametrize("seed", range(5))
def test_deciding_alone_decides_what_a_cycle_does(seed: int) -> None:
    """Nothing that is let go of is still needed for a decision."""
    cluster = random_cluster(seed)

    assert decide(cluster) == run_cycle(cluster, SchedulerConfig()).decisions


@pytest.mark.usefixtures("nothing_is_collected")
def test_a_session_that_decided_leaves_nothing_to_the_garbage_collector() -> None:
    """Thousands of nodes, several times an hour, would otherwise lie about until it comes."""
    before = nodes_alive()

    assert decide(whole_nodes(20, 3, single=False))

    assert nodes_alive() == before

"""A session is freed as soon as it has decided."""

import gc
from collections.abc import Iterator

import pytest
from bench.scheduler_workloads import random_cluster, whole_nodes

from navarch.scheduler import SchedulerConfig, decide, run_cycle
from navarch.scheduler.model.node import Node


@pytest.fixture
def nothing_is_collected() -> Iterator[None]:
    """Turn the garbage collector off."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def nodes_alive() -> int:
    """Return the number of session nodes in memory."""
    return sum(isinstance(thing, Node) for thing in gc.get_objects())


@pytest.mark.parametrize("seed", range(5))
def test_decide_returns_the_decisions_of_a_cycle(seed: int) -> None:
    """Decisions do not depend on objects that are freed."""
    cluster = random_cluster(seed)

    assert decide(cluster) == run_cycle(cluster, SchedulerConfig()).decisions


@pytest.mark.usefixtures("nothing_is_collected")
def test_a_session_leaves_no_reference_cycles() -> None:
    """Otherwise thousands of nodes would stay in memory until the collector runs."""
    before = nodes_alive()

    assert decide(whole_nodes(20, 3, single=False))

    assert nodes_alive() == before

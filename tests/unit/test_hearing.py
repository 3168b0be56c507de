"""Computed heartbeats: who is told of when somebody may fall silent."""

import asyncio
from datetime import datetime, timedelta

from navarch.core.ids import NodeId
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.running import run_simulated
from navarch.sim.world.heartbeats import HeartbeatSchedule
from navarch.sim.world.liveness import ComputedLiveness

TIMEOUT = timedelta(seconds=30)
A, B = NodeId("a"), NodeId("b")


def told(*, speak: list[NodeId], rest: list[NodeId]) -> list[timedelta]:
    """Return how long after they came it is told that any of the newcomers may be overdue."""
    moments: list[datetime] = []

    async def story() -> datetime:
        clock = SimClock()
        hearing = ComputedLiveness(clock, timeout=TIMEOUT, nodes=(), suspended={})
        hearing.subscribe(moments.append)
        began = clock.now()
        for node in speak:
            hearing.heard(node)
        for node in rest:
            schedule = HeartbeatSchedule.of(node, started_s=clock.monotonic(), interval_s=10.0)
            hearing.suspend(node, schedule)
        await asyncio.sleep(0)
        assert clock.now() == began, "it is told within the moment"
        return began

    began = run_simulated(story())
    return [moment - began for moment in moments]


def test_a_newcomer_that_goes_to_rest_at_once_is_not_told_of() -> None:
    assert told(speak=[A, B], rest=[A, B]) == []


def test_a_newcomer_that_does_not_is_told_of_within_the_moment() -> None:
    for rest in ([], [A], [B]):
        (late,) = told(speak=[A, B], rest=rest)
        assert TIMEOUT <= late <= TIMEOUT + timedelta(microseconds=2)

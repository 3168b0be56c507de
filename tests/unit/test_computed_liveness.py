"""Computed liveness: notifications of possible silence."""

import asyncio
from datetime import datetime, timedelta

from navarch.core.ids import NodeId
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import run_simulated
from navarch.sim.world.liveness import ComputedLiveness, HeartbeatSchedule

TIMEOUT = timedelta(seconds=30)
A, B = NodeId("a"), NodeId("b")


def notified(*, heartbeats: list[NodeId], suspended: list[NodeId]) -> list[timedelta]:
    """Return the times, counted from the first heartbeats, at which a new node may be overdue."""
    moments: list[datetime] = []

    async def story() -> datetime:
        clock = SimClock()
        liveness = ComputedLiveness(clock, timeout=TIMEOUT, nodes=(), suspended={})
        liveness.subscribe(moments.append)
        began = clock.now()
        for node in heartbeats:
            liveness.record_heartbeat(node)
        for node in suspended:
            schedule = HeartbeatSchedule.of(node, started_s=clock.monotonic(), interval_s=10.0)
            liveness.suspend(node, schedule)
        await asyncio.sleep(0)
        assert clock.now() == began, "notifications arrive at the same moment"
        return began

    began = run_simulated(story())
    return [moment - began for moment in moments]


def test_a_new_node_that_is_suspended_at_once_causes_no_notification() -> None:
    assert notified(heartbeats=[A, B], suspended=[A, B]) == []


def test_a_new_node_that_stays_awake_causes_a_notification_at_once() -> None:
    for suspended in ([], [A], [B]):
        (late,) = notified(heartbeats=[A, B], suspended=suspended)
        assert TIMEOUT <= late <= TIMEOUT + timedelta(microseconds=2)

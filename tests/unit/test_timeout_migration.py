"""A shorter heartbeat interval must not make sound nodes look silent."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from navarch.app.telemetry import TimeoutMigration
from navarch.core.errors import NotFoundError
from navarch.core.fleet import Change
from navarch.core.ids import NodeId
from navarch.core.ownership import Cluster
from navarch.ports.agents import Registration
from navarch.service.agents import AgentService, Timing
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import a_node, indexed

SLOW = Timing(heartbeat_interval=timedelta(seconds=30))
QUICK = Timing(heartbeat_interval=timedelta(seconds=5))
NODE = NodeId("training-0")


def test_a_shorter_timeout_holds_once_every_agent_can_have_registered() -> None:
    async def story() -> None:
        clock = SimClock()
        store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        await store.commit(Change(nodes=[a_node(NODE)]), based_on=0)
        timing = SLOW
        table = TelemetryTable(clock, timeout=SLOW.silence, nodes=[NODE])
        agents = AgentService(clock, store, indexed(store), table, timing=lambda: timing)
        migration = TimeoutMigration(
            clock,
            store,
            table,
            timing=lambda: timing,
            request_registrations=agents.request_registrations,
        )
        await migration.adopt()
        assert list(agents.heartbeat(NODE)) == []

        timing = QUICK
        await migration.adopt()
        assert table.timeout == SLOW.silence, "no agent has received the new interval yet"
        await clock.sleep(60)
        with pytest.raises(NotFoundError, match="must register again"):
            agents.heartbeat(NODE)
        assert table.last_heartbeat(NODE) == clock.now(), "the heartbeat was recorded nevertheless"
        welcome = await agents.register(Registration(node=NODE))
        assert welcome.heartbeat_interval == QUICK.heartbeat_interval
        assert list(agents.heartbeat(NODE)) == []

        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(migration.run())
            await clock.sleep(3 * SLOW.silence.total_seconds() + 1)
            running.cancel()
        assert table.timeout == QUICK.silence

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(story())


def test_a_longer_timeout_holds_at_once_without_new_registrations() -> None:
    async def story() -> None:
        clock = SimClock()
        store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        await store.commit(Change(nodes=[a_node(NODE)]), based_on=0)
        timing = QUICK
        table = TelemetryTable(clock, timeout=QUICK.silence, nodes=[NODE])
        requests: list[bool] = []
        migration = TimeoutMigration(
            clock,
            store,
            table,
            timing=lambda: timing,
            request_registrations=lambda: requests.append(True),
        )
        await migration.adopt()
        timing = replace(SLOW)
        await migration.adopt()
        assert table.timeout == SLOW.silence
        assert requests == []

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(story())

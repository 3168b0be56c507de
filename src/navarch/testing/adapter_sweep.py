"""Crash sweeps: the real control plane over a real adapter, killed at each external call.

Time is virtual, and the adapter's blocking calls run inline against its server. An hour of a fleet
takes seconds, and a crash can be placed before or after each call.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from navarch.app.control_plane import Plane
from navarch.clock import SystemClock
from navarch.core.fleet import Fleet
from navarch.core.ids import PoolName
from navarch.core.launch import Offering
from navarch.core.ownership import Cluster
from navarch.core.pool import Pool
from navarch.notifiers.log import LogWorkloads
from navarch.ports.clock import Clock, Offload
from navarch.ports.provider import Provider
from navarch.service.views import pool_spec
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import EPOCH, SimLoop
from navarch.sim.world.leader import Crash, CrashPoint, LeaderStore
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable

T = TypeVar("T")

POOL = PoolName("training")
CLUSTER = Cluster(id="sweep", secret=b"the sweep's secret")
RESTART_S = 5.0
HOUR_S = 3600.0

Build = Callable[[Clock, Offload], Provider]
"""Builds the adapter, as a new process would: without any state."""


@dataclass(slots=True)
class TrippedOffload:
    """Runs blocking calls inline, and crashes at the call that the crash_point selects."""

    wire: CrashPoint

    async def run(self, call: Callable[[], T]) -> T:
        async def effect() -> T:
            return call()

        return await self.wire.call("call", effect)


@dataclass(slots=True)
class SweptFleet:
    """One pool on one adapter; its control plane restarts after each crash."""

    clock: SimClock
    store: MemoryStore
    build: Build
    alive: Callable[[], set[str]]
    wire: CrashPoint
    crashes: int = 0
    control: Plane | None = None

    def fleet(self) -> Fleet:
        return self.store.fleet()

    def rows(self) -> set[str]:
        """The machines that belong to a node."""
        nodes = self.fleet().nodes.values()
        return {node.instance for node in nodes if node.instance and not node.gone}

    def at_rest(self, nodes: int) -> bool:
        present = [node for node in self.fleet().nodes.values() if not node.gone]
        return len(present) == nodes == len(self.rows()) and self.rows() == self.alive()

    async def until(self, nodes: int) -> None:
        """Wait until there are `nodes` nodes, each with its machine, and no other machines."""
        deadline = self.clock.monotonic() + HOUR_S
        while not self.at_rest(nodes):
            assert self.clock.monotonic() < deadline, (
                f"not at rest with {nodes}: rows {self.rows()}, alive {self.alive()}"
            )
            await self.clock.sleep(10.0)

    async def submit(self, request: Callable[[Plane], Awaitable[object]]) -> None:
        """Repeat an operator's request until the control plane accepts it."""
        while True:
            if self.control is not None and not self.wire.dead:
                try:
                    await request(self.control)
                except Crash:
                    pass
                else:
                    return
            await self.clock.sleep(0.5)

    async def live(self) -> None:
        while True:
            try:
                await self._incarnate(self.wire)
            except BaseExceptionGroup as group:
                _, rest = group.split(Crash)
                if rest is not None:
                    raise rest from None
            self.control = None
            self.crashes += 1
            self.wire = self.wire.next_process()
            await self.clock.sleep(RESTART_S)

    async def _incarnate(self, wire: CrashPoint) -> None:
        chance = SeededEntropy(f"sweep/{self.crashes}")
        control = Plane(
            self.clock,
            chance,
            LeaderStore(self.store, wire, chance),
            providers=[self.build(self.clock, TrippedOffload(wire))],
            notifier=LogWorkloads(),
            liveness=TelemetryTable(self.clock, timeout=timedelta(minutes=5)),
            strict=True,
        )
        self.control = control
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(control.run())
            wire.on_crash = life.cancel


async def a_short_life(swept: SweptFleet, *offerings: Offering) -> None:
    """Fill a pool, grow it, shrink it and empty it; no machine may remain."""
    pool = Pool(
        name=POOL,
        offerings=offerings,
        nodes_min=0,
        nodes_max=4,
        # No agents run here; no node may fail for not reporting.
        boot_deadline=timedelta(days=30),
    )
    await swept.submit(lambda plane: plane.fleet.put_pool(pool_spec(pool), reason="begin"))
    await swept.submit(lambda plane: plane.fleet.scale(POOL, 2, reason="begin"))
    await swept.until(2)
    await swept.submit(lambda plane: plane.fleet.scale(POOL, 3, reason="more"))
    await swept.until(3)
    await swept.submit(lambda plane: plane.fleet.scale(POOL, 1, reason="less"))
    await swept.until(1)
    await swept.submit(lambda plane: plane.fleet.scale(POOL, 0, reason="none"))
    await swept.until(0)


def sweep_once(
    build: Build, *offerings: Offering, alive: Callable[[], set[str]], wire: CrashPoint
) -> SweptFleet:
    """Run `a_short_life` with the crash that `wire` holds; return the fleet at its end."""
    return live_through(
        lambda swept: a_short_life(swept, *offerings), build, alive=alive, wire=wire
    )


def live_through(
    story: Callable[[SweptFleet], Awaitable[None]],
    build: Build,
    *,
    alive: Callable[[], set[str]],
    wire: CrashPoint | None = None,
) -> SweptFleet:
    """Run `story` with a control plane on an adapter; return the fleet at its end."""

    async def main() -> SweptFleet:
        swept = SweptFleet(SimClock(), MemoryStore(CLUSTER), build, alive, wire or CrashPoint())
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(swept.live())
            try:
                await story(swept)
            finally:
                life.cancel()
        return swept

    # Servers put real dates into their responses, so virtual time begins now.
    start_s = (SystemClock().now() - EPOCH).total_seconds()
    with asyncio.Runner(loop_factory=lambda: SimLoop(start_s)) as runner:
        return runner.run(main())

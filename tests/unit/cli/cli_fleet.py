"""A control plane in virtual time, and a command line connected to it in-process."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from click.testing import CliRunner, Result

from navarch.app.control_plane import Opinions, Plane
from navarch.cli.environment import CliEnvironment, Target, Terminal
from navarch.cli.main import navarch
from navarch.control.nodes.launch import MissingAgent
from navarch.core.fleet import Change
from navarch.core.health import CheckResult
from navarch.core.ids import NodeId, ProviderName
from navarch.core.launch import Offering
from navarch.core.ownership import Cluster
from navarch.ports.api import FleetApi
from navarch.providers.simulated import Habits, SimulatedCloud
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import EPOCH, SimLoop
from navarch.sim.world.effects import SimWorkloads
from navarch.sim.world.hosts import TIMING
from navarch.sim.world.world import World
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable

T = TypeVar("T")

H100 = Offering(
    provider=ProviderName("sim"),
    instance_type="h100-8x",
    region="r1",
    gpu_type="h100",
    price_per_hour=Decimal("98.32"),
)


@dataclass(slots=True)
class LoopClock:
    """The simulated clock, which the command line also reads outside the event loop."""

    loop: asyncio.AbstractEventLoop

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return self.loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass(slots=True)
class Cli:
    """A command line that records its connections and the programs it executes."""

    environment: CliEnvironment
    targets: list[Target]
    executed: list[Sequence[str]]
    results: list[Result] = field(default_factory=list)

    def run(
        self, line: str | Sequence[str], *, stdin: str | None = None, color: bool = False
    ) -> Result:
        words = line.split() if isinstance(line, str) else list(line)
        return CliRunner().invoke(navarch, words, obj=self.environment, input=stdin, color=color)


def make_cli(
    api: FleetApi,
    *,
    runner: asyncio.Runner,
    environ: dict[str, str] | None = None,
    terminal: Terminal | None = None,
) -> Cli:
    """Return a command line connected to `api`."""
    targets: list[Target] = []
    executed: list[Sequence[str]] = []

    @asynccontextmanager
    async def connect(target: Target) -> AsyncIterator[FleetApi]:
        targets.append(target)
        yield api

    def run(main: Coroutine[Any, Any, T]) -> T:
        return runner.run(main)

    environment = CliEnvironment(
        connect=connect,
        clock=LoopClock(runner.get_loop()),
        environ={"XDG_CONFIG_HOME": "/nonexistent", **(environ or {})},
        terminal=lambda: terminal or Terminal(),
        execute=executed.append,
        run=run,
    )
    return Cli(environment, targets, executed)


@dataclass(slots=True)
class FleetCli:
    """A command line connected to a running fleet."""

    world: World
    cli: Cli
    runner: asyncio.Runner

    def run(self, line: str | Sequence[str]) -> Result:
        return self.cli.run(line)

    def wait(self, seconds: float) -> None:
        """Advance the virtual time."""
        self.runner.run(asyncio.sleep(seconds))


@contextmanager
def running_fleet(
    *,
    habits: Habits | None = None,
    terminal: Terminal | None = None,
    seed: int = 1,
    missing_agent: MissingAgent = lambda _: None,
    before: Change | None = None,
    opinions: Opinions | None = None,
) -> Iterator[FleetCli]:
    """Yield a command line connected to a fleet that runs until the end of the block.

    `before` is committed to the store first. With `opinions` the fleet runs as in production.
    """
    with asyncio.Runner(loop_factory=SimLoop) as runner:
        world, life = runner.run(
            _begin(habits or Habits(boot_s=(60, 90)), seed, missing_agent, before, opinions)
        )
        assert world.control is not None
        cli = make_cli(world.control.fleet, runner=runner, terminal=terminal)
        try:
            yield FleetCli(world, cli, runner)
        finally:
            # A launch request in flight may still arrive; its machine needs no agent.
            world.cloud.on_launch = lambda _: None
            runner.run(_end(life))


async def _begin(
    habits: Habits,
    seed: int,
    missing_agent: MissingAgent,
    before: Change | None,
    opinions: Opinions | None,
) -> tuple[World, asyncio.Task[None]]:
    ready: asyncio.Future[World] = asyncio.get_running_loop().create_future()
    life = asyncio.create_task(_live(habits, seed, missing_agent, before, opinions, ready))
    return await ready, life


async def _live(
    habits: Habits,
    seed: int,
    missing_agent: MissingAgent,
    before: Change | None,
    opinions: Opinions | None,
    ready: asyncio.Future[World],
) -> None:
    clock = SimClock()
    entropy = SeededEntropy(f"{seed}/cluster")
    store = MemoryStore(Cluster(id="cluster-1", secret=entropy.secret()))
    if before is not None:
        await store.commit(before, based_on=store.fleet().revision)
    cloud = SimulatedCloud(clock, SeededEntropy(f"{seed}/cloud"), habits)
    workloads = SimWorkloads(clock, SeededEntropy(f"{seed}/workloads"), 0.0)
    async with asyncio.TaskGroup() as tasks:
        world = World(
            seed=seed,
            clock=clock,
            tasks=tasks,
            first_store=store,
            cloud=cloud,
            workloads=workloads,
        )

        async def offerings() -> Sequence[Offering]:
            return (H100,)

        async def inject(node: NodeId, result: CheckResult) -> None:
            world.agent(node).results[result.check] = result

        world.leadership.control = Plane(
            clock,
            SeededEntropy(f"{seed}/control"),
            store,
            providers=[cloud],
            notifier=workloads,
            liveness=TelemetryTable(clock, timeout=TIMING.silence),
            timing=lambda: TIMING,
            opinions=opinions or Opinions(),
            offerings=offerings,
            inject=inject,
            missing_agent=missing_agent,
            strict=opinions is None,
        )
        tasks.create_task(world.leadership.control.run())
        ready.set_result(world)


async def _end(life: "asyncio.Task[None]") -> None:
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)

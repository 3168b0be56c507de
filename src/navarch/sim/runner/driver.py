"""The part of a run that is the same in virtual time and over a network."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from navarch.core.ids import NodeId
from navarch.sim.kernel.chance import Chance
from navarch.sim.runner.chaos import ChaosInjector
from navarch.sim.runner.event_player import EventPlayer
from navarch.sim.runner.fleet import SimulatedFleet
from navarch.sim.runner.generation import generate_fleet
from navarch.sim.runner.outcome import Moment
from navarch.sim.runner.partitions import hold
from navarch.sim.runner.startups import cold_start_s, start_moments
from navarch.sim.scenario.fleet import Startup
from navarch.sim.scenario.scenario import Scenario

Progress = Callable[[float, float], None]
"""Called with the present and the last second of a run."""

SAMPLE_S = 5.0
FILL_MAX_S = 3600.0
"""The longest time that chaos waits for pools to fill, in a scenario without a fleet."""
SAMPLES_MAX = 5_000
"""Runs of weeks are sampled less often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The number of nodes by status, as the control plane counts them."""

    total: int = 0
    active: int = 0
    unhealthy: int = 0
    degraded: int = 0
    cordoned: int = 0
    draining: int = 0


@dataclass(slots=True, kw_only=True)
class ScenarioDriver:
    """One run of a scenario on a simulated fleet."""

    scenario: Scenario
    fleet: SimulatedFleet
    player: EventPlayer
    count: Callable[[], Counts]
    tasks: asyncio.TaskGroup
    """Background tasks; they end with the run."""
    progress: Progress = lambda _at, _until: None
    chaos: ChaosInjector | None = None
    timeline: list[Moment] = field(default_factory=list)
    _background: list[asyncio.Task[None]] = field(default_factory=list)
    _until_s: float = 0.0

    async def run(self) -> None:
        """Run all events, until the end of the scenario's duration."""
        clock = self.fleet.environment.clock
        self.player.begin = clock.monotonic()
        self._until_s = self._length_s()
        stress = self.scenario.stress
        if stress is not None:
            startup = stress.fleet_gen.startup if stress.fleet_gen else Startup()
            self.chaos = ChaosInjector(
                fleet=self.fleet, config=stress.chaos, tasks=self.tasks, startup=startup
            )
            self.chaos.note = self.player.note
        for partition in self.scenario.network.partitions:
            self._go(hold(self.fleet, partition))
        self._go(self._watch())
        player = self.tasks.create_task(self.player.play(self.scenario.events))
        if stress is not None:
            await self._endure()
        await player
        if self.scenario.duration is not None:
            end = self.player.begin + self.scenario.duration.total_seconds()
            await clock.sleep(max(end - clock.monotonic(), 0.0))
        self.sample()

    def on_unhealthy(self, node: NodeId) -> None:
        """Replace a node that the control plane found unhealthy, if the owner does so."""
        chaos = self.chaos
        if chaos is not None and chaos.config.enabled and chaos.config.recovery.replace_fatal:
            chaos.replace_machine(node)

    def close(self) -> None:
        """Cancel the background tasks."""
        for task in self._background:
            task.cancel()

    async def _endure(self) -> None:
        """Start the fleet, then inject failures for the scenario's duration."""
        stress, chaos = self.scenario.stress, self.chaos
        assert stress is not None
        assert chaos is not None
        if stress.fleet_gen is not None:
            await self._start_up()
        elif self.scenario.pools:
            await self._until_filled()
        if stress.chaos.enabled:
            chaos.prepare()
            self._go(chaos.run(stress.duration))
        await self.fleet.environment.clock.sleep(stress.duration.total_seconds())

    async def _start_up(self) -> None:
        assert self.scenario.stress is not None
        plan = self.scenario.stress.fleet_gen
        assert plan is not None
        environment = self.fleet.environment
        fleet = generate_fleet(plan, Chance(environment.entropy("fleet")))
        chance = Chance(environment.entropy("startup"))
        moments = start_moments(plan.startup, len(fleet), chance)
        ups = [moment + cold_start_s(plan.startup, chance) for moment in moments]
        for node, up_s in zip(fleet, ups, strict=True):
            self.fleet.start(node, after_s=up_s)
        await environment.clock.sleep(max([*ups, plan.startup.takes.total_seconds()]) + 1e-3)

    async def _until_filled(self) -> None:
        """Wait until the pools have their initial machines, up to a limit."""
        clock = self.fleet.environment.clock
        wanted = sum(pool.min_nodes for pool in self.scenario.pools.values())
        deadline = clock.monotonic() + FILL_MAX_S
        while len(self.fleet.agents) < wanted and clock.monotonic() < deadline:
            await clock.sleep(SAMPLE_S)

    async def _watch(self) -> None:
        stress = self.scenario.stress
        pause_s = max(SAMPLE_S, self._until_s / SAMPLES_MAX)
        if stress is not None:
            pause_s = stress.metrics_interval.total_seconds()
        while True:
            self.sample()
            await self.fleet.environment.clock.sleep(pause_s)

    def sample(self) -> None:
        """Record the state of the fleet."""
        counts, chaos = self.count(), self.chaos
        at_s = self.fleet.environment.clock.monotonic() - self.player.begin
        moment = Moment(
            at_s=round(at_s, 3),
            total=counts.total,
            active=counts.active,
            unhealthy=counts.unhealthy,
            degraded=counts.degraded,
            cordoned=counts.cordoned,
            draining=counts.draining,
            failures_total=len(self.fleet.injuries),
            recoveries_total=self.fleet.cleared,
            active_outages=chaos.outages if chaos is not None else 0,
        )
        if not self.timeline or self.timeline[-1].at_s != moment.at_s:
            self.timeline.append(moment)
        self.progress(at_s, max(self._until_s, at_s))

    def _go(self, work: Coroutine[Any, Any, None]) -> None:
        self._background.append(self.tasks.create_task(work))

    def _length_s(self) -> float:
        """Return the expected length of the run."""
        scenario = self.scenario
        lengths = [event.at.total_seconds() for event in scenario.events]
        if scenario.duration is not None:
            lengths.append(scenario.duration.total_seconds())
        if scenario.stress is not None:
            plan = scenario.stress.fleet_gen
            start_s = plan.startup.takes.total_seconds() if plan is not None else 0.0
            lengths.append(start_s + scenario.stress.duration.total_seconds())
        return max(lengths, default=0.0)

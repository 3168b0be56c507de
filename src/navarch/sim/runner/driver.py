"""The part of a run that is the same in virtual time and over a network."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from navarch.config.schema import plain_block
from navarch.core.ids import NodeId
from navarch.core.version import VERSION
from navarch.sim.figures.figures import Figures
from navarch.sim.figures.timeline import GroundTruth, Lease
from navarch.sim.kernel.clock import Chance
from navarch.sim.runner.chaos import ChaosInjector
from navarch.sim.runner.event_player import EventPlayer, hold
from navarch.sim.runner.fleet import SimulatedFleet
from navarch.sim.runner.generation import cold_start_s, generate_fleet, start_moments
from navarch.sim.runner.outcome import Moment, Outcome, Verdict
from navarch.sim.scenario.chaos import Stress
from navarch.sim.scenario.fleet import FleetGen, Startup
from navarch.sim.scenario.scenario import Scenario

Progress = Callable[[float, float], None]
"""Called with the present and the last second of a run."""

SAMPLE_S = 5.0
FILL_MAX_S = 3600.0
"""The longest time that chaos waits for pools to fill, in a scenario without a fleet."""
SAMPLES_MAX = 5_000
"""Runs of weeks are sampled less often."""


@dataclass(slots=True, kw_only=True)
class ScenarioDriver:
    """One run of a scenario on a simulated fleet."""

    scenario: Scenario
    fleet: SimulatedFleet
    player: EventPlayer
    count: Callable[[], Moment]
    """Returns the numbers of nodes by status, as the control plane counts them."""
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
        self.player.spawn = self._go
        self._until_s = self._length_s()
        for partition in self.scenario.network.partitions:
            self._go(hold(self.fleet, partition))
        self._go(self._watch())
        player = self.tasks.create_task(self.player.play(self.scenario.events))
        if self.scenario.stress is not None:
            await self._endure(self.scenario.stress)
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

    async def _endure(self, stress: Stress) -> None:
        """Start the fleet, then inject failures for the scenario's duration."""
        clock, plan = self.fleet.environment.clock, stress.fleet_gen
        self.chaos = ChaosInjector(
            fleet=self.fleet,
            config=stress.chaos,
            tasks=self.tasks,
            startup=plan.startup if plan is not None else Startup(),
            note=self.player.note,
        )
        if plan is not None:
            await self._start_up(plan)
        elif self.scenario.pools:
            # Wait until the pools have their initial machines, up to a limit.
            wanted = sum(pool.min_nodes for pool in self.scenario.pools.values())
            deadline = clock.monotonic() + FILL_MAX_S
            while len(self.fleet.agents) < wanted and clock.monotonic() < deadline:
                await clock.sleep(SAMPLE_S)
        if stress.chaos.enabled:
            self.chaos.prepare()
            self._go(self.chaos.run(stress.duration))
        await clock.sleep(stress.duration.total_seconds())

    async def _start_up(self, plan: FleetGen) -> None:
        environment = self.fleet.environment
        fleet = generate_fleet(plan, Chance(environment.entropy("fleet")))
        chance = Chance(environment.entropy("startup"))
        moments = start_moments(plan.startup, len(fleet), chance)
        ups = [moment + cold_start_s(plan.startup, chance) for moment in moments]
        for node, up_s in zip(fleet, ups, strict=True):
            self.fleet.start(node, after_s=up_s)
        await environment.clock.sleep(max([*ups, plan.startup.takes.total_seconds()]) + 1e-3)

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
        at_s = self.fleet.environment.clock.monotonic() - self.player.begin
        moment = replace(
            self.count(),
            at_s=round(at_s, 3),
            failures_total=len(self.fleet.injuries),
            recoveries_total=self.fleet.cleared,
            active_outages=self.chaos.outages if self.chaos is not None else 0,
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

    # The result

    def truth(self, began: datetime, ended: datetime, bought: Iterable[Lease] = ()) -> GroundTruth:
        """Return what was done to the fleet, given the leases of bought machines."""
        fleet = self.fleet
        return GroundTruth(
            began=began,
            ended=ended,
            faults=tuple(fleet.injuries),
            leases=(*fleet.leases.values(), *bought),
            requested_outages=dict(fleet.requested_outages),
            replaced_by=dict(fleet.replaced_by),
        )

    def outcome(
        self, seed: int, simulated_s: float, figures: Figures, verdicts: Sequence[Verdict]
    ) -> Outcome:
        """Return the outcome of the run, without what only one kind of run has."""
        faults = self.fleet.injuries
        return Outcome(
            scenario=self.scenario.name,
            description=self.scenario.description,
            seed=seed,
            version=VERSION,
            passed=all(verdict.holds for verdict in verdicts),
            simulated_s=simulated_s,
            configuration=plain_block(self.scenario),
            figures=figures,
            verdicts=tuple(verdicts),
            failures=dict(sorted(Counter(fault.kind for fault in faults).items())),
            causes=dict(sorted(Counter(fault.cause for fault in faults).items())),
            skipped=self.chaos.skipped if self.chaos is not None else 0,
            timeline=tuple(self.timeline),
            happenings=tuple(self.player.happenings),
        )

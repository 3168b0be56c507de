"""A scenario in real time: a simulated fleet against a real control plane."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace

from navarch.core.errors import InvalidError, NavarchError
from navarch.core.event import Recorded
from navarch.core.ids import NodeId
from navarch.core.node import NodeStatus
from navarch.ports.api import PAGE_SIZE_MAX, FleetApi, Query
from navarch.ports.clock import Clock
from navarch.sim.figures.figures import flatten, measure
from navarch.sim.runner.driver import Progress, ScenarioDriver
from navarch.sim.runner.environment import ScaledClock, WireEnvironment
from navarch.sim.runner.event_player import EventPlayer
from navarch.sim.runner.fleet import SimulatedFleet
from navarch.sim.runner.generation import prices
from navarch.sim.runner.judging import judge
from navarch.sim.runner.outcome import Happening, Moment, Outcome
from navarch.sim.scenario.scenario import Scenario

LOOK_S = 2.0


def check_playable(scenario: Scenario) -> None:
    """Reject a scenario with parts that only virtual time supports."""
    for what, given in (
        ("pools", scenario.pools),
        ("providers", scenario.providers),
        ("budgets", scenario.budgets),
        ("governor", scenario.governor),
        ("jobs", scenario.jobs),
        ("policy", scenario.policy),
        ("control_plane.crashes", scenario.control_plane.crashes),
        ("control_plane.isolations", scenario.control_plane.isolations),
        ("control_plane.conflicts", scenario.control_plane.conflicts),
        ("control_plane.replicas", scenario.control_plane.replicas > 1),
    ):
        if given:
            raise InvalidError(
                f"{what}: a server that really runs has its own; "
                "play this scenario in virtual time, without --real-time"
            )


async def perform(
    scenario: Scenario,
    *,
    clock: Clock,
    server: str,
    token: str | None,
    api: FleetApi,
    seed: int | None = None,
    progress: Progress = lambda _at, _until: None,
    on_happening: Callable[[Happening], None] = lambda _: None,
) -> Outcome:
    """Play a scenario against the server at `server` and return its outcome."""
    check_playable(scenario)
    chosen = scenario.seed if seed is None else seed
    stress = scenario.stress
    scale = stress.time_scale if stress is not None else 1.0
    async with asyncio.TaskGroup() as tasks:
        environment = WireEnvironment(
            clock=ScaledClock(clock, scale),
            server=server,
            token=token,
            api=api,
            tasks=tasks,
            seed=chosen,
        )
        fleet = SimulatedFleet(
            environment=environment,
            timing=scenario.timing.timing,
            loss=scenario.network.loss,
            product_agents=scenario.agents.product_share,
            latency_s=None,
            prices=prices(stress.fleet_gen) if stress and stress.fleet_gen else {},
        )
        environment.on_up = fleet.up
        lookout = _Lookout(clock, api)
        driver = ScenarioDriver(
            scenario=scenario,
            fleet=fleet,
            player=EventPlayer(fleet=fleet, machines=scenario.fleet, on_happening=on_happening),
            count=lambda: lookout.counts,
            tasks=tasks,
            progress=progress,
        )
        watching = tasks.create_task(lookout.run(driver.on_unhealthy))
        try:
            return await _play(driver, environment)
        finally:
            driver.close()
            watching.cancel()
            await environment.close()
    raise AssertionError("unreachable")


class _Lookout:
    """Polls the server."""

    def __init__(self, clock: Clock, api: FleetApi) -> None:
        self.counts = Moment()
        self._clock = clock
        self._api = api
        self._unhealthy: set[NodeId] = set()

    async def run(self, on_unhealthy: Callable[[NodeId], None]) -> None:
        while True:
            with contextlib.suppress(NavarchError, OSError):
                await self._look(on_unhealthy)
            await self._clock.sleep(LOOK_S)

    async def _look(self, on_unhealthy: Callable[[NodeId], None]) -> None:
        by_status = (await self._api.status()).nodes_by_status
        self.counts = Moment(
            total=sum(n for status, n in by_status.items() if status != NodeStatus.TERMINATED),
            active=by_status.get(NodeStatus.ACTIVE, 0),
            unhealthy=by_status.get(NodeStatus.UNHEALTHY, 0),
            cordoned=by_status.get(NodeStatus.CORDONED, 0),
            draining=by_status.get(NodeStatus.DRAINING, 0),
        )
        if self.counts.unhealthy:
            query = Query(status=NodeStatus.UNHEALTHY, page_size=PAGE_SIZE_MAX)
            found = {view.id for view in (await self._api.list_nodes(query)).items}
            for node in sorted(found - self._unhealthy):
                on_unhealthy(node)
            self._unhealthy = found


async def _play(driver: ScenarioDriver, environment: WireEnvironment) -> Outcome:
    """Run the scenario, and measure it by the part of the journal that was written meanwhile."""
    api, clock, scenario = environment.api, environment.clock, driver.scenario
    recent = (await api.status()).recent
    newest = recent[-1].number if recent else 0
    began = clock.now()
    await driver.run()
    ended = clock.now()
    journal: list[Recorded] = []
    while page := await api.events(after=newest, limit=PAGE_SIZE_MAX):
        journal += page
        newest = page[-1].number
    ours = {f"node/{name}" for name in driver.fleet.facts}
    figures = measure(
        [entry for entry in journal if entry.event.about in ours], driver.truth(began, ended)
    )
    verdicts = [
        *driver.player.verdicts,
        *[
            await judge(environment, each, figures=flatten(figures), began=began)
            for each in scenario.assertions
        ],
    ]
    await environment.await_replies()
    simulated_s = round((ended - began).total_seconds(), 3)
    return replace(
        driver.outcome(environment.seed, simulated_s, figures, verdicts),
        heartbeats_sent=sum(agent.beats for agent in environment.agents),
        heartbeats_lost=sum(agent.beats_lost for agent in environment.agents),
        heartbeat_answers=environment.reply_times.stats(),
        silence_max_s=round(environment.reply_times.silence_max_s, 3),
        real_time=True,
    )

"""The market of a scenario: its pools as requests, and clouds that change over time."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from navarch.config import Config, to_pool_specs
from navarch.config.provider import FakeConfig
from navarch.ports.api import PoolSpec
from navarch.ports.clock import Clock
from navarch.providers.simulated import Machine, SimulatedCloud
from navarch.sim.kernel.clock import Chance
from navarch.sim.scenario.cloud import CloudConfig
from navarch.sim.scenario.files import CapacityStep
from navarch.sim.scenario.market import SpotReclaim
from navarch.sim.scenario.scenario import Scenario

UNLIMITED = 1_000_000_000
RECLAIM_EVERY_S = 60.0
"""How often the cloud draws the spot machines that it takes back."""


def market_config(scenario: Scenario, at: timedelta = timedelta(0)) -> Config:
    """Return the clouds and pools of a scenario as a configuration, with the prices of a moment."""
    return Config(
        providers={
            name: _provider(cloud, types_sold(scenario, name), at)
            for name, cloud in scenario.providers.items()
        },
        pools=scenario.pools,
    )


def _provider(cloud: CloudConfig, types: tuple[str, ...], at: timedelta) -> FakeConfig:
    prices, spot_prices = cloud.prices_at(at)
    known = {kind: prices.get(kind, cloud.price_per_hour) for kind in (*prices, *types)}
    return FakeConfig(
        name=cloud.name,
        gpu_count=cloud.gpu_count,
        gpu_type=cloud.gpu_type,
        prices=known,
        spot_prices={**known, **spot_prices},
    )


def pool_specs(scenario: Scenario, at: timedelta = timedelta(0)) -> tuple[PoolSpec, ...]:
    """Return the scenario's pools as requests, with the prices of a moment."""
    return to_pool_specs(market_config(scenario, at))


def types_sold(scenario: Scenario, provider: str) -> tuple[str, ...]:
    """Return every type of machine that pools buy from a provider."""
    found = {
        source.instance_type or pool.instance_type: None
        for pool in scenario.pools.values()
        for source in pool.sources
        if source.name == provider
    }
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudTimeline:
    """Changes one cloud over time, as the scenario specifies."""

    clock: Clock
    cloud: SimulatedCloud
    config: CloudConfig
    types: tuple[str, ...]
    """The types that pools buy there: any number, until a step of capacity limits it."""
    on_prices: Callable[[timedelta], None] = lambda _: None
    """Called when prices have changed, with the moment."""

    async def run(self) -> None:
        """Apply each change at its moment."""
        config, begin = self.config, self.clock.monotonic()
        stock = dict.fromkeys(self.types, UNLIMITED)
        for at in config.moments:
            await self.clock.sleep(max(begin + at.total_seconds() - self.clock.monotonic(), 0.0))
            steps = [step for step in config.steps if step.at == at]
            stock |= {step.instance_type: step.machines for step in steps}
            self.cloud.habits = replace(
                self.cloud.habits,
                stock=dict(stock) if config.steps and at >= config.steps[0].at else None,
                quotas=config.quotas_at(at),
                outages=config.outages_at(at),
            )
            for step in steps:
                if step.reclaim:
                    self._reclaim_beyond(step)
            if any(change.at == at for change in config.price_changes):
                self.cloud.prices, self.cloud.spot_prices = config.prices_at(at)
                self.on_prices(at)

    def _reclaim_beyond(self, step: CapacityStep) -> None:
        kind, _, spot = step.instance_type.partition(" ")
        running = [
            machine
            for machine in self.cloud.alive()
            if machine.request.instance_type == kind and (machine.request.spot or not spot)
        ]
        running.sort(key=lambda machine: (machine.launched_at, machine.number))
        for machine in reversed(running[step.machines :]):
            self.cloud.end(machine.id)

    async def reclaim_spot(
        self, rule: SpotReclaim, chance: Chance, take: Callable[[Machine, float], None]
    ) -> None:
        """Take spot machines back at the rate of `rule`, each after its notice."""
        clock, share = self.clock, 1 - math.exp(-rule.rate * RECLAIM_EVERY_S / 3600)
        await clock.sleep(rule.at.total_seconds())
        duration_s = math.inf if rule.duration is None else rule.duration.total_seconds()
        end_s = clock.monotonic() + duration_s
        taken = set()
        while clock.monotonic() < end_s:
            for machine in self.cloud.alive():
                request = machine.request
                if (
                    request.spot
                    and machine.id not in taken
                    and rule.zone in ("", request.zone)
                    and rule.instance_type in ("", request.instance_type)
                    and chance.strikes(share)
                ):
                    taken.add(machine.id)
                    take(machine, rule.notice.total_seconds())
            await clock.sleep(RECLAIM_EVERY_S)

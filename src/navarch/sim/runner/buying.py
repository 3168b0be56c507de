"""Pools and clouds of a scenario, as the control plane is given them."""

from dataclasses import replace

from navarch.config import BuiltInCatalogue, Config, to_pool_specs
from navarch.config.provider import FakeConfig
from navarch.ports.api import PoolSpec
from navarch.ports.clock import Clock
from navarch.providers.simulated import SimulatedCloud
from navarch.sim.scenario.files import CapacityStep
from navarch.sim.scenario.scenario import Scenario

UNLIMITED = 1_000_000_000


def pool_specs(scenario: Scenario) -> tuple[PoolSpec, ...]:
    """Return the scenario's pools as requests to the control plane."""
    config = Config(
        providers={
            name: FakeConfig(
                name=name,
                gpu_count=cloud.gpu_count,
                gpu_type=cloud.gpu_type,
                prices={
                    kind: cloud.prices.get(kind, cloud.price_per_hour)
                    for kind in (*cloud.prices, *types_sold(scenario, name))
                },
            )
            for name, cloud in scenario.providers.items()
        },
        pools=scenario.pools,
    )
    return to_pool_specs(config, BuiltInCatalogue())


def types_sold(scenario: Scenario, provider: str) -> tuple[str, ...]:
    """Return every type of machine that pools buy from a provider."""
    found = {
        source.instance_type or pool.instance_type: None
        for pool in scenario.pools.values()
        for source in pool.sources
        if source.name == provider
    }
    return tuple(found)


async def follow_capacity(
    clock: Clock, cloud: SimulatedCloud, steps: tuple[CapacityStep, ...], types: tuple[str, ...]
) -> None:
    """Set the stock of a cloud over time, as its capacity trace specifies."""
    stock = dict.fromkeys(types, UNLIMITED)
    begin = clock.monotonic()
    for step in steps:
        await clock.sleep(max(begin + step.at.total_seconds() - clock.monotonic(), 0.0))
        stock[step.instance_type] = step.machines
        cloud.habits = replace(cloud.habits, stock=dict(stock))
        if step.reclaim:
            running = [m for m in cloud.alive() if m.request.instance_type == step.instance_type]
            running.sort(key=lambda machine: (machine.launched_at, machine.number))
            for machine in reversed(running[step.machines :]):
                cloud.end(machine.id)

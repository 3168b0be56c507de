"""The simulated cloud passes the provider contract."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from navarch.core.errors import (
    CapacityError,
    OutcomeUnknownError,
    ProviderError,
)
from navarch.core.ids import InstanceId, Token
from navarch.core.instance import Instance
from navarch.core.records import evolve
from navarch.ports.provider import Provider, ProvisionRequest
from navarch.providers.simulated import FOUND_DEAD_AFTER, Habits, SimulatedCloud
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.testing.provider_contract import ProviderContract, Story

LAG_S = 45.0


def on_virtual_time(
    story: Callable[[SimulatedCloud], Awaitable[None]], habits: Habits, seed: str = "1"
) -> SimulatedCloud:
    async def main() -> SimulatedCloud:
        cloud = SimulatedCloud(SimClock(), SeededEntropy(seed), habits)
        await story(cloud)
        return cloud

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(main())


class TestSimulatedCloud(ProviderContract):
    def run(self, story: Story) -> None:
        on_virtual_time(story, Habits(listing_lag_s=LAG_S))

    async def settle(self) -> None:
        await asyncio.sleep(LAG_S)

    def refuse(self, provider: Provider, error: type[ProviderError]) -> bool:
        assert isinstance(provider, SimulatedCloud)
        provider.habits = replace(provider.habits, refuses=error)
        return True

    def lose_answers(self, provider: Provider, *, effect: bool) -> bool:
        assert isinstance(provider, SimulatedCloud)
        provider.habits = replace(provider.habits, lie=float(effect), mute=float(not effect))
        return True

    def lose_terminations(self, provider: Provider, *, effect: bool) -> bool:
        return self.lose_answers(provider, effect=effect)

    def lag(self, provider: Provider) -> bool:
        assert isinstance(provider, SimulatedCloud)
        return provider.habits.listing_lag_s > 0

    def impair(self, provider: Provider, instance: InstanceId) -> bool:
        assert isinstance(provider, SimulatedCloud)
        machine = provider.machines[instance]
        machine.died_at = machine.boots_at = provider.clock.now() - FOUND_DEAD_AFTER
        return True

    def recover(self, provider: Provider) -> None:
        assert isinstance(provider, SimulatedCloud)
        provider.habits = provider.habits.calm()


class TestSimulatedCloudWithBlocks(TestSimulatedCloud):
    def run(self, story: Story) -> None:
        blocks = {"a": 3, "b": 9, "zone-1/c": 9, "zone-2/d": 9}
        on_virtual_time(story, Habits(listing_lag_s=LAG_S, blocks=blocks))


class TestSimulatedCloudThatSellsInBulk(TestSimulatedCloud):
    def run(self, story: Story) -> None:
        on_virtual_time(story, Habits(listing_lag_s=LAG_S, machines_per_call=8))


class TestSimulatedCloudThatForgetsSharedTokens(TestSimulatedCloud):
    def run(self, story: Story) -> None:
        habits = Habits(listing_lag_s=LAG_S, machines_per_call=8, remembers_shared_tokens=False)
        on_virtual_time(story, habits)


class TestSimulatedCloudThatCoversZones(TestSimulatedCloud):
    def run(self, story: Story) -> None:
        habits = Habits(
            listing_lag_s=LAG_S,
            machines_per_call=8,
            remembers_shared_tokens=False,
            covers_zones=True,
            stock={"h100-8x": 99},
        )
        on_virtual_time(story, habits)

    def sell_out(self, provider: Provider, zone: str) -> bool:
        assert isinstance(provider, SimulatedCloud)
        stock = {**(provider.habits.stock or {}), f"{zone}/h100-8x": 0}
        provider.habits = replace(provider.habits, stock=stock)
        return True


def requests(count: int, *, group: str = "") -> list[ProvisionRequest]:
    each = [ProviderContract().numbered(number) for number in range(count)]
    return [evolve(request, group=group, group_size=count) for request in each]


def test_a_call_for_more_machines_than_there_are_buys_what_there_is() -> None:
    async def story(cloud: SimulatedCloud) -> None:
        results = await cloud.provision_many(requests(5))
        assert [type(result) for result in results] == [Instance] * 3 + [CapacityError] * 2

    on_virtual_time(story, Habits(stock={"h100-8x": 3}, machines_per_call=8))


@pytest.mark.parametrize(
    "habits",
    [Habits(stock={"h100-8x": 3}), Habits(blocks={"a": 3, "b": 3})],
    ids=["stock", "blocks"],
)
def test_a_call_for_a_whole_group_buys_all_of_it_or_nothing(habits: Habits) -> None:
    async def story(cloud: SimulatedCloud) -> None:
        results = await cloud.provision_many(requests(4, group="training-g0"))
        assert [type(result) for result in results] == [CapacityError] * 4
        assert not cloud.machines
        results = await cloud.provision_many(requests(3, group="training-g1"))
        assert [type(result) for result in results] == [Instance] * 3
        assert len({machine.block for machine in cloud.machines.values()}) == 1

    on_virtual_time(story, replace(habits, machines_per_call=8))


def test_the_token_finds_a_machine_with_a_lost_launch_response() -> None:
    async def story(cloud: SimulatedCloud) -> None:
        request = ProviderContract().request()
        with pytest.raises(OutcomeUnknownError):
            await cloud.provision(request)
        assert [x.labels["navarch-token"] for x in await cloud.list_instances()] == ["t-1"]

    on_virtual_time(story, Habits(lie=1.0))


def test_a_cancelled_launch_may_or_may_not_take_effect() -> None:
    sold = set()
    for seed in range(20):

        async def story(cloud: SimulatedCloud) -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await cloud.provision(ProviderContract().request())

        cloud = on_virtual_time(story, Habits(call_s=(1.0, 2.0)), seed=str(seed))
        sold.add(len(cloud.machines))
    assert sold == {0, 1}


def test_a_sold_out_type_is_available_again_after_a_termination() -> None:
    async def story(cloud: SimulatedCloud) -> None:
        request = ProviderContract().request()
        first = await cloud.provision(request)
        other = evolve(request, token=Token("t-2"), name="training-1")
        with pytest.raises(CapacityError):
            await cloud.provision(other)
        await cloud.terminate(first.id)
        await cloud.provision(other)

    on_virtual_time(story, Habits(stock={"h100-8x": 1}))


def test_the_bill_runs_from_launch_to_end() -> None:
    async def story(cloud: SimulatedCloud) -> None:
        bought = await cloud.provision(ProviderContract().request())
        assert bought.launched_at is not None
        await asyncio.sleep(3600)
        await cloud.terminate(bought.id)
        await asyncio.sleep(3600)
        (machine,) = cloud.machines.values()
        assert machine.ended_at is not None
        hours = (machine.ended_at - bought.launched_at) / timedelta(hours=1)
        expected = float(cloud.price_per_hour) * hours
        assert float(cloud.bill(cloud.clock.now())) == pytest.approx(expected)

    on_virtual_time(story, Habits())

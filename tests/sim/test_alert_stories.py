"""What people receive while the whole control plane deals with faults, outages and bad images."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import pytest
from tests.support.seeds import seeds

from navarch.control.alerts import AlertSetup
from navarch.core.alert import AlertAction, AlertMessage, Severity
from navarch.core.errors import CredentialError, ProviderError, QuotaError, RejectedError
from navarch.core.ids import NodeId, PoolName
from navarch.core.pool import Pool
from navarch.fleet.alerts.outbox import AlertRoute, AlertRouting, ChannelRules
from navarch.notifiers.alerts.simulated import AlertInbox, SimulatedChannel
from navarch.providers.simulated import Habits
from navarch.sim.kernel.clock import SeededEntropy
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import a_pool

TRAINING = PoolName("training")
HOUR_S = 3600.0

Story = Callable[[World, AlertInbox], Awaitable[None]]


def play(
    story: Story,
    *pools: Pool,
    seed: int,
    habits: Habits | None = None,
) -> AlertInbox:
    """Run a story in a world in which one channel receives every alert."""
    inbox = AlertInbox()

    def prepare(world: World) -> None:
        entropy = SeededEntropy(f"{seed}/alerts")
        channel = SimulatedChannel(world.clock, entropy, inbox, name="ops")
        routing = AlertRouting(
            channels={"ops": ChannelRules()}, routes=[AlertRoute(channels=("ops",), severities=())]
        )
        world.leadership.alerts = AlertSetup(
            channels=lambda: {"ops": channel}, routing=lambda: routing
        )

    async def main(world: World) -> None:
        if habits is None:
            filled = partial(are_filled, world, pools)
            await world.until(filled, within_s=HOUR_S, step_s=10.0)
        await story(world, inbox)

    simulate(main, seed=seed, computed=True, pools=pools, prepare=prepare, habits=habits)
    return inbox


def are_filled(world: World, pools: Sequence[Pool]) -> bool:
    return all(len(world.serving(pool.name)) == pool.size for pool in pools)


def summary(messages: list[AlertMessage]) -> list[tuple[AlertAction, str]]:
    return [(x.action, x.group) for x in messages]


@pytest.mark.parametrize("seed", seeds(20, gate=1))
def test_a_broken_machine_is_one_message_and_its_replacement_another(seed: int) -> None:
    async def story(world: World, inbox: AlertInbox) -> None:
        broken = world.nodes(TRAINING)[3].id
        world.fail(broken, "XID 79: GPU has fallen off the bus")
        await world.clock.sleep(2 * HOUR_S)
        assert inbox.open == {}
        assert world.fleet().nodes[broken].gone
        assert world.fleet().pools[TRAINING].size == len(world.serving(TRAINING))

    inbox = play(story, a_pool(size=10), seed=seed)
    group = "node-fault/training"
    assert summary(inbox.accepted) == [(AlertAction.TRIGGER, group), (AlertAction.RESOLVE, group)]
    assert inbox.accepted[0].severity is Severity.WARNING, "automation replaces it"


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("seed", seeds(20, gate=1))
def test_an_outage_of_two_pools_is_one_message_and_its_end_another(
    seed: int, crashes: bool
) -> None:
    async def story(world: World, inbox: AlertInbox) -> None:
        nodes: list[NodeId] = [
            x.id for name in ("training", "other") for x in world.nodes(PoolName(name))
        ]
        for name in nodes:
            world.partition(name)
        await world.clock.sleep(400)
        if crashes:
            world.leadership.split_brain_takeover()
        await world.clock.sleep(800)
        (message,) = inbox.accepted
        assert len(message.firing) == 2
        assert "40 nodes of pool" in message.title
        assert message.severity is Severity.CRITICAL
        for name in nodes:
            world.partitioned.discard(name)
            world.hosts.wake(name)
        await world.clock.sleep(HOUR_S)

    pools = (a_pool(size=40, nodes_max=44), a_pool("other", size=40, nodes_max=44))
    inbox = play(story, *pools, seed=seed)
    assert summary(inbox.accepted) == [
        (AlertAction.TRIGGER, "nodes-unreachable"),
        (AlertAction.RESOLVE, "nodes-unreachable"),
    ]


@pytest.mark.parametrize("seed", seeds(10, gate=1))
def test_an_image_with_which_no_machine_comes_up_is_one_message(seed: int) -> None:
    async def story(world: World, inbox: AlertInbox) -> None:
        await world.clock.sleep(5 * HOUR_S)
        assert len(inbox.open) == 1
        world.cloud.habits = Habits()
        await world.clock.sleep(5 * HOUR_S)

    inbox = play(story, a_pool(size=6), seed=seed, habits=Habits(dead_on_arrival=1.0))
    assert {x.group for x in inbox.accepted} == {"purchases-paused/training"}


@pytest.mark.parametrize(
    ("error", "group"),
    [
        (QuotaError, "launches-refused/training"),
        (RejectedError, "launches-refused/training"),
        (CredentialError, "provider-credentials"),
    ],
)
@pytest.mark.parametrize("seed", seeds(10, gate=1))
def test_a_refusal_that_only_a_person_can_end_is_one_message_and_its_end_another(
    seed: int, error: type[ProviderError], group: str
) -> None:
    async def story(world: World, inbox: AlertInbox) -> None:
        await world.clock.sleep(2 * HOUR_S)
        (message,) = inbox.accepted
        assert error.__name__ in message.title
        world.cloud.habits = Habits()
        await world.clock.sleep(2 * HOUR_S)
        assert len(world.serving(TRAINING)) == 3

    inbox = play(story, a_pool(size=3), seed=seed, habits=Habits(refuses=error))
    assert summary(inbox.accepted) == [(AlertAction.TRIGGER, group), (AlertAction.RESOLVE, group)]

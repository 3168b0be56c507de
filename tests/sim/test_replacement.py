"""Machines fail and are replaced, and the rest of the fleet is undisturbed."""

import pytest
from tests.support.seeds import seeds

from navarch.core.ids import PoolName
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import a_pool, storm

TRAINING = PoolName("training")


@pytest.mark.parametrize("seed", seeds(500, gate=150))
def test_a_fallen_gpu_is_replaced_and_no_other_node_is_disturbed(seed: int) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 4, within_s=4 * 3600)
        victim, *rest = world.serving(TRAINING)

        world.fail(victim, "XID 79: GPU has fallen off the bus")
        await world.until(lambda: victim not in world.serving(TRAINING), within_s=600)
        await world.converge()

        assert victim not in world.serving(TRAINING)
        assert set(rest) <= set(world.serving(TRAINING)), "a healthy node was disturbed"

    simulate(
        story, seed=seed, pools=[a_pool(size=4, nodes_max=6)], habits=storm(seed), error_rate=0.2
    )


def test_decisions_of_one_moment_about_a_failure_are_one_commit() -> None:
    commits: list[list[str]] = []

    async def story(world: World) -> None:
        await world.converge()
        world.store.subscribe(lambda done: commits.append([e.kind for e in done.change.events]))
        world.fail(world.serving(TRAINING)[0], "XID 79: GPU has fallen off the bus")
        await world.until(lambda: not world.is_settled(), within_s=600)
        await world.converge()

    simulate(story, seed=1, pools=[a_pool(size=4)])

    assert commits == [
        ["health.finding", "incident.opened", "node.health"],
        ["node.retiring", "node.draining", "incident.recovering", "machine.given_back"],
        ["node.requested", "launch.asked"],
        ["node.announced"],
        ["node.bought"],
        ["node.terminating"],
        ["node.gone", "incident.closed"],
        ["node.registered", "node.health"],
    ]

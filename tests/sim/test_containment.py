"""One thing fails, and only that: a late agent, somebody's remediator, somebody's rule."""

from contextlib import aclosing
from datetime import timedelta

from navarch.core.ids import PoolName
from navarch.core.metrics import NodeMetrics, Sample
from navarch.core.node import NodeStatus
from navarch.ports.api import Query
from navarch.sim.world import World, simulate
from navarch.testing.worlds import a_pool

TRAINING = PoolName("training")


def test_late_samples_of_a_departed_node_break_no_list_and_no_watch() -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3600)
        victim = world.serving(TRAINING)[0]
        revision = world.fleet().revision
        world.fail(victim, "XID 79")
        await world.until(lambda: world.fleet().nodes[victim].gone, within_s=3600)
        assert world.control is not None
        agents, fleet = world.control.agents, world.control.fleet

        sample = Sample(at=world.clock.now() - timedelta(minutes=1), metrics=NodeMetrics())
        await agents.report_metrics(victim, [sample])
        assert agents.heartbeat(victim, NodeMetrics()) == []

        page = await fleet.list_nodes(Query(include_gone=True))
        shown = {node.id: (node.status, node.last_heartbeat) for node in page.items}
        assert shown[victim] == (NodeStatus.TERMINATED, None)
        assert (await fleet.get_node(victim)).metrics is None
        async with aclosing(fleet.watch(after_revision=revision)) as updates:  # type: ignore[type-var]
            async for update in updates:
                if update.revision >= page.revision:
                    break

    simulate(story, seed=1, pools=[a_pool()])

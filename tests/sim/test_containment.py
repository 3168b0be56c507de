"""Failures stay contained: a late agent, a broken remediator, a broken rule."""

import json
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta

from navarch.app.control_plane import Opinions
from navarch.config.policy import parse_policy
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import PoolName
from navarch.core.instance import NodeMetrics, Sample
from navarch.core.node import Node, NodeStatus
from navarch.core.pool import Pool
from navarch.core.recovery import Remediation
from navarch.health.policy.engine import PolicySet, compile_policies
from navarch.ports.api import Query
from navarch.ports.remediator import Remedy, Treatment
from navarch.service.views import pool_spec
from navarch.sim.world.world import World, simulate
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
        assert not agents.heartbeat(victim, NodeMetrics())

        page = await fleet.list_nodes(Query(include_gone=True))
        shown = {node.id: (node.status, node.last_heartbeat) for node in page.items}
        assert shown[victim] == (NodeStatus.TERMINATED, None)
        assert (await fleet.get_node(victim)).metrics is None
        async with aclosing(fleet.watch(after_revision=revision)) as updates:  # type: ignore[type-var]
            async for update in updates:
                if update.revision >= page.revision:
                    break

    simulate(story, seed=1, pools=[a_pool()])


class ReplaceAll:
    """A remediator that replaces every node."""

    def remediate(self, pool: Pool, node: Node) -> Treatment | None:
        del pool, node
        return Treatment(remedy=Remedy.REPLACE, reason="something is wrong with it")


def rules(condition: str) -> PolicySet:
    rule = {"name": "house", "condition": condition, "result": "unhealthy"}
    return compile_policies(parse_policy(json.dumps({"version": "v1", "rules": [rule]})))


TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
GREEDY = f"{TEN}.exists(a, {TEN}.exists(b, {TEN}.exists(c, {TEN}.exists(d, {TEN}.exists(e, "
GREEDY += "a + b + c + d + e > 45 && event.metrics.xid_code == a)))))"


def test_nodes_that_a_policy_cannot_judge_keep_serving_until_it_is_corrected() -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3600)
        crashed, other = world.serving(TRAINING)
        crash = CheckResult(
            check="xid/31/GPU-0/7",
            health=Health.HEALTHY,
            reason="XID 31",
            lasting=True,
            facts={"code": "31", "gpu": "GPU-0", "pid": "7"},
        )
        world.leadership.policies = rules(GREEDY)
        world.crash()
        await world.until(
            lambda: world.control is not None and not world.leadership.crash_point.dead, within_s=60
        )
        assert world.control is not None
        await world.control.agents.report_health(crashed, HealthReport(results=(crash,)))
        assert world.fleet().nodes[crashed].health is Health.UNKNOWN

        await world.clock.sleep(6 * 3600)
        assert world.serving(TRAINING) == [crashed, other]
        assert world.fleet().nodes[crashed].health is Health.UNKNOWN

        world.leadership.policies = rules("event.metrics.xid_code == 79")
        world.crash()
        await world.until(
            lambda: world.fleet().nodes[crashed].health is Health.HEALTHY, within_s=600
        )
        assert world.serving(TRAINING) == [crashed, other]

    simulate(story, seed=1, pools=[a_pool()], opinions=Opinions(remediator=ReplaceAll()))


class Broken:
    """An extension's remediator that always fails."""

    def remediate(self, pool: Pool, node: Node) -> Treatment | None:
        del pool
        raise ValueError(f"no rack for {node.id}")


def test_a_failing_remediator_does_not_stop_replacement_in_other_pools() -> None:
    other = PoolName("other")

    async def story(world: World) -> None:
        for pool in (TRAINING, other):
            await world.until(lambda: len(world.serving(pool)) == 2, within_s=3600)  # noqa: B023
        ours, theirs = world.serving(TRAINING)[0], world.serving(other)[0]
        for node in (ours, theirs):
            world.fail(node, "XID 79")
        await world.until(lambda: world.fleet().nodes[theirs].gone, within_s=1800)
        assert world.fleet().nodes[ours].retiring is None
        world.crash()
        await world.clock.sleep(3600)
        assert world.fleet().nodes[ours].retiring is None
        assert "ValueError" in (world.fleet().pools[TRAINING].held or "")
        assert world.fleet().pools[other].held is None
        (shown,) = (await world.ask(lambda fleet: fleet.status())).failing
        assert (shown.kind, shown.name, shown.subject) == ("remediator", mine, "pool/training")

        failing = world.fleet().pools[TRAINING]
        corrected = replace(pool_spec(failing), remediation=Remediation())
        await world.ask(lambda fleet: fleet.put_pool(corrected, reason="another remediator"))
        await world.until(lambda: world.fleet().nodes[ours].gone, within_s=1800)
        assert world.fleet().pools[TRAINING].held is None
        assert not (await world.ask(lambda fleet: fleet.status())).failing

    mine = "mine:Broken"
    pools = [a_pool(remediation=Remediation(strategy=mine)), a_pool(other)]
    opinions = Opinions(remediators={mine: Broken()})

    def as_in_production(world: World) -> None:
        world.leadership.strict = False

    simulate(story, seed=1, pools=pools, opinions=opinions, prepare=as_in_production)

"""Bugs of the Go system that this one must never have.

Each test is named after the symptom; the number in its docstring is the reference's.
"""

from datetime import timedelta

import pytest

from navarch.app.control_plane import Opinions
from navarch.core.disruption import GovernorSettings
from navarch.core.errors import NotPossibleError
from navarch.core.health import BOOT, CheckResult, Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import InstanceState, NodeStatus, Phase, instance_state
from navarch.core.recovery import CommandKind, CommandStatus
from navarch.providers.simulated import Habits
from navarch.service.views import pool_spec
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import a_pool

TRAINING = PoolName("training")


async def filled(world: World, size: int = 2) -> list[NodeId]:
    await world.until(lambda: len(world.serving(TRAINING)) == size, within_s=3600)
    return world.serving(TRAINING)


def names(world: World) -> list[str]:
    return [node.id for node in world.nodes(TRAINING)]


def test_a_broken_node_is_replaced_with_the_default_settings() -> None:
    """B1: the observer fired once per transition, the default threshold is two."""

    async def story(world: World) -> None:
        victim, other = await filled(world)
        world.fail(victim, "GPU 3 cannot be read", fatal=False, lasting=False)
        await world.until(lambda: victim not in names(world), within_s=1800)
        assert set(await filled(world)) == {other, "training-2"}

    simulate(story, seed=1, pools=[a_pool()])


def test_a_node_that_falls_silent_is_replaced_with_the_default_settings() -> None:
    """B1, for heartbeats: the monitor reported a silent node only once."""

    async def story(world: World) -> None:
        victim, _ = await filled(world)
        world.silence(victim)
        await world.until(lambda: world.status(victim) is NodeStatus.UNHEALTHY, within_s=150)
        await world.until(lambda: victim not in names(world), within_s=1800)
        await world.converge()

    simulate(story, seed=1, pools=[a_pool()])


def test_a_pool_fills_once_sold_out_machines_come_back() -> None:
    """B2: after every provider had refused once, none was ever tried again."""

    async def story(world: World) -> None:
        await world.clock.sleep(6 * 3600)
        assert world.cloud.machines == {}
        assert [node.phase for node in world.nodes(TRAINING)] == [Phase.REQUESTED] * 2
        world.cloud.habits = Habits()
        await filled(world)

    simulate(story, seed=1, pools=[a_pool()], habits=Habits(stock={}))


def test_a_new_node_never_gets_the_name_of_an_old_one() -> None:
    """B3: names were the pool's size plus one."""

    async def story(world: World) -> None:
        seen = set(await filled(world))
        for _ in range(5):
            victim = world.serving(TRAINING)[0]
            world.fail(victim, "XID 79")
            await world.until(lambda: victim not in names(world), within_s=1800)  # noqa: B023
            now = set(await filled(world))
            assert len(now - seen) == 1
            seen |= now
            await world.clock.sleep(1900)  # So that the next victim is not a replacement on trial.
        assert seen == {f"training-{i}" for i in range(7)}
        await world.ask(lambda fleet: fleet.delete_pool(TRAINING, reason="over"))
        await world.until(lambda: not world.nodes(TRAINING), within_s=1800)
        await world.ask(lambda fleet: fleet.put_pool(pool_spec(a_pool()), reason="again"))
        await world.until(lambda: len(names(world)) == 2, within_s=60)
        assert names(world) == ["training-7", "training-8"]

    unlimited = Opinions(governor=lambda: GovernorSettings(budgets={}))
    simulate(story, seed=1, pools=[a_pool()], opinions=unlimited)


def test_a_terminated_node_is_forgotten() -> None:
    """B4: such nodes stayed in the table, turned unhealthy and counted for ever."""

    async def story(world: World) -> None:
        victim, _ = await filled(world)
        world.fail(victim, "XID 79")
        await world.until(lambda: world.fleet().nodes[victim].gone, within_s=1800)
        await world.clock.sleep(3600)
        assert world.status(victim) is NodeStatus.TERMINATED
        page = await world.ask(lambda fleet: fleet.list_pools())
        assert (page[0].serving, page[0].unhealthy, page[0].leaving) == (2, 0, 0)
        await world.clock.sleep(24 * 3600)
        assert victim not in world.fleet().nodes

    simulate(story, seed=1, pools=[a_pool()])


def test_slow_boots_do_not_buy_a_second_fleet() -> None:
    """B5: only registered machines were counted, so more were bought while they booted."""

    async def story(world: World) -> None:
        await world.clock.sleep(3600)
        assert len(world.cloud.machines) == 2
        await filled(world)
        assert len(world.cloud.machines) == 2

    pool = a_pool(nodes_max=8, boot_deadline=timedelta(hours=2))
    simulate(story, seed=1, pools=[pool], habits=Habits(boot_s=(4000.0, 5000.0)))


def test_a_pool_without_an_autoscaler_is_filled() -> None:
    """B6: without an autoscaling block no machine was ever bought."""

    async def story(world: World) -> None:
        await filled(world)

    simulate(story, seed=1, pools=[a_pool()])


def test_a_restart_loses_no_node_and_buys_no_second_fleet() -> None:
    """B7: all state was in memory, agents never registered again, a second fleet was bought."""

    async def story(world: World) -> None:
        before = await filled(world)
        for _ in range(3):
            world.crash()
            await world.clock.sleep(1800)
        assert world.serving(TRAINING) == before
        assert len(world.cloud.machines) == 2
        assert world.leadership.crashes == 3

    simulate(story, seed=1, pools=[a_pool()])


def test_a_long_outage_of_the_control_plane_makes_no_node_unhealthy() -> None:
    """B7, too: after an hour's outage every node looked silent for an hour."""

    async def story(world: World) -> None:
        before = await filled(world)
        world.partitioned.update(before)
        await world.clock.sleep(60)
        world.crash()
        world.partitioned.clear()
        await world.clock.sleep(600)
        assert world.serving(TRAINING) == before

    simulate(story, seed=1, pools=[a_pool()])


def test_an_agent_restart_does_not_return_a_cordoned_node_to_service() -> None:
    """B8: registering again cleared cordon, drain and unhealthy."""

    async def story(world: World) -> None:
        cordoned, drained = await filled(world)
        await world.ask(lambda fleet: fleet.cordon(cordoned, reason="looking at it"))
        await world.ask(lambda fleet: fleet.drain(drained, reason="looking at it too"))
        for node in (cordoned, drained):
            world.restart_agent(node)
        await world.clock.sleep(600)
        assert world.status(cordoned) is NodeStatus.CORDONED
        assert world.status(drained) is NodeStatus.DRAINING

    simulate(story, seed=1, pools=[a_pool()])


def test_an_agent_restart_does_not_make_a_broken_node_healthy() -> None:
    """B8, for health: a restart of the agent cleared a lasting fault."""

    async def story(world: World) -> None:
        victim, _ = await filled(world)
        world.fail(victim, "XID 79: GPU has fallen off the bus")
        await world.clock.sleep(60)
        world.restart_agent(victim)
        await world.clock.sleep(600)
        assert world.status(victim) is NodeStatus.UNHEALTHY

    simulate(story, seed=1, pools=[a_pool(auto_replace=False)])


def test_a_command_reaches_its_node_when_the_answer_is_lost() -> None:
    """B11: commands were marked as delivered before they were."""

    async def story(world: World) -> None:
        node, _ = await filled(world)
        world.partitioned.add(node)
        command = await world.ask(lambda f: f.issue(node, CommandKind.RUN_DIAGNOSTIC))
        await world.clock.sleep(60)
        world.crash()
        await world.clock.sleep(20)
        assert world.fleet().commands[command.id].status is CommandStatus.PENDING
        world.partitioned.discard(node)
        await world.clock.sleep(120)
        assert world.fleet().commands[command.id].status is CommandStatus.COMPLETED
        assert list(world.agent(node).carried_out) == [command.id]

    simulate(story, seed=1, pools=[a_pool()])


def test_a_command_to_a_silent_agent_expires() -> None:
    """B11: commands stayed pending for ever."""

    async def story(world: World) -> None:
        node, _ = await filled(world)
        command = await world.ask(lambda f: f.issue(node, CommandKind.RUN_DIAGNOSTIC))
        world.silence(node)
        await world.clock.sleep(3700)
        assert world.fleet().commands[command.id].status is CommandStatus.EXPIRED
        await world.clock.sleep(25 * 3600)
        assert command.id not in world.fleet().commands

    simulate(story, seed=1, pools=[a_pool(auto_replace=False)])


def test_terminating_a_node_ends_its_machine_and_nothing_else() -> None:
    """B11: TERMINATE ended only the agent, or the whole control plane around it."""

    async def story(world: World) -> None:
        node, other = await filled(world)
        machine = world.machine(node)
        world.checkers.may_be_retired.add(node)
        await world.ask(lambda fleet: fleet.retire(node, reason="no longer needed"))
        await world.until(lambda: not machine.alive, within_s=1800)
        assert world.leadership.crashes == 0
        assert other in world.serving(TRAINING)
        assert len(await filled(world)) == 2

    simulate(story, seed=1, pools=[a_pool()])


@pytest.mark.parametrize("cause", ["scale down", "hardware"])
def test_work_is_moved_away_before_a_machine_is_taken(cause: str) -> None:
    """B13: machines were terminated without cordon, drain or notice."""

    async def story(world: World) -> None:
        await filled(world)
        if cause == "hardware":
            world.fail(world.serving(TRAINING)[0], "XID 79")
        else:
            await world.ask(lambda fleet: fleet.scale(TRAINING, 1, reason="less work"))
        machines = world.cloud.machines
        await world.until(lambda: not all(m.alive for m in machines.values()), within_s=1800)
        (taken,) = [m for m in world.cloud.machines.values() if not m.alive]
        calls = [what for what, node in world.workloads.calls if node == taken.request.name]
        assert calls[0] in ("cordon", "drain")
        assert "drain" in calls
        assert "is_drained" in calls[calls.index("drain") :]
        assert taken.ended_at is not None
        assert taken.ended_at >= world.workloads.empty_at[NodeId(taken.request.name)]

    simulate(story, seed=1, pools=[a_pool(size=1, nodes_wanted=2, nodes_max=3)])


def test_the_workload_system_is_notified_of_a_broken_node_that_is_not_replaced() -> None:
    """B13: an unhealthy node went on receiving work."""

    async def story(world: World) -> None:
        victim, _ = await filled(world)
        world.fail(victim, "XID 79")
        await world.clock.sleep(120)
        assert victim in world.workloads.cordoned

    simulate(story, seed=1, pools=[a_pool(auto_replace=False)])


def test_an_agent_that_is_quicker_than_the_provider_is_not_counted_as_failed() -> None:
    """B15: a machine that registered before it was recorded turned FAILED after ten minutes."""

    async def story(world: World) -> None:
        await filled(world)
        await world.clock.sleep(3600)
        states = [instance_state(node) for node in world.nodes(TRAINING)]
        assert states == [InstanceState.RUNNING] * 2
        assert len(world.cloud.machines) == 2

    simulate(story, seed=1, pools=[a_pool()], habits=Habits(boot_s=(0.0, 0.1), call_s=(2.0, 9.0)))


def test_a_machine_that_never_registers_stops_costing_money() -> None:
    """B15: failed instances were marked, and paid for ever after."""

    async def story(world: World) -> None:
        await world.until(lambda: len(world.cloud.machines) == 2, within_s=60)
        world.cloud.habits = Habits()
        await world.clock.sleep(1800)
        assert [m.alive for m in world.cloud.machines.values()][:2] == [False, False]
        failed = [n for n in world.fleet().in_pool(TRAINING).values() if n.gone]
        assert [instance_state(node) for node in failed] == [InstanceState.FAILED] * 2
        await filled(world)

    simulate(story, seed=1, pools=[a_pool()], habits=Habits(dead_on_arrival=1.0))


def test_machines_bought_before_a_refusal_are_kept_and_the_rest_is_retried() -> None:
    """B20: a partial scale-up dropped the machines it had bought."""

    async def story(world: World) -> None:
        await world.clock.sleep(600)
        assert len(world.serving(TRAINING)) == 3
        assert len(world.cloud.machines) == 3
        assert [n.phase for n in world.nodes(TRAINING)].count(Phase.REQUESTED) == 2
        world.cloud.habits = Habits()
        await filled(world, 5)
        assert len(world.cloud.machines) == 5

    simulate(story, seed=1, pools=[a_pool(size=5)], habits=Habits(stock={"h100-8x": 3}))


def test_uncordon_lifts_a_cordon_and_does_not_hide_a_broken_gpu() -> None:
    """B22: uncordon could not revive a node as documented, and cordon hid its state."""

    async def story(world: World) -> None:
        victim, _ = await filled(world)
        world.fail(victim, "XID 79: GPU has fallen off the bus")
        await world.clock.sleep(60)
        await world.ask(lambda fleet: fleet.cordon(victim, reason="looking at it"))
        assert world.status(victim) is NodeStatus.UNHEALTHY
        await world.ask(lambda fleet: fleet.uncordon(victim))
        assert world.status(victim) is NodeStatus.UNHEALTHY
        with pytest.raises(NotPossibleError, match="is not cordoned"):
            await world.ask(lambda fleet: fleet.uncordon(victim))

        world.agent(victim).results.pop("xid")
        await world.clock.sleep(120)
        assert world.status(victim) is NodeStatus.UNHEALTHY, "an XID does not go away by itself"
        await world.ask(lambda fleet: fleet.declare_healthy(victim, reason="card was reseated"))
        assert world.status(victim) is NodeStatus.ACTIVE

    simulate(story, seed=1, pools=[a_pool(auto_replace=False)])


def test_a_node_returns_by_itself_when_its_checks_pass_again() -> None:
    """B22: an unhealthy node could only return through cordon and uncordon."""

    async def story(world: World) -> None:
        victim, _ = await filled(world)
        hot = CheckResult(check="gpu", health=Health.UNHEALTHY, reason="97 degrees")
        world.agent(victim).results["gpu"] = hot
        await world.until(lambda: world.status(victim) is NodeStatus.UNHEALTHY, within_s=60)
        world.agent(victim).results["gpu"] = CheckResult(check="gpu", health=Health.HEALTHY)
        await world.until(lambda: world.status(victim) is NodeStatus.ACTIVE, within_s=60)

    simulate(story, seed=1, pools=[a_pool(auto_replace=False)])


def test_a_reboot_that_passes_the_boot_check_clears_what_the_last_boot_left() -> None:
    async def story(world: World) -> None:
        victim, _ = await filled(world)
        world.fail(victim, "XID 79: GPU has fallen off the bus")
        await world.clock.sleep(60)
        world.restart_agent(victim, boot_id="boot-2")
        await world.until(lambda: world.status(victim) is NodeStatus.ACTIVE, within_s=120)
        assert BOOT in world.agent(victim).results

    simulate(story, seed=1, pools=[a_pool(auto_replace=False)])

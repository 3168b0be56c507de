"""The checks between the control plane and the clouds catch forbidden calls."""

import pytest

from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import InstanceId, PoolName
from navarch.core.node import Node
from navarch.core.records import evolve
from navarch.sim.kernel.clock import SeededEntropy
from navarch.sim.world.leader import CrashPoint, LeaderStore, leader_provider
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import a_pool

POOL = PoolName("training")


def test_no_machine_of_a_node_may_be_terminated_whatever_its_label() -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(POOL)) == 2, within_s=1800)
        provider = leader_provider(world.cloud, world.store, CrashPoint())
        mine, other = world.serving(POOL)
        machine = world.machine(mine).id
        with pytest.raises(AssertionError, match=f"{machine} is the machine of {mine}"):
            await provider.terminate(machine)

        # The machine now belongs to a node other than the one in its label.
        fleet = world.fleet()
        swapped = [
            on(fleet.nodes[mine], world.machine(other).id),
            on(fleet.nodes[other], machine),
        ]
        reason = Event(
            at=world.clock.now(), about=about("node", mine), kind="node.changed", reason="a test"
        )
        await world.store.commit(Change(nodes=swapped, events=[reason]), based_on=fleet.revision)
        with pytest.raises(AssertionError, match=f"{machine} is the machine of {other}"):
            await provider.terminate(machine)
        back = [fleet.nodes[mine], fleet.nodes[other]]
        await world.store.commit(
            Change(nodes=back, events=[reason]), based_on=world.fleet().revision
        )

    simulate(story, seed=1, pools=[a_pool(POOL, size=2)])


def test_a_dead_process_receives_no_commits_and_a_live_one_all() -> None:
    async def story(world: World) -> None:
        wires = [CrashPoint(), CrashPoint()]
        received: list[list[int]] = [[], []]
        for wire, revisions in zip(wires, received, strict=True):
            store = LeaderStore(world.store, wire, SeededEntropy("1"))
            store.subscribe(lambda done, to=revisions: to.append(done.after.revision))  # type: ignore[misc]
        await world.until(lambda: len(world.serving(POOL)) == 1, within_s=1800)
        assert received[0] == received[1] != []
        until_then = list(received[0])
        wires[0].kill()
        dead = LeaderStore(world.store, wires[0], SeededEntropy("1"))
        dead.subscribe(lambda done: received[0].append(done.after.revision))
        world.fail(world.serving(POOL)[0], "XID 79")
        await world.until(lambda: len(received[1]) > len(until_then), within_s=1800)
        assert received[0] == until_then

    simulate(story, seed=1, pools=[a_pool(POOL, size=1)])


def test_a_superseded_process_keeps_its_last_view_of_the_fleet() -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(POOL)) == 1, within_s=1800)
        old = world.control
        assert old is not None
        reported: list[int] = []
        old.store.subscribe(lambda done: reported.append(done.after.revision))
        seen = old.store.fleet()
        world.leadership.split_brain_takeover()
        await world.until(lambda: world.control is not old, within_s=10)
        world.fail(world.serving(POOL)[0], "XID 79")
        await world.converge()
        assert world.fleet().revision > seen.revision
        assert old.store.fleet() is seen
        assert reported == []

    simulate(story, seed=1, pools=[a_pool(POOL, size=1)])


def on(node: Node, machine: InstanceId) -> Node:
    assert node.launch is not None
    return evolve(node, launch=evolve(node.launch, instance=machine))

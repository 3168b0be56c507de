"""Nodes probe others that are silent: what the control plane makes of the results."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from navarch.core.disruption import DeferredBy
from navarch.core.ids import NodeId, PoolName
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.core.recovery import RecoveryStep
from navarch.core.witness import Testimony
from navarch.fleet.peers import NAME
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import a_pool

TRAINING = PoolName("training")
PER_RACK, NODES = 6, 18
POOL = evolve(a_pool(size=NODES), silent_after=timedelta(minutes=10))
RACKS: dict[NodeId, str] = {}


def rack_of(node: NodeId) -> str:
    """Return the rack of a node: each has six, in the order in which they boot."""
    return RACKS.setdefault(node, f"r{len(RACKS) // PER_RACK}")


def play(
    story: Callable[[World, list[NodeId]], Awaitable[None]],
    *,
    seed: int = 1,
    pool: Pool = POOL,
    checks: bool = False,
    labelled: bool = True,
) -> World:
    """Play a story with nodes in racks. Unless it `checks`, the cloud has no status checks."""
    RACKS.clear()

    def prepare(world: World) -> None:
        world.allow_probes()
        if labelled:
            world.hosts.labels_for = lambda node: {"rack": rack_of(node)}
        world.cloud.habits = replace(world.cloud.habits, unchecked=not checks)

    async def begin(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == NODES, within_s=3600, step_s=10)
        await story(world, sorted(world.serving(TRAINING), key=rack_of))

    return simulate(begin, seed=seed, computed=True, pools=[pool], prepare=prepare)


def said(world: World, node: NodeId) -> Testimony | None:
    found = world.fleet().nodes[node].testimonies
    return next((each for each in found if each.witness == NAME), None)


def is_kept(world: World, node: NodeId) -> bool:
    known = world.fleet().nodes[node]
    return not known.gone and known.retiring is None


def journal(world: World, node: NodeId) -> list[str]:
    found = [event for _, events in world.recorded for event in events]
    of_node = [event for event in found if event.about == f"node/{node}"]
    return [event.reason for event in of_node if event.kind == "node.testimony"]


@pytest.mark.parametrize("seed", range(3))
def test_a_machine_that_only_the_control_plane_cannot_reach_is_kept(seed: int) -> None:
    async def story(world: World, nodes: list[NodeId]) -> None:
        world.partition(nodes[0])
        await world.until(lambda: bool((x := said(world, nodes[0])) and x.alive), within_s=300)
        await world.clock.sleep(6 * 3600)
        assert is_kept(world, nodes[0])
        held = world.fleet().nodes[nodes[0]].held
        assert held is not None
        assert held.by is DeferredBy.SILENCE
        assert "a program of it responds to other nodes" in held.because
        assert len(journal(world, nodes[0])) == 1, "the journal holds changes only"
        world.partitioned.clear()
        world.hosts.wake(nodes[0])
        await world.until(lambda: said(world, nodes[0]) is None, within_s=120)

    play(story, seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_a_dead_machine_is_proven_dead_once_it_could_have_rebooted(seed: int) -> None:
    async def story(world: World, nodes: list[NodeId]) -> None:
        world.silence(nodes[0])
        await world.until(lambda: said(world, nodes[0]) is not None, within_s=300)
        first = said(world, nodes[0])
        assert first is not None
        assert first.alive is None
        await world.until(lambda: not is_kept(world, nodes[0]), within_s=3600)
        proof = said(world, nodes[0])
        assert proof is None or proof.alive is not True

    play(story, seed=seed)


ALERTED = evolve(POOL, auto_replace=False)


def test_peers_prove_a_death_that_no_other_witness_sees() -> None:
    async def story(world: World, nodes: list[NodeId]) -> None:
        world.silence(nodes[0])
        began = world.clock.now()
        await world.until(
            lambda: (x := said(world, nodes[0])) is not None and x.alive is False, within_s=1800
        )
        assert world.clock.now() >= began + timedelta(minutes=10)
        assert journal(world, nodes[0])[-1].startswith("peers: the machine is dead: no node of")

    play(story, pool=ALERTED)


def proven_within(world: World, nodes: list[NodeId]) -> Callable[[], bool]:
    return lambda: any((x := said(world, n)) is not None and x.alive is False for n in nodes)


async def never_proven(world: World, nodes: list[NodeId]) -> None:
    """Let two hours pass, in which no machine is proven dead."""
    proven = proven_within(world, nodes)
    for _ in range(240):
        await world.clock.sleep(30.0)
        assert not proven(), [said(world, node) for node in nodes]


def test_machines_behind_a_dead_switch_are_not_proven_dead() -> None:
    async def story(world: World, nodes: list[NodeId]) -> None:
        for node in nodes[:PER_RACK]:
            world.isolate(node)
        await never_proven(world, nodes)
        assert all(is_kept(world, node) for node in nodes)
        world.isolated_nodes.clear()
        for node in nodes:
            world.hosts.wake(node)
        await world.clock.sleep(300)

    play(story)


def test_two_machines_of_a_rack_that_are_cut_off_together_are_not_proven_dead() -> None:
    async def story(world: World, nodes: list[NodeId]) -> None:
        for node in nodes[:2]:
            world.isolate(node)
        await never_proven(world, nodes)
        last = said(world, nodes[0])
        assert last is None or "further nodes near it stopped reporting" in last.reason
        world.isolated_nodes.clear()

    play(story, pool=ALERTED)


def test_a_firewall_that_drops_probes_everywhere_proves_nothing() -> None:
    async def story(world: World, nodes: list[NodeId]) -> None:
        world.firewalled.update(nodes)
        world.partition(nodes[0])
        await never_proven(world, nodes)
        last = said(world, nodes[0])
        assert last is not None
        assert "too few of them can connect to others" in last.reason
        world.partitioned.clear()

    play(story, pool=ALERTED)


def test_without_a_known_rack_peers_prove_life_but_not_death() -> None:
    async def story(world: World, nodes: list[NodeId]) -> None:
        world.partition(nodes[0])
        await world.until(lambda: bool((x := said(world, nodes[0])) and x.alive), within_s=300)
        world.silence(nodes[1])
        await never_proven(world, nodes)
        last = said(world, nodes[1])
        assert last is not None
        assert "its rack and its switch are not known" in last.reason
        world.partitioned.clear()

    play(story, pool=ALERTED, labelled=False)


def test_a_machine_that_reboots_is_not_proven_dead() -> None:
    async def story(world: World, nodes: list[NodeId]) -> None:
        world.hosts.reboot_s = (420.0, 420.0)
        for node in nodes[:1]:
            world.hosts.reboot(world.machine(node), RecoveryStep.REBOOT, recovery=None)
        await never_proven(world, nodes)
        assert all(is_kept(world, node) for node in nodes)

    play(story)


def test_a_restart_of_the_control_plane_begins_the_proof_anew() -> None:
    async def story(world: World, nodes: list[NodeId]) -> None:
        world.silence(nodes[0])
        await world.clock.sleep(540)
        world.crash()
        restarted = world.clock.now()
        await world.until(proven_within(world, nodes), within_s=3600)
        assert world.clock.now() >= restarted + timedelta(minutes=10)

    play(story, pool=ALERTED)

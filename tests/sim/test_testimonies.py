"""Witnesses of silent nodes: the control plane asks the cloud and the workload system."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from navarch.control.health.witnesses import AT_ONCE, WitnessController, WorkloadWitness
from navarch.control.runtime.operations import OperationRunner
from navarch.core.errors import TransientError
from navarch.core.fleet import Change
from navarch.core.health import HEARTBEAT, CheckResult, Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import PAST_SILENCES_MAX, Node
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.core.recovery import ALERT_ONLY, Remediation
from navarch.core.witness import Testimony
from navarch.fleet.verdicts import overridden, with_results
from navarch.fleet.witnesses import is_silent
from navarch.ports.witness import Observation
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import run_simulated
from navarch.sim.world.world import World, simulate
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import NOW, ControllerDriver, a_node, a_pool

TRAINING = PoolName("training")
SILENT = CheckResult(check=HEARTBEAT, health=Health.UNHEALTHY, reason="no report")
BACK = CheckResult(check=HEARTBEAT, health=Health.HEALTHY)
OK = Observation(alive=None, reason="running")
WORKS = Observation(alive=True, reason="works")


async def filled(world: World, nodes: int) -> list[NodeId]:
    await world.until(lambda: len(world.serving(TRAINING)) == nodes, within_s=3600, step_s=10.0)
    return [node.id for node in world.nodes(TRAINING)]


def testimonies(world: World, node: NodeId) -> tuple[Testimony, ...]:
    return world.fleet().nodes[node].testimonies


def events(world: World, node: NodeId) -> list[str]:
    about = f"node/{node}"
    found = [event for _, events in world.recorded for event in events if event.about == about]
    return [event.reason for event in found if event.kind == "node.testimony"]


def test_the_last_silences_of_a_node_are_remembered() -> None:
    node = a_node("a")
    for hour in range(PAST_SILENCES_MAX + 1):
        node, _ = with_results(node, [SILENT], now=NOW + timedelta(hours=hour))
        node, _ = with_results(node, [BACK], now=NOW + timedelta(hours=hour, minutes=5))
    hours = range(1, PAST_SILENCES_MAX + 1)
    assert [x.since for x in node.past_silences] == [NOW + timedelta(hours=hour) for hour in hours]
    assert node.past_silences[0].until == NOW + timedelta(hours=1, minutes=5)


@pytest.mark.parametrize("seed", range(5))
def test_the_cloud_proves_a_dead_machine_dead_and_one_behind_a_cut_link_not(seed: int) -> None:
    async def story(world: World) -> None:
        dead, cut, *_ = await filled(world, 8)
        world.silence(dead)
        world.partition(cut)
        died = world.clock.now()
        await world.until(
            lambda: any(t.alive is False for t in testimonies(world, dead)), within_s=300
        )
        (proof,) = testimonies(world, dead)
        assert proof.witness == "provider/sim"
        assert proof.since == died + timedelta(seconds=90)
        assert "status check that failed" in proof.reason
        await world.clock.sleep(120)
        (other,) = testimonies(world, cut)
        assert other.alive is None
        assert other.reason == "sim reports the instance as running"
        world.partitioned.discard(cut)
        world.hosts.wake(cut)
        await world.until(lambda: testimonies(world, cut) == (), within_s=120)
        assert events(world, cut) == [
            "provider/sim: no proof: sim reports the instance as running"
        ], "a testimony is in the journal once"

    simulate(story, seed=seed, computed=True, pools=[a_pool(size=8)])


KEPT = a_pool(size=4, remediation=Remediation(strategy=ALERT_ONLY))
"""A pool in which nothing is done about a dead machine, so that the witnesses go on."""


def test_a_cloud_without_an_answer_proves_nothing() -> None:
    async def story(world: World) -> None:
        dead, *_ = await filled(world, 4)
        world.silence(dead)
        await world.until(
            lambda: any(t.alive is False for t in testimonies(world, dead)), within_s=300
        )
        world.cloud.habits = replace(world.cloud.habits, unchecked=True)
        await world.until(lambda: testimonies(world, dead) == (), within_s=60)
        assert events(world, dead)[-1] == "provider/sim: no testimony any more"

    simulate(story, seed=1, computed=True, pools=[KEPT])


def test_testimonies_survive_a_crash_of_the_control_plane() -> None:
    async def story(world: World) -> None:
        dead, *_ = await filled(world, 4)
        world.silence(dead)
        await world.until(
            lambda: any(t.alive is False for t in testimonies(world, dead)), within_s=300
        )
        before = testimonies(world, dead)
        world.crash()
        await world.clock.sleep(240)
        assert testimonies(world, dead) == before
        assert len(events(world, dead)) <= 3

    simulate(story, seed=1, computed=True, pools=[KEPT])


class Scripted:
    """A witness that does as the test needs."""

    def __init__(self, name: str, answer: Observation | Exception | None) -> None:
        self.name = name
        self.answer = answer
        self.asked: list[int] = []
        self.takes_s = 0.0

    async def observe(self, nodes: Sequence[Node]) -> Mapping[NodeId, Observation]:
        self.asked.append(len(nodes))
        await asyncio.sleep(self.takes_s)
        if isinstance(self.answer, Exception):
            raise self.answer
        return {} if self.answer is None else {node.id: self.answer for node in nodes}


class Room:
    """A store with silent nodes, and the controller."""

    def __init__(
        self, store: MemoryStore, tasks: asyncio.TaskGroup, witnesses: Sequence[Scripted]
    ) -> None:
        self.store, self.clock = store, SimClock()
        operations = OperationRunner(self.clock, SeededEntropy("1"), tasks, strict=True)
        self.liveness = TelemetryTable(self.clock, timeout=timedelta(seconds=90))
        self.controller = WitnessController(self.clock, store, self.liveness, operations, witnesses)
        self.driver = ControllerDriver(self.clock, store, self.controller)

    def node(self, name: str) -> Node:
        return self.store.fleet().nodes[NodeId(name)]

    async def commit(self, *nodes: Node) -> None:
        await self.store.commit(Change(nodes=nodes), based_on=self.store.fleet().revision)

    async def round(self, after_s: float = 0.0) -> None:
        await asyncio.sleep(after_s)
        await self.driver.reconcile()
        await asyncio.sleep(0.001)


def run(
    story: Callable[[Room], Awaitable[None]], *witnesses: Scripted, nodes: Sequence[Node]
) -> None:
    async def main() -> None:
        store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        await store.commit(Change(pools=[a_pool()], nodes=nodes), based_on=0)
        async with asyncio.TaskGroup() as tasks:
            await story(Room(store, tasks, witnesses))

    run_simulated(main())


def silent(name: str) -> Node:
    return with_results(a_node(name), [SILENT], now=NOW)[0]


def test_nothing_is_queued_while_no_node_is_silent() -> None:
    witness = Scripted("w", OK)

    async def story(room: Room) -> None:
        assert room.driver.due_at() is None
        await room.commit(silent("a"))
        await room.round()
        assert room.driver.due_at() is not None
        await room.commit(with_results(room.node("a"), [BACK], now=NOW)[0])
        assert room.node("a").testimonies == ()
        assert room.driver.due_at() is None
        assert witness.asked == [1]

    run(story, witness, nodes=[a_node("a")])


def test_a_node_that_was_silent_before_a_restart_is_asked_about_at_once() -> None:
    witness = Scripted("w", OK)

    async def story(room: Room) -> None:
        await room.round()
        assert [t.reason for t in room.node("a").testimonies] == ["running"]
        assert room.node("b").testimonies == ()

    run(story, witness, nodes=[silent("a"), a_node("b")])


def test_a_witness_that_hangs_or_fails_delays_no_other_and_loses_its_testimony() -> None:
    hangs, works = Scripted("hangs", OK), Scripted("works", WORKS)
    fails, breaks = Scripted("fails", OK), Scripted("breaks", OK)

    async def story(room: Room) -> None:
        await room.round()
        assert len(room.node("a").testimonies) == 4
        hangs.takes_s = 1e6
        fails.answer, breaks.answer = TransientError("no"), ValueError("a bug")
        await room.round(30.0)
        assert [t.witness for t in room.node("a").testimonies] == ["hangs", "works"]
        await room.round(30.0)
        await room.round(30.0)
        assert [t.witness for t in room.node("a").testimonies] == ["works"]
        assert len(works.asked) == 4

    run(story, hangs, works, fails, breaks, nodes=[silent("a")])


def test_many_nodes_are_asked_about_in_batches() -> None:
    witness = Scripted("w", OK)

    async def story(room: Room) -> None:
        await room.round()
        assert witness.asked == [AT_ONCE, AT_ONCE, 50]
        assert all(node.testimonies for node in room.store.fleet().nodes.values())
        revision = room.store.fleet().revision
        await room.round(30.0)
        assert len(witness.asked) == 6
        assert room.store.fleet().revision == revision, "only changes are committed"

    run(story, witness, nodes=[silent(f"n-{number}") for number in range(250)])


def test_a_testimony_that_arrives_after_the_node_has_reported_is_dropped() -> None:
    witness = Scripted("w", WORKS)
    witness.takes_s = 10.0

    async def story(room: Room) -> None:
        await room.round()
        await room.commit(with_results(room.node("a"), [BACK], now=NOW)[0])
        await asyncio.sleep(20.0)
        assert room.node("a").testimonies == ()

    run(story, witness, nodes=[silent("a")])


def test_a_node_that_falls_silent_while_a_witness_is_asked_is_next() -> None:
    witness = Scripted("w", OK)
    witness.takes_s = 10.0

    async def story(room: Room) -> None:
        await room.round()
        await room.commit(silent("b"))
        await room.round(1.0)
        assert witness.asked == [1]
        await asyncio.sleep(20.0)
        assert room.node("b").testimonies != ()

    run(story, witness, nodes=[silent("a"), a_node("b")])


class Slurm:
    """A workload system with agents of its own."""

    def __init__(self, alive: Mapping[str, bool | None]) -> None:
        self._alive = alive

    async def node_alive(self, node: NodeId) -> bool | None:
        return self._alive.get(node)


def test_a_workload_system_proves_life_and_never_death() -> None:
    async def story() -> None:
        witness = WorkloadWitness("slurm", Slurm({"a": True, "b": False}))
        found = await witness.observe([silent("a"), silent("b"), silent("c")])
        assert {name: each.alive for name, each in found.items()} == {"a": True, "b": None}

    run_simulated(story())


def test_an_operator_who_overrides_the_health_ends_the_testimonies() -> None:
    node = silent("a")
    assert is_silent(node)
    testimony = Testimony(witness="w", alive=False, reason="dead", since=NOW)
    after, _ = overridden(evolve(node, testimonies=(testimony,)), "I looked", now=NOW)
    assert after.testimonies == ()

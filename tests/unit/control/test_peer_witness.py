"""The commands for probes: who receives them, and what an agent cannot do with them."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
import pytest

from navarch.control.health.peers import PeerWitness
from navarch.core.errors import InvalidError, NotFoundError
from navarch.core.fleet import Change
from navarch.core.health import HEARTBEAT, CheckResult, Health
from navarch.core.ids import CommandId, NodeId
from navarch.core.node import Node
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.core.recovery import Command, CommandKind
from navarch.core.witness import PeerProbes
from navarch.fleet.peers import NAME
from navarch.fleet.verdicts import with_results
from navarch.fleet.witnesses import testify
from navarch.ports.witness import Observation
from navarch.service.agents import AgentService
from navarch.service.fleet import FleetService
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import run_simulated
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import NOW, a_node, a_pool, indexed

INTERVAL = timedelta(seconds=30)
SILENT = CheckResult(check=HEARTBEAT, health=Health.UNHEALTHY, reason="no report")
X = NodeId("x")


class Room:
    """A store with a rack of nodes and another, the witness, and the service of agents."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        self.liveness = TelemetryTable(self.clock, timeout=3 * INTERVAL)
        self.settings = PeerProbes()
        self.issued: list[NodeId] = []
        index = indexed(self.store)
        self.witness = PeerWitness(
            self.clock,
            SeededEntropy("1"),
            self.store,
            index,
            self.liveness,
            settings=lambda: self.settings,
            heartbeat_interval=lambda: INTERVAL,
            on_issue=self.issued.append,
        )
        self.agents = AgentService(
            self.clock, self.store, index, self.liveness, probes=self.witness
        )
        self.fleet = FleetService(self.clock, SeededEntropy("2"), self.store, self.liveness)

    async def fill(self) -> None:
        nodes = [node(f"near-{n}", 10 + n) for n in range(4)]
        nodes += [node(f"far-{n}", 20 + n, rack="r2") for n in range(3)]
        target = with_results(node("x", 1), [SILENT], now=NOW)[0]
        change = Change(pools=[a_pool(size=8)], nodes=[*nodes, target])
        await self.store.commit(change, based_on=0)
        self.beat()

    def beat(self, *silent: str) -> None:
        for name in self.store.fleet().nodes:
            if name != X and name not in silent:
                self.liveness.record_heartbeat(name, None)

    async def observe(self) -> Observation | None:
        found = await self.witness.observe([self.store.fleet().nodes[X]])
        return found.get(X)

    def commands(self) -> list[Command]:
        names = list(self.store.fleet().nodes)
        return [command for name in names for command in self.agents.heartbeat(name)]

    async def answer(self, *, target: str = "no_response", control: str = "connected") -> None:
        for command in self.commands():
            addresses = command.parameters["addresses"].split()
            found = {each: target if each == "10.0.0.1" else control for each in addresses}
            await self.finish(command, found)

    async def finish(self, command: Command, found: object, *, succeeded: bool = True) -> None:
        result = found if isinstance(found, str) else msgspec.json.encode(found).decode()
        await self.agents.finish(command.node, command.id, succeeded=succeeded, result=result)


def node(name: str, number: int, rack: str = "r1") -> Node:
    made = a_node(name, labels={"rack": rack}, probes=True, address=f"10.0.0.{number}")
    return evolve(made, health=Health.HEALTHY)


def run(story: Callable[[Room], Awaitable[None]]) -> None:
    async def main() -> None:
        room = Room()
        await room.fill()
        await story(room)

    run_simulated(main())


def test_a_probe_is_delivered_with_heartbeats_until_its_result_arrives() -> None:
    async def story(room: Room) -> None:
        revision = room.store.fleet().revision
        assert await room.observe() is None
        commands = room.commands()
        assert len(commands) == 5
        assert {command.node for command in commands} == set(room.issued)
        assert {command.kind for command in commands} == {CommandKind.PROBE}
        assert room.commands() == commands
        await room.answer()
        assert room.commands() == []
        found = await room.observe()
        assert found is not None
        assert "no node of rack sim/region-1/r1 or elsewhere can connect" in found.reason
        assert room.store.fleet().revision == revision, "nothing is stored"

    run(story)


def test_only_addresses_of_nodes_are_probed() -> None:
    async def story(room: Room) -> None:
        await room.observe()
        known = {each.address for each in room.store.fleet().nodes.values()}
        asked = {a for c in room.commands() for a in c.parameters["addresses"].split()}
        assert asked <= known

    run(story)


def test_a_result_that_is_reported_twice_counts_once() -> None:
    async def story(room: Room) -> None:
        await room.observe()
        (first, *_) = room.commands()
        await room.finish(first, {"10.0.0.1": "no_response"})
        await room.finish(first, {"10.0.0.1": "connected"})
        await room.answer()
        found = await room.observe()
        assert found is not None
        assert found.alive is None

    run(story)


def test_an_agent_cannot_finish_the_probe_of_another() -> None:
    async def story(room: Room) -> None:
        await room.observe()
        (first, *_) = room.commands()
        with pytest.raises(NotFoundError):
            await room.agents.finish(X, first.id, succeeded=True, result='{"10.0.0.1":"connected"}')
        with pytest.raises(NotFoundError):
            await room.agents.finish(first.node, CommandId("probe-0"), succeeded=True)

    run(story)


@pytest.mark.parametrize(
    ("result", "succeeded"),
    [
        ("", True),
        ("[]", True),
        ('{"10.0.0.1":"dead"}', True),
        ('{"10.0.0.1":1}', True),
        ("[" * 10_000, True),
        ('{"10.0.0.1":"connected"}' + " " * 20_000, True),
        ('{"10.0.0.1":"connected"}', False),
        ('{"10.9.9.9":"connected"}', True),
    ],
)
def test_a_result_that_makes_no_sense_proves_nothing(result: str, succeeded: bool) -> None:
    async def story(room: Room) -> None:
        await room.observe()
        for command in room.commands():
            await room.finish(command, result, succeeded=succeeded)
        found = await room.observe()
        assert found is not None
        assert (found.alive, found.reason) == (
            None,
            "no other node has returned the result of a probe",
        )

    run(story)


def test_one_agent_that_lies_proves_no_death() -> None:
    async def story(room: Room) -> None:
        await room.observe()
        (liar, *_) = [x for x in room.commands() if x.node.startswith("near")]
        found = dict.fromkeys(liar.parameters["addresses"].split(), "connected")
        await room.finish(liar, {**found, "10.0.0.1": "no_response"})
        await room.clock.sleep(120.0)
        room.beat()
        observed = await room.observe()
        assert observed is not None
        assert observed.alive is None
        assert "too few of them" in observed.reason

    run(story)


def test_the_result_of_a_node_that_is_silent_by_now_does_not_count() -> None:
    async def story(room: Room) -> None:
        await room.observe()
        (first, *_) = room.commands()
        await room.finish(first, {"10.0.0.1": "connected"})
        await room.clock.sleep(100.0)
        room.beat(first.node)
        found = await room.observe()
        assert found is not None
        assert found.reason == "no other node has returned the result of a probe"

    run(story)


def test_a_round_without_results_ends_and_the_next_asks_others() -> None:
    async def story(room: Room) -> None:
        await room.observe()
        before = {command.node for command in room.commands()}
        await room.clock.sleep(80.0)
        room.beat()
        await room.observe()
        after = {command.node for command in room.commands()}
        assert {NodeId(f"near-{n}") for n in range(4)} - before <= after

    run(story)


def test_no_probe_is_issued_while_they_are_disabled() -> None:
    async def story(room: Room) -> None:
        room.settings = PeerProbes(enabled=False)
        assert await room.observe() is None
        assert room.commands() == []

    run(story)


def test_a_result_of_an_earlier_silence_does_not_count() -> None:
    async def story(room: Room) -> None:
        await room.observe()
        await room.answer(target="connected")
        back = CheckResult(check=HEARTBEAT, health=Health.HEALTHY)
        x = room.store.fleet().nodes[X]
        x = with_results(x, [back], now=NOW)[0]
        x = with_results(x, [SILENT], now=NOW + timedelta(hours=1))[0]
        await room.store.commit(Change(nodes=[x]), based_on=room.store.fleet().revision)
        assert await room.observe() is None

    run(story)


def test_a_pause_of_the_control_plane_starts_the_patience_anew() -> None:
    async def story(room: Room) -> None:
        await room.observe()
        await room.answer()
        first = await room.observe()
        assert first is not None
        said = testify(NAME, first, before=None, last_report=None, now=room.clock.now())
        x = evolve(room.store.fleet().nodes[X], testimonies=(said,))
        await room.store.commit(Change(nodes=[x]), based_on=room.store.fleet().revision)
        await room.answer()
        await room.clock.sleep(3600.0)
        room.beat()
        later = await room.observe()
        assert later is not None
        assert (later.alive, later.since) == (None, room.clock.now())

    run(story)


def test_operators_issue_no_probes() -> None:
    async def story(room: Room) -> None:
        with pytest.raises(InvalidError, match="only the control plane itself"):
            await room.fleet.issue(NodeId("near-1"), CommandKind.PROBE, {"addresses": "10.0.0.9"})

    run(story)

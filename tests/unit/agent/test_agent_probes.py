"""Probes: the agent connects to other nodes on request, and bounds what it is asked for."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import msgspec
import pytest
from test_agent_life import NODE, MetricsLink
from tests.support.fake_control_plane import FakeControlPlane

from navarch.agent.agent import Agent
from navarch.agent.probes import ADDRESSES_MAX, run_probe
from navarch.agent.settings import Identity
from navarch.agent.spool.command_journal import FILE
from navarch.agent.spool.disk import MemoryDisk
from navarch.core.errors import InvalidError, UnreachableError
from navarch.core.recovery import CommandKind
from navarch.core.witness import Reach
from navarch.gpus.simulated import SimulatedGpus
from navarch.hosts.prober import TcpProber
from navarch.hosts.simulated import SimulatedHost
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop, run_simulated

PROBE = {"addresses": "10.0.0.1 10.0.0.2", "port": "22", "within_s": "5"}


@dataclass
class Network:
    """Connects to the machines that the test wants."""

    found: Mapping[str, Reach] = field(default_factory=dict)
    asked: list[tuple[str, int, float]] = field(default_factory=list)

    async def connect(self, address: str, port: int, *, within_s: float) -> Reach:
        self.asked.append((address, port, within_s))
        return self.found.get(address, Reach.NO_RESPONSE)


@dataclass
class Harness:
    clock: SimClock
    plane: FakeControlPlane
    disk: MemoryDisk
    network: Network


def run(story: Callable[[Harness], Awaitable[None]], *, probes: bool = True) -> None:
    async def main() -> None:
        harness = Harness(SimClock(), FakeControlPlane(), MemoryDisk(), Network())
        agent = Agent(
            harness.clock,
            SeededEntropy("agent"),
            MetricsLink(harness.clock, lambda: harness.plane),
            SimulatedGpus(harness.clock, SeededEntropy("g"), count=1, seed="m"),
            SimulatedHost(harness.clock, SeededEntropy("h"), NODE),
            harness.disk,
            identity=Identity(node=NODE),
            checks=(),
            offload=InlineOffload(),
            probe_offload=InlineOffload(),
            prober=harness.network if probes else None,
        )
        running = asyncio.ensure_future(agent.run())
        await harness.clock.sleep(15.0)
        await story(harness)
        agent.stop()
        await running

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_the_agent_connects_to_each_address_and_reports_what_it_found() -> None:
    async def story(harness: Harness) -> None:
        assert harness.plane.registrations[-1].inventory.commands == ("probe",)
        harness.network.found = {"10.0.0.1": Reach.CONNECTED}
        harness.plane.command(
            CommandKind.PROBE, name="p1", at=harness.clock.now(), parameters=PROBE
        )
        await harness.clock.sleep(30.0)
        assert harness.network.asked == [("10.0.0.1", 22, 5.0), ("10.0.0.2", 22, 5.0)]
        ((name, succeeded, result),) = harness.plane.finished
        assert (name, succeeded) == ("p1", True)
        found = msgspec.json.decode(result)
        assert found == {"10.0.0.1": "connected", "10.0.0.2": "no_response"}

    run(story)


def test_probes_are_not_written_to_disk_and_crowd_out_no_command() -> None:
    async def story(harness: Harness) -> None:
        for number in range(3):
            harness.plane.command(
                CommandKind.PROBE, name=f"p{number}", at=harness.clock.now(), parameters=PROBE
            )
            await harness.clock.sleep(30.0)
        assert len(harness.plane.finished) == 3
        assert b"p0" not in (harness.disk.read(FILE) or b"")
        harness.plane.command(CommandKind.CORDON, name="c", at=harness.clock.now())
        await harness.clock.sleep(30.0)
        assert harness.plane.finished[-1][0] == "c"

    run(story)


def test_a_result_that_is_lost_is_found_again_with_the_next_heartbeat() -> None:
    async def story(harness: Harness) -> None:
        def fault(method: str) -> None:
            if method == "finish":
                raise UnreachableError("lost")

        harness.plane.fault = fault
        harness.plane.command(
            CommandKind.PROBE, name="p1", at=harness.clock.now(), parameters=PROBE
        )
        await harness.clock.sleep(12.0)
        harness.plane.fault = lambda _: None
        await harness.clock.sleep(30.0)
        assert [name for name, _, _ in harness.plane.finished] == ["p1"]

    run(story)


def test_an_agent_that_cannot_probe_does_not_offer_it() -> None:
    async def story(harness: Harness) -> None:
        assert harness.plane.registrations[-1].inventory.commands == ()
        harness.plane.command(
            CommandKind.PROBE, name="p1", at=harness.clock.now(), parameters=PROBE
        )
        await harness.clock.sleep(30.0)
        assert harness.plane.finished == []

    run(story, probes=False)


@pytest.mark.parametrize(
    "change",
    [
        {"addresses": "example.org"},
        {"addresses": " ".join(["10.0.0.1"] * (ADDRESSES_MAX + 1))},
        {"port": "0"},
        {"port": "65536"},
        {"port": ""},
        {"within_s": "nan"},
        {"within_s": "31"},
        {"within_s": "0"},
    ],
)
def test_a_probe_out_of_bounds_is_refused(change: Mapping[str, str]) -> None:
    network = Network()

    async def story() -> None:
        with pytest.raises(InvalidError):
            await run_probe({**PROBE, **change}, network)

    run_simulated(story())
    assert network.asked == []


def test_a_program_that_greets_an_open_port_and_a_closed_one_are_distinguished() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-test\r\n")
        await writer.drain()
        writer.close()

    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            assert await TcpProber().connect("127.0.0.1", port, within_s=0.1) is Reach.CONNECTED
            greeter = await asyncio.start_server(greet, sock=server.dup())
            async with greeter:
                assert await TcpProber().connect("127.0.0.1", port, within_s=5.0) is Reach.GREETED
        assert await TcpProber().connect("127.0.0.1", port, within_s=5.0) is Reach.REFUSED

    asyncio.run(story())


def test_a_machine_that_drops_packets_does_not_respond() -> None:
    async def story() -> None:
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            port = full.getsockname()[1]
            # The kernel drops the first packet of each connection beyond the backlog.
            held = [socket.socket() for _ in range(4)]
            for each in held:
                each.setblocking(False)
                each.connect_ex(("127.0.0.1", port))
            found = await TcpProber().connect("127.0.0.1", port, within_s=0.1)
            for each in held:
                each.close()
            assert found is Reach.NO_RESPONSE

    asyncio.run(story())


def test_an_error_of_the_own_machine_proves_nothing() -> None:
    async def story() -> None:
        # The kernel refuses to route a connection to a broadcast address.
        assert await TcpProber().connect("255.255.255.255", 22, within_s=1.0) is Reach.FAILED

    asyncio.run(story())

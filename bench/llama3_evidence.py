"""The findings of an agent's checks on a machine with each of the published faults.

A fault is injected into simulated GPUs, or into the simulated machine around them; the evidence is
the result of the real checks.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId
from navarch.core.instance import Gpu
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.diagnostics import PatternsCheck
from navarch.health.checks.standard import standard_checks
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.checks import (
    BurnFigures,
    CopyFigures,
    HealthCheck,
    MachineView,
    PatternFigures,
    ToolRun,
)
from navarch.ports.gpu import GpuHealth
from navarch.ports.host import Filesystem, MemoryErrors, NetworkPort
from navarch.sim.world.world import World

PORTS = tuple(NetworkPort(name=f"mlx5_{i}/1", state="ACTIVE", physical="LinkUp") for i in range(8))


class Cards(SimulatedGpus):
    """Simulated GPUs in slots that can lose lanes."""

    lanes: dict[int, int]

    def health(self, gpu: Gpu) -> GpuHealth:
        """Return the readings of a GPU and of its slot."""
        width = self.lanes.get(gpu.index, 16)
        return replace(super().health(gpu), pcie_width=width, pcie_width_max=16)


class Trials:
    """Tests of GPUs with memory that changes words, if configured."""

    def __init__(self) -> None:
        self.wrong: dict[int, int] = {}

    def touch(self, gpu: Gpu) -> None:
        """Do nothing."""

    def burn(self, gpu: Gpu, *, seconds: float) -> BurnFigures:
        """Return that every product was right."""
        del gpu
        return BurnFigures(tflops=700.0, seconds=seconds, products=1000, wrong=0)

    def patterns(self, gpu: Gpu, *, share: float) -> PatternFigures:
        """Return how many words came back changed."""
        wrong = self.wrong.get(gpu.index, 0)
        tested = int(share * gpu.memory_bytes)
        return PatternFigures(tested_bytes=tested, patterns=5, wrong=wrong)

    def copies(self, gpus: Sequence[Gpu]) -> Sequence[CopyFigures]:
        """Return nothing."""
        return [CopyFigures() for _ in gpus]

    def tool(self, name: str, *arguments: str, within_s: float) -> ToolRun:
        """Return that no tool complained."""
        del name, arguments, within_s
        return ToolRun(code=0, output="")


class Rig:
    """The hardware under one simulated agent."""

    def __init__(self, world: World, node: NodeId) -> None:
        agent = world.agent(node)
        self.gpus = Cards(world.clock, agent.entropy, count=8, seed=agent.machine.id)
        self.gpus.lanes = {}
        self.host = SimulatedHost(
            world.clock,
            agent.entropy,
            node,
            ports=PORTS,
            disks=(Filesystem(path="/data", kind="xfs", wanted_writable=True),),
            gpus_on_bus=8,
            errors=MemoryErrors(),
        )
        self.trials = Trials()
        self._world = world

    def after(self, fault: "Fault", chance: Random) -> list[CheckResult]:
        """Return the results of all checks after the fault."""
        fault(self, chance)
        view = MachineView(
            now=self._world.clock.now(),
            gpus=self.gpus,
            host=self.host,
            gpus_expected=8,
            diagnostics=self.trials,
        )
        checks: list[HealthCheck] = [*standard_checks(), PatternsCheck()]
        found = [result for check in checks for result in check.run(view)]
        told = [r for r in found if r.lasting or r.health in (Health.DEGRADED, Health.UNHEALTHY)]
        assert told, f"no check sees {fault.__name__}"
        return told


Fault = Callable[[Rig, Random], None]


def off_the_bus(rig: Rig, chance: Random) -> None:
    """XID 79: the GPU no longer answers."""
    rig.gpus.xid(79, index=chance.randrange(8), text="GPU has fallen off the bus.")


def uncontained(rig: Rig, chance: Random) -> None:
    """XID 95: an error in memory that could not be kept to the program it hit."""
    index = chance.randrange(8)
    rig.gpus.xid(95, index=index, text="Uncontained: FBHUB. RST: Yes, D-RST: No")
    rig.gpus.corrupt(1, index=index)


def double_bit(rig: Rig, chance: Random) -> None:
    """XID 48: memory that error correction could not save."""
    index = chance.randrange(8)
    rig.gpus.xid(48, index=index)
    rig.gpus.corrupt(1, index=index)


def firmware(rig: Rig, chance: Random) -> None:
    """XID 119: the GPU's own processor does not answer."""
    rig.gpus.xid(
        119, index=chance.randrange(8), text="Timeout after 6s of waiting for RPC response"
    )


def wild_pointer(rig: Rig, chance: Random) -> None:
    """XID 31: a program touched memory that is not its own."""
    _crash(rig, chance, 31, "Ch 00000008, MMU Fault: ENGINE GRAPHICS faulted @ 0x7f_00000000")


def bad_kernel(rig: Rig, chance: Random) -> None:
    """XID 13: a kernel of some library went wrong."""
    _crash(rig, chance, 13, "Graphics Exception: ESR 0x504730=0x20009")


def stopped(rig: Rig, chance: Random) -> None:
    """XID 43: the watchdog gave up, and the processes were stopped."""
    _crash(rig, chance, 43, "Ch 00000008")


def killed(rig: Rig, chance: Random) -> None:
    """XID 45: what a killed process leaves behind, on nodes where nothing else happened."""
    _crash(rig, chance, 45, "Ch 00000008")


def cable(rig: Rig, chance: Random) -> None:
    """One port is down, its sisters are up."""
    _port_down(rig, chance, "Polling")


def adapter(rig: Rig, chance: Random) -> None:
    """A network adapter has switched its port off."""
    _port_down(rig, chance, "Disabled")


def wrong_words(rig: Rig, chance: Random) -> None:
    """Memory changes what is written to it, and no counter moves."""
    rig.trials.wrong[chance.randrange(8)] = chance.randrange(1, 9)


def heat(rig: Rig, chance: Random) -> None:
    """A GPU at the temperature at which it slows itself down."""
    rig.gpus.heat(93.0, index=chance.randrange(8))


def read_only(rig: Rig, chance: Random) -> None:
    """The kernel gave a disk up."""
    del chance
    rig.host.disks = (replace(rig.host.disks[0], read_only=True),)


def lanes(rig: Rig, chance: Random) -> None:
    """A slot has lost lanes."""
    rig.gpus.lanes[chance.randrange(8)] = 4


def main_memory(rig: Rig, chance: Random) -> None:
    """A memory controller counts an error that it could not correct."""
    del chance
    rig.host.errors = MemoryErrors(uncorrected=1)


def _crash(rig: Rig, chance: Random, code: int, text: str) -> None:
    pid = chance.randrange(2, 4_000_000)
    rig.gpus.xid(code, index=chance.randrange(8), text=text, pid=pid, process="python3")


def _port_down(rig: Rig, chance: Random, physical: str) -> None:
    ports = list(PORTS)
    place = chance.randrange(len(ports))
    ports[place] = replace(ports[place], state="DOWN", physical=physical, link_downed=1)
    rig.host.ports = tuple(ports)

"""An agent on a simulated machine: registers, beats, reports, obeys."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from navarch.core.command import Command, CommandKind
from navarch.core.errors import NavarchError, NotFoundError, UnreachableError
from navarch.core.health import BOOT, CheckResult, Health, HealthReport
from navarch.core.ids import CommandId, NodeId
from navarch.core.inventory import Gpu, Inventory
from navarch.core.metrics import GpuMetrics, NodeMetrics
from navarch.ports.agents import AgentApi, Registration
from navarch.ports.clock import Clock, Entropy
from navarch.providers.simulated import Machine
from navarch.sim.incarnation import Crash

T = TypeVar("T")


@dataclass(slots=True)
class SimAgent:
    """Runs on one machine from its boot to its end.

    `api` returns the control plane as it can be reached now, or raises
    UnreachableError; `results` is what the checks would find.
    """

    clock: Clock
    entropy: Entropy
    machine: Machine
    api: Callable[[], AgentApi]
    loss: Callable[[], float] = lambda: 0.0
    """The share of messages that the network loses, repeats or brings back too late."""
    interval_s: float = 30.0
    gpus: int = 8
    load: Callable[[], float] | None = None
    """How busy its GPUs are, in percent; one that is not known is not sent."""
    boot_id: str = "boot-1"
    hung: bool = False
    """A hung agent does nothing at all, for ever."""
    results: dict[str, CheckResult] = field(default_factory=dict)
    reports: int = 0
    carried_out: dict[CommandId, CommandKind] = field(default_factory=dict)

    @property
    def node(self) -> NodeId:
        """The name it was given with its user data."""
        return NodeId(self.machine.request.name)

    async def run(self) -> None:
        """Live until cancelled."""
        registered = False
        while True:
            if not self.hung:
                try:
                    if not registered:
                        await self._register()
                        registered = True
                    await self._beat()
                except NotFoundError:
                    registered = False
                except (NavarchError, Crash):
                    pass  # Unreachable, or died while it served us: the next beat tries again.
            await self.clock.sleep(self.interval_s * self.entropy.uniform(0.95, 1.05))

    async def _register(self) -> None:
        gpus = tuple(
            Gpu(index=i, uuid=f"GPU-{self.machine.id}-{i}", name="NVIDIA H100 80GB HBM3")
            for i in range(self.gpus)
        )
        inventory = Inventory(gpus=gpus, hostname=self.node)
        registration = Registration(
            node=self.node,
            token=self.machine.request.token,
            boot_id=self.boot_id,
            inventory=inventory,
        )
        await self._send(lambda: self.api().register(registration))
        self.results.setdefault(BOOT, CheckResult(check=BOOT, health=Health.HEALTHY))

    async def _beat(self) -> None:
        commands = await self._send(self._heartbeat)
        self.reports += 1
        report = HealthReport(
            results=tuple(self.results.values()), stream=self.machine.id, number=self.reports
        )
        await self._send(lambda: self.api().report_health(self.node, report))
        for command in commands:
            # Delivered at least once, carried out once: the agent remembers.
            self.carried_out.setdefault(command.id, command.kind)
            name = command.id
            await self._send(lambda name=name: self._finish(name))  # type: ignore[misc]

    async def _heartbeat(self) -> Sequence[Command]:
        if self.load is None:
            return self.api().heartbeat(self.node)
        gpu = GpuMetrics(utilization_pct=self.load())
        return self.api().heartbeat(self.node, NodeMetrics(gpus=(gpu,) * self.gpus))

    async def _finish(self, command: CommandId) -> None:
        await self.api().finish(self.node, command, succeeded=True, result="done")

    async def _send(self, call: Callable[[], Awaitable[T]]) -> T:
        """Send one message over a network that may lose it, repeat it, or lose the answer."""
        await self.clock.sleep(self.entropy.uniform(0.001, 0.05))
        fate = self.entropy.uniform(0, 3) / max(self.loss(), 1e-9)
        if fate < 1:
            raise UnreachableError("the message was lost")
        answer = await call()
        if fate < 2:
            raise UnreachableError("the answer was lost")
        if fate < 3:
            answer = await call()
        await self.clock.sleep(self.entropy.uniform(0.001, 0.05))
        return answer

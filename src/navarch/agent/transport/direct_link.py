"""The control plane in the same process: for simulations, where there are no wires."""

from collections.abc import Callable, Sequence

from navarch.core.command import Command
from navarch.core.evidence import Evidence
from navarch.core.health import HealthReport
from navarch.core.ids import CommandId, NodeId
from navarch.core.metrics import NodeMetrics, Sample
from navarch.core.node import NodeStatus
from navarch.ports.agents import AgentApi, Registration, Welcome
from navarch.ports.clock import Clock
from navarch.ports.evidence import EvidenceDesk


class DirectLink:
    """Calls the control plane directly, after as long as `wire_s` says a message takes.

    `api` returns the control plane as it can be reached now, or raises UnreachableError.
    """

    def __init__(
        self,
        clock: Clock,
        api: Callable[[], AgentApi],
        *,
        wire_s: Callable[[], float] = lambda: 0.0,
        evidence: EvidenceDesk | None = None,
    ) -> None:
        self._clock = clock
        self._api = api
        self._wire_s = wire_s
        self._evidence = evidence

    async def register(self, registration: Registration) -> Welcome:
        """Introduce the machine."""
        return await (await self._reach()).register(registration)

    async def heartbeat(
        self, node: NodeId, metrics: NodeMetrics | None = None, *, sequence: int = 0
    ) -> Sequence[Command]:
        """Say that `node` is alive."""
        del sequence
        return (await self._reach()).heartbeat(node, metrics)

    async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
        """Say what the checks found."""
        return await (await self._reach()).report_health(node, report)

    async def report_metrics(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Hand over readings from before."""
        api = await self._reach()
        await api.report_metrics(node, samples)

    async def report_evidence(self, evidence: Evidence) -> None:
        """Hand over what was true, where there is somebody to keep it."""
        await self._reach()
        if self._evidence is not None:
            await self._evidence.report_evidence(evidence)

    async def acknowledge(self, node: NodeId, command: CommandId) -> None:
        """Say that a command has arrived."""
        await (await self._reach()).acknowledge(node, command)

    async def finish(
        self, node: NodeId, command: CommandId, *, succeeded: bool, result: str = ""
    ) -> None:
        """Say how a command ended."""
        await (await self._reach()).finish(node, command, succeeded=succeeded, result=result)

    async def close(self) -> None:
        """Do nothing."""

    async def _reach(self) -> AgentApi:
        await self._clock.sleep(self._wire_s())
        return self._api()

"""The control plane in the same process, for simulations."""

from collections.abc import Callable, Sequence

from navarch.core.health import HealthReport
from navarch.core.ids import CommandId, NodeId
from navarch.core.incident import Evidence
from navarch.core.instance import NodeMetrics, Sample
from navarch.core.node import NodeStatus
from navarch.core.recovery import Command
from navarch.ports.agents import AgentApi, Registration, Welcome
from navarch.ports.clock import Clock
from navarch.ports.evidence import EvidenceDesk


class DirectLink:
    """A Link that calls the control plane directly, after a latency of `wire_s()` seconds.

    `api` returns the current control plane or raises UnreachableError.
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
        """Register the machine."""
        return await (await self._reach()).register(registration)

    async def heartbeat(
        self, node: NodeId, metrics: NodeMetrics | None = None, *, sequence: int = 0
    ) -> Sequence[Command]:
        """Send a heartbeat; return the pending commands."""
        del sequence
        return (await self._reach()).heartbeat(node, metrics)

    async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
        """Send a health report; return the node's status."""
        return await (await self._reach()).report_health(node, report)

    async def report_metrics(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Send buffered metrics."""
        api = await self._reach()
        await api.report_metrics(node, samples)

    async def report_evidence(self, evidence: Evidence) -> None:
        """Send an evidence bundle; drop it if there is no archive."""
        await self._reach()
        if self._evidence is not None:
            await self._evidence.report_evidence(evidence)

    async def acknowledge(self, node: NodeId, command: CommandId) -> None:
        """Acknowledge a command."""
        await (await self._reach()).acknowledge(node, command)

    async def finish(
        self, node: NodeId, command: CommandId, *, succeeded: bool, result: str = ""
    ) -> None:
        """Report the result of a command."""
        await (await self._reach()).finish(node, command, succeeded=succeeded, result=result)

    async def close(self) -> None:
        """Do nothing."""

    async def _reach(self) -> AgentApi:
        await self._clock.sleep(self._wire_s())
        return self._api()

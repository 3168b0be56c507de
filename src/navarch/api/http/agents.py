"""The JSON API for agents. Their heartbeats may be JSON, too, but are better packed."""

from collections.abc import Iterable
from dataclasses import dataclass

from navarch.api.http.exchange import Request
from navarch.api.http.route import Route
from navarch.core.command import Command
from navarch.core.health import HealthReport
from navarch.core.ids import CommandId, NodeId
from navarch.core.metrics import NodeMetrics
from navarch.core.node import NodeStatus
from navarch.ports.agents import AgentApi, Registration, Welcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A heartbeat."""

    node: NodeId
    metrics: NodeMetrics | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What an agent has been asked and has not acknowledged."""

    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What the checks found."""

    node: NodeId
    report: HealthReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is thought of the node now."""

    status: NodeStatus | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A command has arrived."""

    node: NodeId
    command: CommandId


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A command has been carried out, or could not be."""

    node: NodeId
    command: CommandId
    succeeded: bool
    result: str = ""


class AgentRoutes:
    """Answers agents."""

    def __init__(self, agents: AgentApi) -> None:
        self._agents = agents

    def routes(self) -> Iterable[Route]:
        """Yield every operation."""
        for name, summary, handle, body, reply in (
            ("register", "Introduce a machine", self._register, Registration, Welcome),
            ("heartbeat", "Say that a node is alive", self._heartbeat, Beat, Orders),
            ("health", "Say what the checks found", self._health, Findings, Standing),
            ("acknowledge", "Say that a command has arrived", self._acknowledge, Arrival, None),
            ("finish", "Say how a command ended", self._finish, Outcome, None),
        ):
            yield Route(
                method="POST",
                path=f"/v1/agent/{name}",
                summary=summary,
                handle=handle,
                body=body,
                reply=reply,
            )

    async def _register(self, request: Request) -> Welcome:
        return await self._agents.register(request.json(Registration))

    async def _heartbeat(self, request: Request) -> Orders:
        beat = request.json(Beat)
        return Orders(commands=tuple(self._agents.heartbeat(beat.node, beat.metrics)))

    async def _health(self, request: Request) -> Standing:
        findings = request.json(Findings)
        return Standing(status=await self._agents.report_health(findings.node, findings.report))

    async def _acknowledge(self, request: Request) -> None:
        arrival = request.json(Arrival)
        await self._agents.acknowledge(arrival.node, arrival.command)

    async def _finish(self, request: Request) -> None:
        outcome = request.json(Outcome)
        await self._agents.finish(
            outcome.node, outcome.command, succeeded=outcome.succeeded, result=outcome.result
        )

"""The JSON API for agents. Heartbeats may be JSON, but are usually packed."""

import msgspec

from navarch.api.auth import AGENTS, TOKEN
from navarch.api.http.exchange import Refusal, Request
from navarch.api.http.route import Route, post
from navarch.api.limits import check_limits
from navarch.api.readings import NAN, load_heartbeat
from navarch.core.errors import InvalidError
from navarch.core.ids import NodeId
from navarch.core.records import evolve
from navarch.ports.agents import AgentApi, Joins, Registration, Welcome
from navarch.wire.bodies import Arrival, Beat, Findings, LateReadings, Orders, Outcome, Standing


class AgentRoutes:
    """The routes of AgentApi."""

    def __init__(self, agents: AgentApi, joins: Joins | None = None, *, link: str = "") -> None:
        """`link` names the listener, for the nodes that register at it."""
        self._link = link
        self._agents = agents
        self._joins = joins

    def routes(self) -> list[Route]:
        """Return every operation."""
        return [
            post(f"/v1/agent/{name}", summary, handle, reply, body)
            for name, summary, handle, body, reply in (
                ("register", "Register a machine", self._register, Registration, Welcome),
                ("heartbeat", "Send a heartbeat", self._heartbeat, Beat, Orders),
                ("health", "Report check results", self._health, Findings, Standing),
                ("metrics", "Upload buffered readings", self._metrics, LateReadings, None),
                ("acknowledge", "Acknowledge a command", self._acknowledge, Arrival, None),
                ("finish", "Report the result of a command", self._finish, Outcome, None),
            )
        ]

    async def _register(self, request: Request) -> Welcome:
        registration = request.json(Registration)
        check_own(request, registration.node)
        if self._joins is not None and request.identity and TOKEN in request.identity.extra:
            joiner = self._joins.recognize(request.identity.extra[TOKEN])
            await self._joins.bind(joiner)
            # The token proves its launch, whichever launch the registration names.
            registration = evolve(registration, token=joiner.launch)
        return await self._agents.register(registration, link=self._link)

    async def _heartbeat(self, request: Request) -> Orders:
        beat = _read_heartbeat(request)
        check_own(request, beat.node)
        return Orders(commands=tuple(self._agents.heartbeat(beat.node, beat.metrics)))

    async def _health(self, request: Request) -> Standing:
        findings = request.json(Findings)
        check_own(request, findings.node)
        return Standing(status=await self._agents.report_health(findings.node, findings.report))

    async def _metrics(self, request: Request) -> None:
        late = request.json(LateReadings)
        check_own(request, late.node)
        await self._agents.report_metrics(late.node, late.samples)

    async def _acknowledge(self, request: Request) -> None:
        arrival = request.json(Arrival)
        check_own(request, arrival.node)
        await self._agents.acknowledge(arrival.node, arrival.command)

    async def _finish(self, request: Request) -> None:
        outcome = request.json(Outcome)
        check_own(request, outcome.node)
        await self._agents.finish(
            outcome.node, outcome.command, succeeded=outcome.succeeded, result=outcome.result
        )


def _read_heartbeat(request: Request) -> Beat:
    try:
        return request.json(Beat)
    except InvalidError:
        # Only if a reading is at fault does the heartbeat count without it.
        try:
            beat = msgspec.convert(load_heartbeat(request.body, NAN), Beat)
        except (ValueError, RecursionError):
            beat = None
        if beat is None:
            raise
        check_limits(beat.node, "$.node")
        return beat


def check_own(request: Request, node: NodeId) -> None:
    """Raise Refusal if the machine reports another node."""
    caller = request.identity
    if caller is not None and AGENTS in caller.groups and caller.extra.get("node") != node:
        raise Refusal(403, "permission_denied", f"this join token is not for node {node}")

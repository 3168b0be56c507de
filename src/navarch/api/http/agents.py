"""The JSON API for agents. Heartbeats may be JSON, but are usually packed."""

from navarch.api.http.exchange import Refusal, Request
from navarch.api.http.route import Route, post
from navarch.core.boot_report import BootReport
from navarch.core.errors import InvalidError
from navarch.ports.agents import AgentApi, BootDesk, Registration, Welcome
from navarch.wire.bodies import Arrival, Beat, Findings, LateReadings, Orders, Outcome, Standing

BOOT_PATH = "/v1/agent/boot"


class AgentRoutes:
    """The routes of AgentApi."""

    def __init__(self, agents: AgentApi, *, link: str = "") -> None:
        """`link` names the listener, for the nodes that register at it."""
        self._link = link
        self._agents = agents

    def routes(self) -> list[Route]:
        """Return every operation."""
        return [
            post(
                "register",
                *_at("register", "Register a machine"),
                self._register,
                Welcome,
                Registration,
            ),
            post("heartbeat", *_at("heartbeat", "Send a heartbeat"), self._heartbeat, Orders, Beat),
            post(
                "heartbeat",
                *_at("heartbeats", "Send the heartbeats of many nodes"),
                self._batch,
                None,
            ),
            post(
                "report_health",
                *_at("health", "Report check results"),
                self._health,
                Standing,
                Findings,
            ),
            post(
                "report_metrics",
                *_at("metrics", "Upload buffered readings"),
                self._metrics,
                None,
                LateReadings,
            ),
            post(
                "acknowledge",
                *_at("acknowledge", "Acknowledge a command"),
                self._acknowledge,
                None,
                Arrival,
            ),
            post(
                "finish",
                *_at("finish", "Report the result of a command"),
                self._finish,
                None,
                Outcome,
            ),
        ]

    async def _register(self, request: Request) -> Welcome:
        registration = request.json(Registration)
        return await self._agents.register(registration, link=self._link)

    async def _heartbeat(self, request: Request) -> Orders:
        """Refuse a request that `HeartbeatCalls` does not take for a heartbeat."""
        request.json(Beat)
        raise InvalidError("send a heartbeat as application/json or application/proto")

    async def _batch(self, _request: Request) -> None:
        """Refuse a request that `HeartbeatCalls` does not take for a batch."""
        text = "send a navarch.v1.HeartbeatBatchRequest as application/proto"
        raise Refusal(415, "invalid_argument", text)

    async def _health(self, request: Request) -> Standing:
        findings = request.json(Findings)
        return Standing(status=await self._agents.report_health(findings.node, findings.report))

    async def _metrics(self, request: Request) -> None:
        late = request.json(LateReadings)
        await self._agents.report_metrics(late.node, late.samples)

    async def _acknowledge(self, request: Request) -> None:
        arrival = request.json(Arrival)
        await self._agents.acknowledge(arrival.node, arrival.command)

    async def _finish(self, request: Request) -> None:
        outcome = request.json(Outcome)
        await self._agents.finish(
            outcome.node, outcome.command, succeeded=outcome.succeeded, result=outcome.result
        )


def boot_routes(boots: BootDesk) -> list[Route]:
    """Return the route on which boot scripts report."""

    async def report(request: Request) -> None:
        await boots.report_boot(request.json(BootReport))

    summary = "Report a step of a machine that boots"
    return [post("report_boot", BOOT_PATH, summary, report, None, BootReport)]


def _at(name: str, summary: str) -> tuple[str, str]:
    return f"/v1/agent/{name}", summary

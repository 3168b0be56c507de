"""A fake control plane for agents: it accepts everything and records it.

Tests use it instead of the real one, in process or over HTTP.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec
from tests.support.agent_messages import heartbeat_reply_bytes, parse_heartbeat

from navarch.agent.transport.http_link import PROTOBUF
from navarch.core.errors import (
    ConflictError,
    InvalidError,
    NavarchError,
    NotFoundError,
    NotPossibleError,
    UnreachableError,
)
from navarch.core.health import CheckResult, HealthReport
from navarch.core.ids import CommandId, NodeId
from navarch.core.instance import NodeMetrics, Sample
from navarch.core.node import NodeStatus
from navarch.core.recovery import Command, CommandKind
from navarch.ports.agents import Registration, UnauthorizedError, Welcome


@dataclass(slots=True)
class FakeControlPlane:
    """The recorded messages of agents, and the commands for them."""

    heartbeat_interval: timedelta = timedelta(seconds=10)
    health_check_interval: timedelta = timedelta(seconds=20)
    status: NodeStatus | None = NodeStatus.ACTIVE
    known: dict[NodeId, Registration] = field(default_factory=dict)
    registrations: list[Registration] = field(default_factory=list)
    beats: list[tuple[NodeId, NodeMetrics | None]] = field(default_factory=list)
    reports: list[HealthReport] = field(default_factory=list)
    """Reports without duplicates; a repeated report is only counted."""
    repeats: int = 0
    samples: list[Sample] = field(default_factory=list)
    waiting: dict[CommandId, Command] = field(default_factory=dict)
    acknowledged: list[CommandId] = field(default_factory=list)
    finished: list[tuple[CommandId, bool, str]] = field(default_factory=list)
    takes_first_reports: bool = True
    """True if it accepts a report with the registration; older control planes do not."""
    fault: Callable[[str], None] = lambda _method: None
    """Called with the name of each method; its exception is raised by the method."""
    _streams: dict[str, int] = field(default_factory=dict)

    def command(
        self,
        kind: CommandKind,
        *,
        name: str,
        at: datetime,
        parameters: Mapping[str, str] | None = None,
    ) -> Command:
        """Queue a command for every agent."""
        command = Command(
            id=CommandId(name),
            node=NodeId(""),
            kind=kind,
            issued_at=at,
            expires_at=at + timedelta(hours=1),
            parameters=parameters or {},
        )
        self.waiting[command.id] = command
        return command

    def results(self) -> list[CheckResult]:
        """Return all check results, in order."""
        return [result for report in self.reports for result in report.results]

    async def register(self, registration: Registration, *, link: str = "") -> Welcome:
        """Record a registration."""
        del link
        self.fault("register")
        if not registration.node:
            raise InvalidError("node_id is required")
        self.registrations.append(registration)
        self.known[registration.node] = registration
        report = registration.report if self.takes_first_reports else None
        if report is not None:
            self._note(report)
        return Welcome(
            node=registration.node,
            heartbeat_interval=self.heartbeat_interval,
            health_check_interval=self.health_check_interval,
            status=(self.status or "") if report is not None else "",
        )

    def heartbeat(self, node: NodeId, metrics: NodeMetrics | None = None) -> Sequence[Command]:
        """Record a heartbeat and return the pending commands."""
        self.fault("heartbeat")
        self._check(node)
        self.beats.append((node, metrics))
        return list(self.waiting.values())

    def pending(self, node: NodeId) -> Sequence[Command]:
        """Return the pending commands."""
        self._check(node)
        return list(self.waiting.values())

    def resolve(self, name: NodeId) -> NodeId:
        """Return the name: no agent goes by the name of its machine."""
        return name

    async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
        """Record a report, unless it is a duplicate."""
        self.fault("report_health")
        self._check(node)
        self._note(report)
        return self.status

    def _note(self, report: HealthReport) -> None:
        if report.number and report.number <= self._streams.get(report.stream, 0):
            self.repeats += 1
        else:
            self._streams[report.stream] = report.number
            self.reports.append(report)

    async def report_metrics(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Record samples."""
        self.fault("report_metrics")
        self._check(node)
        self.samples.extend(samples)

    async def acknowledge(self, node: NodeId, command: CommandId) -> None:
        """Stop delivering a command."""
        self.fault("acknowledge")
        self._check(node)
        if self.waiting.pop(command, None) is None:
            raise NotFoundError(f"command not found: {command}")
        self.acknowledged.append(command)

    async def finish(
        self, node: NodeId, command: CommandId, *, succeeded: bool, result: str = ""
    ) -> None:
        """Record the result of a command."""
        self.fault("finish")
        self._check(node)
        self.waiting.pop(command, None)
        self.finished.append((command, succeeded, result))

    def _check(self, node: NodeId) -> None:
        if node not in self.known:
            raise NotFoundError(f"node not found: {node}")


class FakeControlPlaneServer:
    """A FakeControlPlane over HTTP, with the paths, codes and bodies of the real one."""

    def __init__(self, plane: FakeControlPlane, *, token: str | None = None) -> None:
        self.plane = plane
        self.token = token
        self.connections = 0
        self.requests = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def port(self) -> int:
        """The server's port."""
        assert self._server is not None, "not started"
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """The address for agents."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self, port: int = 0) -> None:
        """Listen on the loopback interface."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)

    async def stop(self) -> None:
        """Close every connection and stop listening."""
        if self._server is not None:
            self._server.close()
            self.hang_up()
            await self._server.wait_closed()

    def hang_up(self) -> None:
        """Close every connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                path = head.split(" ")[1]
                headers = dict(_headers(head))
                body = await reader.readexactly(int(headers["content-length"]))
                self.requests += 1
                status, answer = await self._answer(path, headers, body)
                writer.write(
                    f"HTTP/1.1 {status} -\r\nContent-Length: {len(answer)}\r\n\r\n".encode()
                    + answer
                )
                await writer.drain()
        self._writers.discard(writer)
        writer.close()

    async def _answer(
        self, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, bytes]:
        if self.token is not None and headers.get("authorization") != f"Bearer {self.token}":
            return 401, _refusal("unauthenticated", "invalid bearer token")
        try:
            return 200, await self._call(path.removeprefix("/v1/agent/"), headers, body)
        except NavarchError as error:
            status, code = _REFUSALS.get(type(error), (500, "internal"))
            return status, _refusal(code, str(error))
        except msgspec.DecodeError as error:
            return 400, _refusal("invalid_argument", str(error))

    async def _call(self, method: str, headers: Mapping[str, str], body: bytes) -> bytes:
        plane = self.plane
        if method == "heartbeat":
            if headers.get("content-type") != PROTOBUF:
                raise InvalidError("a heartbeat is packed protobuf")
            node, _, metrics = parse_heartbeat(body)
            return heartbeat_reply_bytes(plane.heartbeat(node, metrics))
        if method == "register":
            registration = msgspec.json.decode(body, type=Registration)
            return msgspec.json.encode(await plane.register(registration))
        if method == "health":
            health = msgspec.json.decode(body, type=_Health)
            status = await plane.report_health(health.node, health.report)
            return msgspec.json.encode({"status": status})
        if method == "metrics":
            late = msgspec.json.decode(body, type=_Metrics)
            await plane.report_metrics(late.node, late.samples)
        elif method in ("acknowledge", "finish"):
            done = msgspec.json.decode(body, type=_Done)
            if method == "acknowledge":
                await plane.acknowledge(done.node, done.command)
            else:
                await plane.finish(
                    done.node, done.command, succeeded=done.succeeded, result=done.result
                )
        else:
            raise NotFoundError(f"no such path: {method}")
        return b"{}"


class _Health(msgspec.Struct):
    node: NodeId
    report: HealthReport


class _Metrics(msgspec.Struct):
    node: NodeId
    samples: list[Sample]


class _Done(msgspec.Struct):
    node: NodeId
    command: CommandId
    succeeded: bool = False
    result: str = ""


_REFUSALS: Mapping[type[NavarchError], tuple[int, str]] = {
    InvalidError: (400, "invalid_argument"),
    UnauthorizedError: (401, "unauthenticated"),
    NotFoundError: (404, "not_found"),
    NotPossibleError: (409, "failed_precondition"),
    ConflictError: (409, "aborted"),
    UnreachableError: (503, "unavailable"),
}


def _refusal(code: str, message: str) -> bytes:
    return msgspec.json.encode({"code": code, "message": message})


def _headers(head: str) -> Iterator[tuple[str, str]]:
    for line in head.split("\r\n")[1:]:
        name, _, value = line.partition(":")
        yield name.lower(), value.strip()

"""The two ports of a server, and what answers at them."""

import asyncio
import socket
from dataclasses import dataclass
from datetime import timedelta

from navarch.api.grpc.server import GrpcAnswers, GrpcPort, LocalCalls
from navarch.api.http.front import HttpAnswers, HttpFront
from navarch.api.http.server import HttpServer, listen
from navarch.api.tls import ServerTls
from navarch.app.servers import Address, in_use
from navarch.ports.clock import Clock

ANSWER_WITHIN_S = 5.0
"""How long requests may take to end when the server stops."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What answers at both ports: this process, or the leader through it."""

    http: HttpAnswers
    grpc: GrpcAnswers


class Ports:
    """Both ports. What answers at them may change; they stay open."""

    def __init__(
        self,
        clock: Clock,
        answers: Answers,
        listener: socket.socket,
        grpc: Address,
        *,
        heartbeat_interval: timedelta,
        tls: ServerTls | None,
    ) -> None:
        """Raise StartError if the address for gRPC is not available."""
        self.answers = answers
        self._front = HttpFront(answers.http)
        self._http = HttpServer(
            clock,
            self._front,
            listener=listener,
            heartbeat_interval=heartbeat_interval,
            tls=None if tls is None else tls.context,
        )
        self._grpc = open_grpc(answers.grpc, grpc, tls)
        self.grpc = Address(host=grpc.host, port=self._grpc.port)
        """The address for gRPC, with its real port."""

    async def run(self) -> None:
        """Serve until cancelled, then finish the requests in progress."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._http.run())
            tasks.create_task(self._grpc.run())

    @property
    def started(self) -> bool:
        """Whether connections are accepted."""
        return self._http.started

    def become(self, answers: Answers) -> None:
        """Answer what arrives from now on in another way; end the streams of before."""
        self.answers = answers
        self._grpc.become(answers.grpc)
        self._front.become(answers.http)

    async def drain(self) -> None:
        """Close each connection with its next reply, and report to probes that this server ends."""
        self._front.draining = True
        await self._grpc.drain()

    async def ended(self, before: Answers) -> None:
        """Return when the requests that `before` had received are answered, or take too long."""
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await self._front.ended(before.http)
                if isinstance(before.grpc, LocalCalls):
                    await before.grpc.ended()
        except TimeoutError:
            pass


def open_grpc(answers: GrpcAnswers, address: Address, tls: ServerTls | None) -> GrpcPort:
    """Return the gRPC server, or raise StartError if its address is not available."""
    if address.port:
        # gRPC does not report why a port is not available; a plain socket does.
        try:
            listen(address.host, address.port).close()
        except OSError as error:
            raise in_use(address, "grpc-address", error.strerror or str(error)) from error
    try:
        return GrpcPort(answers, address=str(address), tls=tls)
    except RuntimeError as error:
        raise in_use(address, "grpc-address", "the address is not available") from error

"""Forwards gRPC calls to the leader as bytes, with their metadata, deadlines and status codes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import structlog

from navarch.api.forward.leaders import (
    FORWARDED_TWICE,
    HOLD_S,
    UNKNOWN,
    Held,
    Leader,
    Leaders,
    NotForwardedError,
)
from navarch.api.forward.link import LeaderLink
from navarch.api.forward.origin import GRPC_METHOD, HEADER, Origin, Seal
from navarch.api.grpc.agents import SERVICE as AGENT_SERVICE
from navarch.api.grpc.guard import ANSWERED, Context, Handler
from navarch.api.grpc.server import NOT_LEADER, OPERATIONS, OPTIONS
from navarch.api.logins import peer_name
from navarch.api.tls import grpc_certificate_of
from navarch.core.access import OPERATIONS as ROLES
from navarch.core.access import Role
from navarch.wire.fleet import FLEET_CALLS

log = structlog.get_logger(__name__)

PROTOCOL = "grpc"
REPLACED = "the server that leads has changed"
CONNECT_S = 2.0
STREAMS = frozenset(
    {f"/{AGENT_SERVICE}/Attach", *(x.path for x in FLEET_CALLS.values() if x.streams)}
)
"""The calls of this version with more than one message; of other services, all may have several."""

Metadata = Sequence[tuple[str, str | bytes]]


class ForwardedCalls:
    """The calls of a replica that does not lead."""

    def __init__(self, leaders: Leaders, seal: Seal, link: LeaderLink, held: Held) -> None:
        """`link` is how the leader's certificate is read."""
        self._leaders = leaders
        self._seal = seal
        self._link = link
        self._held = held
        self._channel: grpc.aio.Channel | None = None
        self._leader: Leader | None = None
        self._connecting = asyncio.Lock()
        self._before: grpc.aio.Channel | None = None

    def close(self) -> None:
        """Do nothing: the leader ends what it has begun to answer."""

    async def disconnect(self) -> None:
        """Close the connection to the leader."""
        for channel in (self._before, self._channel):
            if channel is not None:
                await channel.close()

    async def handler(self, _continuation: Any, details: Any) -> Handler:  # noqa: ANN401
        """Return what forwards a call."""
        method: str = details.method
        if method in OPERATIONS and method not in STREAMS:

            async def call(body: bytes, context: Context) -> bytes:
                return await self._call(method, body, context)

            return grpc.unary_unary_rpc_method_handler(call)

        async def stream(bodies: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
            async for each in self._stream(method, bodies, context):
                yield each

        return grpc.stream_stream_rpc_method_handler(stream)

    async def _call(self, method: str, body: bytes, context: Context) -> bytes:
        await self._refuse_forwarded(method, context)
        try:
            with self._held.hold(peer_name(context.peer()), len(body)):
                return await self._until_answered(method, body, context)
        except NotForwardedError as error:
            self._held.count(PROTOCOL, "refused")
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
            raise AssertionError from error

    async def _until_answered(self, method: str, body: bytes, context: Context) -> bytes:
        loop = asyncio.get_running_loop()
        left_s: float | None = context.time_remaining()  # None without a deadline
        deadline = loop.time() + min(HOLD_S, HOLD_S if left_s is None else left_s)
        leader: Leader | None = None
        while True:
            leader = await self._leaders.next(deadline, leader)
            channel = await self._connect(leader)
            if channel is None:
                continue
            call: Any = channel.unary_unary(method)
            sent = call(
                body, timeout=context.time_remaining(), metadata=self._metadata(method, context)
            )
            found = await _reply(sent, self._leaders.end_of(leader))
            if isinstance(found, bytes):
                self._held.count(PROTOCOL, "answered")
                return found
            trailing = dict(found.trailing_metadata() or ())
            if NOT_LEADER[0] in trailing:
                continue
            if ANSWERED[0] in trailing or found.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                self._held.count(PROTOCOL, "answered")
                await context.abort(found.code(), found.details() or "")
            if not is_repeatable(method):
                self._held.count(PROTOCOL, "unknown")
                text = f"{UNKNOWN} ({found.details()})"
                await context.abort(grpc.StatusCode.UNAVAILABLE, text)

    async def _stream(
        self, method: str, bodies: AsyncIterator[bytes], context: Context
    ) -> AsyncIterator[bytes]:
        await self._refuse_forwarded(method, context)
        try:
            leader, channel = await self._ready(asyncio.get_running_loop().time() + HOLD_S)
        except NotForwardedError as error:
            self._held.count(PROTOCOL, "refused")
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
            raise AssertionError from error
        self._held.count(PROTOCOL, "answered")
        make: Any = channel.stream_stream(method)
        call = make(
            bodies, timeout=context.time_remaining(), metadata=self._metadata(method, context)
        )
        end = self._leaders.end_of(leader)

        def cut(_: asyncio.Future[None]) -> None:
            call.cancel()

        end.add_done_callback(cut)
        details: str | None
        try:
            async for each in call:
                yield each
            # Without a message, an error of the leader is found here.
            code, details = await call.code(), await call.details()
        except grpc.aio.AioRpcError as error:
            code, details = error.code(), error.details()
        except asyncio.CancelledError:
            if not _is_replaced(end):
                raise
            code, details = grpc.StatusCode.UNAVAILABLE, REPLACED
        finally:
            end.remove_done_callback(cut)
            call.cancel()
        if code is not grpc.StatusCode.OK:
            await context.abort(code, details or "")

    async def _ready(self, deadline: float) -> tuple[Leader, grpc.aio.Channel]:
        leader: Leader | None = None
        while True:
            leader = await self._leaders.next(deadline, leader)
            channel = await self._connect(leader)
            if channel is not None:
                return leader, channel

    async def _refuse_forwarded(self, method: str, context: Context) -> None:
        """Refuse what another replica has forwarded: nothing is forwarded twice."""
        for name, value in context.invocation_metadata() or ():
            shown = value if isinstance(value, bytes) else value.encode()
            is_ours = self._seal.is_ours(GRPC_METHOD, method.encode(), shown)
            if name == HEADER.decode() and is_ours:
                await context.abort(
                    grpc.StatusCode.UNAVAILABLE, FORWARDED_TWICE, trailing_metadata=(NOT_LEADER,)
                )

    def _metadata(self, method: str, context: Context) -> Metadata:
        origin = Origin(
            peer=context.peer(), certificate=grpc_certificate_of(context.auth_context())
        )
        signed = self._seal.sign(GRPC_METHOD, method.encode(), origin).decode()
        return [
            *((k, v) for k, v in context.invocation_metadata() or () if _is_forwarded(k)),
            (HEADER.decode(), signed),
        ]

    async def _connect(self, leader: Leader) -> grpc.aio.Channel | None:
        """Return a channel that is connected to the leader, None if it does not accept one."""
        async with self._connecting:
            if leader != self._leader or self._channel is None:
                before = self._channel
                try:
                    self._channel, self._leader = await self._open(leader), leader
                except NotForwardedError as error:
                    log.info("replica.not_connected", leader=leader.grpc, reason=str(error))
                    return None
                # The calls of the leader before may still be answered.
                before, self._before = self._before, before
                if before is not None:
                    await before.close()
            channel = self._channel
        try:
            async with asyncio.timeout(CONNECT_S):
                await _connected(channel)
        except TimeoutError:
            return None
        return channel

    async def _open(self, leader: Leader) -> grpc.aio.Channel:
        options: list[tuple[str, str | int]] = [*OPTIONS, ("grpc.enable_retries", 0), *_RECONNECT]
        if not leader.certificate:
            return grpc.aio.insecure_channel(leader.grpc, options=options)
        names = await self._link.certificate_names(leader)
        credentials = grpc.ssl_channel_credentials(
            leader.certificate.encode(), *self._link.key_pair()
        )
        # The name was verified: it is in the certificate that is pinned.
        if names:
            options.append(("grpc.ssl_target_name_override", names[0]))
        return grpc.aio.secure_channel(leader.grpc, credentials, options=options)


_RECONNECT = (
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 250),
    # Channels to one address share connections otherwise, also of a leader that is gone.
    ("grpc.use_local_subchannel_pool", 1),
)


async def _connected(channel: grpc.aio.Channel) -> None:
    """Return once the channel is connected; no call is sent on one that is not."""
    while (state := channel.get_state(try_to_connect=True)) != grpc.ChannelConnectivity.READY:
        await channel.wait_for_state_change(state)


async def _reply(call: Any, end: asyncio.Future[None]) -> bytes | grpc.aio.AioRpcError:  # noqa: ANN401
    """Return the reply or the error; the call ends when another server leads."""

    def cut(_: asyncio.Future[None]) -> None:
        call.cancel()

    end.add_done_callback(cut)
    try:
        reply: bytes = await call
    except grpc.aio.AioRpcError as error:
        return error
    except asyncio.CancelledError:
        if not _is_replaced(end):
            raise
        nothing = grpc.aio.Metadata()
        return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, REPLACED)
    finally:
        end.remove_done_callback(cut)
    return reply


def _is_replaced(end: asyncio.Future[None]) -> bool:
    """Return whether a call was cancelled because another server leads, not with its task."""
    task = asyncio.current_task()
    return end.done() and not (task and task.cancelling())


def is_repeatable(method: str) -> bool:
    """Return whether a call may be carried out twice: nothing more would change."""
    roles = ROLES.get(OPERATIONS.get(method, ""), frozenset())
    return Role.VIEWER in roles or Role.AGENT in roles


def _is_forwarded(name: str) -> bool:
    own = ("user-agent", "content-type", "te", HEADER.decode())
    return not name.startswith(("grpc-", ":")) and name not in own

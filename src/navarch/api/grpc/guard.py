"""Authentication, time limits and errors of every gRPC call."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, TypeAlias

import grpc
import structlog
from google.protobuf.message import DecodeError

from navarch.api.auth import AGENTS, UNAUTHORIZED, Authenticator, headers_in, identify
from navarch.api.calls import GRPC, ApiMetrics
from navarch.api.logins import TOO_MANY, FailedLogins
from navarch.core.errors import InvalidError, UnauthenticatedError
from navarch.wire.fleet import INTERNAL, UNAUTHENTICATED, ErrorCode, code_of, text_of

log = structlog.get_logger(__name__)

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

STATUSES = {status.value[0]: status for status in grpc.StatusCode}
OPEN_SERVICES = ("/grpc.health.v1.Health/",)
"""Services that need no token, like /healthz."""
AGENT_CALLS = "/navarch.v1.AgentService/"
"""The only calls that a join token allows."""
ANSWER_WITHIN = timedelta(seconds=30)


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Rejects unauthenticated calls before their handler runs."""

    def __init__(self, auth: Authenticator, logins: FailedLogins) -> None:
        self._auth = auth
        self._logins = logins

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:  # noqa: ANN401
        """Check the metadata of a call."""
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method.startswith(OPEN_SERVICES):
            return handler
        metadata = handler_call_details.invocation_metadata
        try:
            identity = identify(self._auth, headers_of(metadata))
        except UnauthenticatedError:
            return _rejecting(handler, partial(self._refuse_login, metadata))
        if AGENTS in identity.groups and not handler_call_details.method.startswith(AGENT_CALLS):
            return _rejecting(handler, _refuse_join_token)
        return handler

    async def _refuse_login(self, metadata: Any, context: Context) -> None:  # noqa: ANN401
        has_credentials = any(name == "authorization" for name, _ in metadata or ())
        if await self._logins.note(GRPC, context.peer(), wrong=has_credentials):
            await context.abort(STATUSES[UNAUTHENTICATED.grpc], UNAUTHORIZED)
        await context.abort(grpc.StatusCode.UNAVAILABLE, TOO_MANY)


async def _refuse_join_token(context: Context) -> None:
    denied = grpc.StatusCode.PERMISSION_DENIED
    await context.abort(denied, "a join token is for agents; use your own")


def headers_of(metadata: Any) -> Mapping[bytes, bytes]:  # noqa: ANN401 - pairs of names and values
    """Return the metadata of a call in the form of HTTP headers."""
    return headers_in(
        (name.encode(), value if isinstance(value, bytes) else value.encode())
        for name, value in metadata or ()
    )


def _rejecting(handler: Handler, abort: Callable[[Context], Awaitable[None]]) -> Handler:
    """Return a handler of the same shape that rejects the call."""

    async def refuse(_request: object, context: Context) -> None:
        await abort(context)

    async def refuse_stream(_request: object, context: Context) -> AsyncIterator[bytes]:
        await refuse(_request, context)
        yield b""

    build: Any = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[handler.request_streaming, handler.response_streaming]
    refused: Handler = build(refuse_stream if handler.response_streaming else refuse)
    return refused


def refusal(call: str, error: Exception) -> tuple[ErrorCode, str]:
    """Return the code and the text for `error`; log internal errors."""
    if isinstance(error, DecodeError):
        error = InvalidError("the message cannot be read")
    code = code_of(error)
    if code is INTERNAL:
        log.error("grpc.failed", call=call, exc_info=error)
    return code, text_of(error, code)


def guarded(
    call: str, answer: Callable[[bytes, Context], Awaitable[bytes]], metrics: ApiMetrics
) -> Handler:
    """Return a handler for a unary call on encoded messages."""
    method = call.removeprefix("/")
    metrics.begin(GRPC, method)

    async def handle(body: bytes, context: Context) -> bytes:
        try:
            with metrics.measure(GRPC, method):
                async with asyncio.timeout(ANSWER_WITHIN.total_seconds()):
                    return await answer(body, context)
        except Exception as error:  # noqa: BLE001 - reported, and logged if internal
            code, text = refusal(call, error)
        await context.abort(STATUSES[code.grpc], text)
        raise AssertionError

    return grpc.unary_unary_rpc_method_handler(handle)


def guarded_stream(call: str, answer: Callable[[bytes], AsyncIterator[bytes]]) -> Handler:
    """Return a handler for a call with a streamed reply."""

    async def handle(body: bytes, context: Context) -> AsyncIterator[bytes]:
        try:
            async for chunk in answer(body):
                yield chunk
        except Exception as error:  # noqa: BLE001 - reported, and logged if internal
            code, text = refusal(call, error)
            await context.abort(STATUSES[code.grpc], text)

    return grpc.unary_stream_rpc_method_handler(handle)

"""What surrounds every call: who is asking, how long it may take, and what a refusal looks like."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, TypeAlias

import grpc
import structlog
from google.protobuf.message import DecodeError

from navarch.api.auth import UNAUTHORIZED, Authenticator, identify
from navarch.api.joining import AGENTS
from navarch.core.errors import InvalidError, UnauthenticatedError
from navarch.wire.errors import INTERNAL, UNAUTHENTICATED, ErrorCode, code_of, text_of

log = structlog.get_logger(__name__)

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

STATUSES = {status.value[0]: status for status in grpc.StatusCode}
OPEN_SERVICES = ("/grpc.health.v1.Health/",)
"""What anybody may ask, as they may ask for /healthz."""
AGENT_CALLS = "/navarch.v1.AgentService/"
"""All that a machine with a join token may ask for."""
ANSWER_WITHIN = timedelta(seconds=30)


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Turns strangers away before anything else happens."""

    def __init__(self, auth: Authenticator) -> None:
        self._auth = auth

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:  # noqa: ANN401
        """Look at the metadata of a call."""
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method.startswith(OPEN_SERVICES):
            return handler
        try:
            identity = identify(self._auth, headers_of(handler_call_details.invocation_metadata))
        except UnauthenticatedError:
            return _turning_away(handler, STATUSES[UNAUTHENTICATED.grpc], UNAUTHORIZED)
        if AGENTS in identity.groups and not handler_call_details.method.startswith(AGENT_CALLS):
            denied = grpc.StatusCode.PERMISSION_DENIED
            return _turning_away(handler, denied, "a join token is for agents; use your own")
        return handler


def headers_of(metadata: Any) -> Mapping[bytes, bytes]:  # noqa: ANN401 - pairs of names and values
    """Return the metadata of a call as every authenticator wants it."""
    return {
        name.encode(): value if isinstance(value, bytes) else value.encode()
        for name, value in metadata or ()
    }


def _turning_away(handler: Handler, status: grpc.StatusCode, text: str) -> Handler:
    """Return a handler of the same shape that refuses."""

    async def refuse(_request: object, context: Context) -> None:
        await context.abort(status, text)

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
    """Return how to tell `error`; the log hears of those that are our own fault."""
    if isinstance(error, DecodeError):
        error = InvalidError("the message cannot be read")
    code = code_of(error)
    if code is INTERNAL:
        log.error("grpc.failed", call=call, exc_info=error)
    return code, text_of(error, code)


def guarded(call: str, answer: Callable[[bytes, Context], Awaitable[bytes]]) -> Handler:
    """Return a handler for one message in and one out, both still in bytes."""

    async def handle(body: bytes, context: Context) -> bytes:
        try:
            async with asyncio.timeout(ANSWER_WITHIN.total_seconds()):
                return await answer(body, context)
        except Exception as error:  # noqa: BLE001 - told, and logged if it is ours
            code, text = refusal(call, error)
        await context.abort(STATUSES[code.grpc], text)
        raise AssertionError

    return grpc.unary_unary_rpc_method_handler(handle)


def guarded_stream(call: str, answer: Callable[[bytes], AsyncIterator[bytes]]) -> Handler:
    """Return a handler for one message in and many out."""

    async def handle(body: bytes, context: Context) -> AsyncIterator[bytes]:
        try:
            async for chunk in answer(body):
                yield chunk
        except Exception as error:  # noqa: BLE001 - told, and logged if it is ours
            code, text = refusal(call, error)
            await context.abort(STATUSES[code.grpc], text)

    return grpc.unary_stream_rpc_method_handler(handle)

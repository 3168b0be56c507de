"""Authentication, time limits and errors of every gRPC call."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any, NoReturn, TypeAlias

import grpc
import structlog
from google.protobuf.message import DecodeError

from navarch.api.auth import UNAUTHORIZED, Authenticator, Credentials, headers_in, identify
from navarch.api.calls import GRPC, ApiMetrics
from navarch.api.forward.origin import GRPC_METHOD, HEADER, Origin, Seal, StaleError
from navarch.api.logins import TOO_MANY, FailedLogins
from navarch.api.tls import grpc_certificate_of
from navarch.core.access import Identity, act_as, acting_as, permitted
from navarch.core.errors import InvalidError, PermissionDeniedError, UnauthenticatedError
from navarch.wire.fleet import (
    INTERNAL,
    PERMISSION_DENIED,
    UNAUTHENTICATED,
    ErrorCode,
    code_of,
    text_of,
)

log = structlog.get_logger(__name__)

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

STATUSES = {status.value[0]: status for status in grpc.StatusCode}
OPEN_SERVICES = ("/grpc.health.v1.Health/",)
"""Services that need no token, like /healthz."""
REFLECTION = "/grpc.reflection."
"""The services that describe the API, like /openapi.json."""
ANSWER_WITHIN = timedelta(seconds=30)
ANSWERED = ("navarch-answered", "1")
"""The trailing metadata of a forwarded call that was carried out or refused by its receiver: an
error without it may be one of the connection."""


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Lets a handler run only for an authenticated caller with a role for the call."""

    def __init__(
        self,
        auth: Authenticator,
        operations: Mapping[str, str],
        logins: FailedLogins,
        seal: Seal | None = None,
    ) -> None:
        """`operations` are the operations of the calls, by their names on the wire.

        `seal` recognizes what other replicas forward.
        """
        self._running = 0
        self._ended = asyncio.Event()
        self._seal = seal
        self._auth = auth
        self._operations = operations
        self._logins = logins

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:  # noqa: ANN401
        """Return a handler that checks the caller first."""
        handler = await continuation(handler_call_details)
        method: str = handler_call_details.method
        if handler is None or method.startswith(OPEN_SERVICES):
            return handler

        async def check(context: Context) -> tuple[Identity, Callable[[], Identity]]:
            try:
                origin = self._origin_of(method, context)
            except StaleError as error:
                await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
            if origin is not None:
                # An error without it is one of the connection between the two replicas.
                context.set_trailing_metadata((ANSWERED,))
            identity = await self._check(method, context, origin)
            return identity, lambda: self._identity_of(context, origin)

        return _checking(handler, check, self._counted)

    async def ended(self) -> None:
        """Return when no call with one reply is running."""
        while self._running:
            self._ended.clear()
            await self._ended.wait()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            self._ended.set()

    def _origin_of(self, method: str, context: Context) -> Origin | None:
        """Return the client from which a replica has received a call that it forwards.

        Anyone can write the metadata, but only a replica can sign it.
        """
        given = context.invocation_metadata() or ()
        shown = [value for name, value in given if name == HEADER.decode()]
        if self._seal is None or len(shown) != 1:
            return None
        signed = shown[0] if isinstance(shown[0], bytes) else shown[0].encode()
        return self._seal.read(GRPC_METHOD, method.encode(), signed)

    def _identity_of(self, context: Context, origin: Origin | None) -> Identity:
        """Return the caller of a call, or raise UnauthenticatedError."""
        headers = dict(headers_of(context.invocation_metadata()))
        headers.pop(HEADER, None)
        # The certificate of a replica is never that of the client whose call it forwards.
        own = grpc_certificate_of(context.auth_context()) if origin is None else origin.certificate
        return identify(self._auth, Credentials(headers=headers, certificate=own))

    async def _check(self, method: str, context: Context, origin: Origin | None) -> Identity:
        try:
            identity = self._identity_of(context, origin)
        except UnauthenticatedError:
            await self._refuse_login(context, context.peer() if origin is None else origin.peer)
        operation = "read_openapi" if method.startswith(REFLECTION) else self._operations[method]
        try:
            with acting_as(identity):
                permitted(operation)
        except PermissionDeniedError as error:
            await context.abort(STATUSES[PERMISSION_DENIED.grpc], str(error))
        return identity

    async def _refuse_login(self, context: Context, peer: str) -> NoReturn:
        metadata = context.invocation_metadata() or ()
        has_credentials = any(name == "authorization" for name, _ in metadata)
        if await self._logins.note(GRPC, peer, wrong=has_credentials):
            await context.abort(STATUSES[UNAUTHENTICATED.grpc], UNAUTHORIZED)
        await context.abort(grpc.StatusCode.UNAVAILABLE, TOO_MANY)


def headers_of(metadata: Any) -> Mapping[bytes, bytes]:  # noqa: ANN401 - pairs of names and values
    """Return the metadata of a call in the form of HTTP headers."""
    return headers_in(
        (name.encode(), value if isinstance(value, bytes) else value.encode())
        for name, value in metadata or ()
    )


Check: TypeAlias = Callable[[Context], Awaitable[tuple[Identity, Callable[[], Identity]]]]


def _checking(
    handler: Handler, check: Check, counted: Callable[[], AbstractContextManager[None]]
) -> Handler:
    """Return a handler of the same shape that runs as the caller whom `check` returns.

    `check` also returns what identifies the caller again, later in the call.
    """
    inner: Any = (
        handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
    )

    async def answer(request: object, context: Context) -> object:
        with counted():
            identity, again = await check(context)
            with acting_as(identity, again):
                return await inner(request, context)

    async def stream(request: object, context: Context) -> AsyncIterator[bytes]:
        # For the rest of the task, which serves this call only: a generator may be closed in
        # another context, where there is nothing to undo.
        identity, again = await check(context)
        act_as(identity, again)
        async for each in inner(request, context):
            yield each

    build: Any = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[handler.request_streaming, handler.response_streaming]
    checked: Handler = build(
        stream if handler.response_streaming else answer,
        handler.request_deserializer,
        handler.response_serializer,
    )
    return checked


def refusal(call: str, error: Exception) -> tuple[ErrorCode, str]:
    """Return the code and the text for `error`; log internal errors."""
    if isinstance(error, DecodeError):
        error = InvalidError("the message cannot be read")
    code = code_of(error)
    if code is INTERNAL:
        log.error("grpc.failed", call=call, exc_info=error)
    return code, text_of(error, code)


def guarded(call: str, answer: Callable[[bytes], Awaitable[bytes]], metrics: ApiMetrics) -> Handler:
    """Return a handler for a unary call on encoded messages."""
    method = call.removeprefix("/")
    metrics.method(GRPC, method)

    async def handle(body: bytes, context: Context) -> bytes:
        try:
            with metrics.measure(GRPC, method):
                async with asyncio.timeout(ANSWER_WITHIN.total_seconds()):
                    await metrics.large.enter(len(body))
                    return await answer(body)
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

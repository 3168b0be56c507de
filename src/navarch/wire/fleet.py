"""The methods of FleetApi as calls of navarch.v1.FleetService: the same names, the same fields."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, get_args, get_origin, get_type_hints

from google.protobuf.message import Message

from navarch.core.errors import (
    ConflictError,
    InvalidError,
    NavarchError,
    NotFoundError,
    NotPossibleError,
    PermissionDeniedError,
    ProviderError,
    StoreError,
    UnauthenticatedError,
    UnreachableError,
)
from navarch.ports.api import FleetApi
from navarch.wire.messages import read_fields, read_message, write_fields, write_message
from navarch.wire.v1 import fleet_pb2

SERVICE = "navarch.v1.FleetService"

_NAMES = {"why": "Explain"}
"""Methods with a call of another name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCall:
    """One method of FleetApi as a call of the service."""

    method: str
    """Its name in FleetApi."""
    name: str
    """Its name in the service."""
    request: type[Message]
    reply: type[Message]
    parameters: Mapping[str, Any]
    defaults: frozenset[str]
    returns: Any
    """The type of the result, or of each item that the method yields."""
    streams: bool

    @property
    def path(self) -> str:
        """The call's name on the wire."""
        return f"/{SERVICE}/{self.name}"

    def write_request(self, values: Mapping[str, object]) -> bytes:
        """Return the encoded arguments."""
        return write_fields(values, self.request()).SerializeToString()

    def read_request(
        self, body: bytes, check: Callable[[Message], None] = lambda _: None
    ) -> dict[str, Any]:
        """Return the decoded arguments; raise InvalidError or DecodeError if that fails.

        `check` may refuse the message before it is converted.
        """
        message = self.request.FromString(body)
        check(message)
        return read_fields(self.parameters, message, absent_ok=self.defaults)

    def write_reply(self, value: object) -> bytes:
        """Return the encoded result."""
        message = self.reply()
        if _is_list(self.returns):
            write_fields({"items": value}, message)
        elif value is not None:
            write_message(value, message)
        return message.SerializeToString()

    def read_reply(self, body: bytes) -> Any:  # noqa: ANN401 - whatever the method returns
        """Return the decoded result."""
        message = self.reply.FromString(body)
        if self.returns is type(None):
            return None
        if _is_list(self.returns):
            return read_fields({"items": self.returns}, message)["items"]
        return read_message(self.returns, message)


def _is_list(returns: Any) -> bool:  # noqa: ANN401
    return get_origin(returns) is Sequence


def _calls() -> dict[str, FleetCall]:
    service = fleet_pb2.DESCRIPTOR.services_by_name["FleetService"]
    calls = {}
    for method in (name for name in vars(FleetApi) if not name.startswith("_")):
        name = _NAMES.get(method) or "".join(word.capitalize() for word in method.split("_"))
        call = service.methods_by_name[name]
        function = getattr(FleetApi, method)
        parameters = signature(function).parameters.values()
        hints = get_type_hints(function)
        returns = hints.pop("return")
        streams = get_origin(returns) is AsyncIterator
        calls[method] = FleetCall(
            method=method,
            name=name,
            request=getattr(fleet_pb2, call.input_type.name),
            reply=getattr(fleet_pb2, call.output_type.name),
            parameters=hints,
            defaults=frozenset(x.name for x in parameters if x.default is not x.empty),
            returns=get_args(returns)[0] if streams else returns,
            streams=streams,
        )
    return calls


FLEET_CALLS = _calls()
"""Every method of FleetApi, by its name there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCode:
    """One kind of error, with its code in each protocol."""

    name: str
    """Its name in our JSON, in Connect's and, in capitals, in gRPC."""
    grpc: int
    http: int
    """The status on our own JSON API."""
    connect: int
    """The status that the Connect protocol prescribes."""


INVALID = ErrorCode(name="invalid_argument", grpc=3, http=400, connect=400)
TIMED_OUT = ErrorCode(name="deadline_exceeded", grpc=4, http=504, connect=504)
NOT_FOUND = ErrorCode(name="not_found", grpc=5, http=404, connect=404)
PERMISSION_DENIED = ErrorCode(name="permission_denied", grpc=7, http=403, connect=403)
TOO_LARGE = ErrorCode(name="resource_exhausted", grpc=8, http=413, connect=413)
NOT_POSSIBLE = ErrorCode(name="failed_precondition", grpc=9, http=409, connect=400)
CONFLICT = ErrorCode(name="aborted", grpc=10, http=409, connect=409)
INTERNAL = ErrorCode(name="internal", grpc=13, http=500, connect=500)
UNAVAILABLE = ErrorCode(name="unavailable", grpc=14, http=503, connect=503)
UNAUTHENTICATED = ErrorCode(name="unauthenticated", grpc=16, http=401, connect=401)

_ERRORS: tuple[tuple[type[Exception], ErrorCode], ...] = (
    # The first row that matches decides, so subclasses come first.
    (NotFoundError, NOT_FOUND),
    (InvalidError, INVALID),
    (NotPossibleError, NOT_POSSIBLE),
    (ConflictError, CONFLICT),
    (UnauthenticatedError, UNAUTHENTICATED),
    (PermissionDeniedError, PERMISSION_DENIED),
    (UnreachableError, UNAVAILABLE),
    (StoreError, UNAVAILABLE),
    (ProviderError, UNAVAILABLE),
    (TimeoutError, TIMED_OUT),
)

_OURS: dict[str, type[NavarchError]] = {
    NOT_FOUND.name: NotFoundError,
    INVALID.name: InvalidError,
    TOO_LARGE.name: InvalidError,
    NOT_POSSIBLE.name: NotPossibleError,
    CONFLICT.name: ConflictError,
    UNAUTHENTICATED.name: UnauthenticatedError,
    PERMISSION_DENIED.name: PermissionDeniedError,
    UNAVAILABLE.name: UnreachableError,
    TIMED_OUT.name: UnreachableError,
}

INTERNAL_TEXT = "internal error"
"""The whole message of an internal error; the log has the details."""


def code_of(error: Exception) -> ErrorCode:
    """Return the code of `error`; INTERNAL for an unexpected one."""
    return next((code for kind, code in _ERRORS if isinstance(error, kind)), INTERNAL)


def text_of(error: Exception, code: ErrorCode) -> str:
    """Return the message of `error` for the caller."""
    if code is INTERNAL:
        return INTERNAL_TEXT
    return str(error) or code.name.replace("_", " ")


def error_from(code: str, message: str) -> NavarchError:
    """Return the exception for an error response."""
    return _OURS.get(code, NavarchError)(message)

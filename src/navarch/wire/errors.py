"""The table of errors: their codes in every protocol, and the exceptions they stand for."""

from dataclasses import dataclass

from navarch.core.errors import (
    ConflictError,
    InvalidError,
    NavarchError,
    NotFoundError,
    NotPossibleError,
    ProviderError,
    StoreError,
    UnauthenticatedError,
    UnreachableError,
)


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

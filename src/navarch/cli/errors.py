"""Errors of the command line: one sentence and one exit code each.

0 done, 1 failed, 2 bad usage, 3 not found, 4 not allowed, 5 unreachable.
"""

from dataclasses import dataclass
from typing import NoReturn

from navarch.core.errors import NavarchError, NotPossibleError

FAILED = 1
BAD_USAGE = 2
NOT_FOUND = 3
NOT_ALLOWED = 4
UNREACHABLE = 5
INTERRUPTED = 130


class CommandError(NavarchError):
    """An error that the command line raises itself; the message includes the remedy."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def refuse_over_grpc(what: str) -> NoReturn:
    """Raise NotPossibleError for a part of the API that gRPC does not offer."""
    raise NotPossibleError(f"{what} not available over gRPC; use an http:// or https:// server")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """The message and exit code for an error."""

    message: str
    code: int
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRule:
    """The exit code and the remedy for one class of errors."""

    code: int
    remedy: str = ""
    prefix: str = ""
    lines: bool = False
    """Keep the message's line breaks, as for a position in a file."""


# By class name, so that the modules that define the errors need not be imported.
RULES: dict[str, ErrorRule] = {
    "NotFoundError": ErrorRule(code=NOT_FOUND),
    "InstanceNotFoundError": ErrorRule(code=NOT_FOUND),
    "InvalidError": ErrorRule(code=BAD_USAGE),
    "NotPossibleError": ErrorRule(code=NOT_ALLOWED),
    "CredentialError": ErrorRule(code=NOT_ALLOWED),
    "UnauthenticatedError": ErrorRule(
        code=NOT_ALLOWED,
        remedy="set NAVARCH_AUTH_TOKEN, or store a token with: navarch config set-token",
    ),
    "PermissionDeniedError": ErrorRule(code=NOT_ALLOWED),
    "UnreachableError": ErrorRule(
        code=UNREACHABLE,
        remedy="is `navarch serve` running there, and is --server right?",
    ),
    "TransientError": ErrorRule(code=UNREACHABLE, remedy="try again"),
    "ConnectionError": ErrorRule(
        code=UNREACHABLE,
        prefix="the server cannot be reached: ",
        remedy="is `navarch serve` running there, and is --server right?",
    ),
    "TimeoutError": ErrorRule(
        code=UNREACHABLE,
        prefix="the server did not respond in time",
        remedy="check --server, or raise --timeout",
    ),
    "ConfigError": ErrorRule(code=FAILED, lines=True),
    "ConflictError": ErrorRule(code=FAILED, remedy="changed concurrently; try again"),
}


def describe_error(error: BaseException) -> ErrorReport:
    """Return the message and exit code for `error`."""
    error = first_cause(error)
    # On one line without control characters: the text may come from a server.
    text = " ".join(safe(str(error)).split())
    if isinstance(error, CommandError):
        return ErrorReport(message=text, code=error.code)
    for kind in type(error).__mro__:
        rule = RULES.get(kind.__name__)
        if rule is not None:
            message = "\n".join(map(safe, str(error).splitlines())) if rule.lines else text
            return ErrorReport(message=rule.prefix + message, code=rule.code, remedy=rule.remedy)
    if isinstance(error, ModuleNotFoundError):
        missing = error.name or "navarch"
        if not missing.startswith("navarch"):
            return _missing_package(error, missing)
    if isinstance(error, NavarchError | OSError):
        return ErrorReport(message=text or type(error).__name__, code=FAILED)
    return ErrorReport(
        message=f"unexpected {type(error).__name__}: {text}",
        code=FAILED,
        remedy="run again with --debug for a traceback",
    )


EXTRAS = {
    "asyncssh": "ssh",
    "botocore": "aws",
    "cryptography": "signing",
    "google.cloud": "gcp",
    "rich": "cli",
}
"""The extra that installs an optional package; packages that are not listed are in `server`."""


PACKAGES = {"google": "protobuf", "google.protobuf": "protobuf", "yaml": "PyYAML"}
"""The packages with other names than what is imported."""


def needs_extra(what: str, error: ModuleNotFoundError, extra: str) -> str:
    """Return that `what` needs an extra, with the missing package and the remedy."""
    package = PACKAGES.get(error.name or "", error.name)
    return (
        f"{what} needs the extra {extra} (the Python package {package} is not installed); "
        f"run: pip install 'navarch[{extra}]'"
    )


def _missing_package(error: ModuleNotFoundError, name: str) -> ErrorReport:
    extra = next((extra for top, extra in EXTRAS.items() if name.startswith(top)), "server")
    return ErrorReport(message=needs_extra("this command", error, extra), code=FAILED)


def first_cause(error: BaseException) -> BaseException:
    """Return the first error inside nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def safe(line: str) -> str:
    """Return `line` with unprintable characters replaced by spaces."""
    return "".join(c if c.isprintable() else " " for c in line)

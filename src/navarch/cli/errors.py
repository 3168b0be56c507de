"""What went wrong, in one sentence and one exit code.

0 done, 1 failed, 2 bad usage, 3 not found, 4 not allowed, 5 unreachable.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from navarch.core.errors import NavarchError

FAILED = 1
BAD_USAGE = 2
NOT_FOUND = 3
NOT_ALLOWED = 4
UNREACHABLE = 5
INTERRUPTED = 130


class CommandError(NavarchError):
    """The command line itself says no; the message carries the remedy."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """How a command ends that did not do what it was asked."""

    message: str
    code: int
    remedy: str = ""
    expected: bool = True
    """Whether it is an answer rather than a bug."""

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRule:
    """What an error of one class means to whoever typed the command."""

    code: int
    remedy: str = ""
    prefix: str = ""
    lines: bool = False
    """Whether the message has a layout of its own, such as a place in a file."""


# By name, because the client's own errors live in a module that is loaded only when used.
RULES: dict[str, ErrorRule] = {
    "NotFoundError": ErrorRule(code=NOT_FOUND),
    "InstanceNotFoundError": ErrorRule(code=NOT_FOUND),
    "InvalidError": ErrorRule(code=BAD_USAGE),
    "NotPossibleError": ErrorRule(code=NOT_ALLOWED),
    "CredentialError": ErrorRule(code=NOT_ALLOWED),
    "UnauthenticatedError": ErrorRule(
        code=NOT_ALLOWED,
        remedy="set NAVARCH_AUTH_TOKEN, or keep a token with: navarch config set-token",
    ),
    "ForbiddenError": ErrorRule(code=NOT_ALLOWED),
    "UnreachableError": ErrorRule(
        code=UNREACHABLE, remedy="is `navarch serve` running there, and is --server right?"
    ),
    "TransientError": ErrorRule(code=UNREACHABLE, remedy="try again"),
    "ConnectionError": ErrorRule(
        code=UNREACHABLE,
        prefix="the server cannot be reached: ",
        remedy="is `navarch serve` running there, and is --server right?",
    ),
    "TimeoutError": ErrorRule(
        code=UNREACHABLE,
        prefix="the server did not answer in time",
        remedy="is --server right? A larger --timeout waits longer",
    ),
    "ConfigError": ErrorRule(code=FAILED, lines=True),
    "ConflictError": ErrorRule(code=FAILED, remedy="somebody else changed it meanwhile; try again"),
}


def describe_error(error: BaseException) -> ErrorReport:
    """Return what to tell the user about `error`."""
    error = first_cause(error)
    text = one_line(str(error))
    if isinstance(error, CommandError):
        return ErrorReport(message=text, code=error.code)
    for name in class_names(error):
        if name in RULES:
            rule = RULES[name]
            said = "\n".join(map(safe, str(error).splitlines())) if rule.lines else text
            return ErrorReport(message=rule.prefix + said, code=rule.code, remedy=rule.remedy)
    if isinstance(error, NavarchError | OSError):
        return ErrorReport(message=text or type(error).__name__, code=FAILED)
    return ErrorReport(
        message=f"unexpected {type(error).__name__}: {text}",
        code=FAILED,
        remedy="--debug shows where",
        expected=False,
    )


def first_cause(error: BaseException) -> BaseException:
    """Return the error itself, out of the groups that tasks wrap around it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def class_names(error: BaseException) -> Iterator[str]:
    """Yield the names of the error's classes, the most specific first."""
    return (kind.__name__ for kind in type(error).__mro__)


def one_line(text: str) -> str:
    """Return `text` without line breaks and control characters, which a server could send."""
    return " ".join(safe(text).split())


def safe(line: str) -> str:
    """Return `line` with nothing in it that could move the cursor."""
    return "".join(c if c.isprintable() else " " for c in line)

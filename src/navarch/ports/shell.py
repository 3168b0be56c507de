"""A shell on another machine, over SSH."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, runtime_checkable

from navarch.core.errors import NavarchError
from navarch.core.ids import InstanceId


class ShellError(NavarchError):
    """The machine does not answer, or no longer does. It may, later."""


class LoginRefusedError(ShellError):
    """The machine answers but does not let us in."""


class HostKeyError(ShellError):
    """The machine is not the one it should be. Nothing may be said to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Where a shell is, and how to get in."""

    address: str
    port: int = 22
    user: str = "root"
    key_file: str = ""
    host_key: str = ""
    """The machine's public key, as in a known_hosts file; any is taken where this is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of one command."""

    exit_code: int
    """-1 where it was killed: by us, because it took too long, or by somebody else."""
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False


class Shell(Protocol):
    """One connection that is logged in."""

    @property
    def host_key(self) -> str:
        """The public key that the machine has proved to have."""
        ...

    async def run(self, command: str, *, within: timedelta) -> Ran:
        """Run one command to its end, or kill it; ShellError if the machine is lost on the way."""
        ...

    async def close(self) -> None:
        """Hang up."""
        ...


class Shells(Protocol):
    """The way to shells."""

    async def connect(self, login: Login, *, within: timedelta) -> Shell:
        """Log in; ShellError if that is not possible now."""
        ...


@runtime_checkable
class DescribesLogins(Protocol):
    """An ability of a provider: it knows how to log in to its machines."""

    async def login(self, instance: InstanceId) -> Login | None:
        """Return how to log in to a machine; None for one that it does not know."""
        ...


FindLogin = Callable[[InstanceId], Awaitable[Login | None]]

"""A shell on another machine, over SSH."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, runtime_checkable

from navarch.core.errors import NavarchError
from navarch.core.ids import InstanceId


class ShellError(NavarchError):
    """The machine does not respond, or no longer does. It may respond later."""


class LoginRefusedError(ShellError):
    """The machine responds but refuses the login."""


class HostKeyError(ShellError):
    """The machine has another host key than expected. Nothing may be sent to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The address of a shell and the credentials for it."""

    address: str
    port: int = 22
    user: str = "root"
    key_file: str = ""
    host_key: str = ""
    """The machine's public key, as in a known_hosts file; empty accepts any key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The result of one command."""

    exit_code: int
    """-1 if the command was killed, for example because it took too long."""
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False


class Shell(Protocol):
    """One authenticated connection."""

    @property
    def host_key(self) -> str:
        """The public key with which the machine has authenticated."""

    async def run(self, command: str, *, within: timedelta) -> Ran:
        """Run one command to its end, or kill it; ShellError if the connection is lost."""

    async def close(self) -> None:
        """Close the connection."""


class Shells(Protocol):
    """Opens shells."""

    async def connect(self, login: Login, *, within: timedelta) -> Shell:
        """Log in; ShellError if that is not possible at present."""


@runtime_checkable
class DescribesLogins(Protocol):
    """An ability of a provider: it has the logins of its machines."""

    async def login(self, instance: InstanceId) -> Login | None:
        """Return the login of a machine; None for an unknown machine."""

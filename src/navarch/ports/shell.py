"""The ports for remote shells, and for the logs of machines set up over them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, runtime_checkable

from navarch.core.bringup import BringUpLog
from navarch.core.errors import NavarchError
from navarch.core.ids import InstanceId, NodeId


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


class BringUpLogs(Protocol):
    """Holds one log for each attempt. Storing one again replaces it."""

    async def keep(self, log: BringUpLog) -> None:
        """Store a log durably; delete the node's oldest logs if there are too many."""

    async def list(self, node: NodeId) -> Sequence[BringUpLog]:
        """Return the logs of a node, oldest first, also of a node that is gone."""


@runtime_checkable
class BringUpApi(Protocol):
    """The API for bring-up logs."""

    async def list_bringups(self, node: NodeId) -> Sequence[BringUpLog]:
        """Return every attempt to set a node's machine up, oldest first."""

"""Simulated shells, for simulations and tests."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from navarch.ports.clock import Clock
from navarch.ports.shell import HostKeyError, Login, Ran, Shell, ShellError

Answer = Callable[[str, str], Ran]
"""Returns the result of a command at an address."""


@dataclass(slots=True)
class SimulatedShells:
    """Machines with scripted results."""

    clock: Clock
    answer: Answer = lambda _address, _command: Ran(exit_code=0)
    command_s: float = 0.05
    connect_s: float = 0.05
    down: Callable[[str], bool] = lambda _: False
    """Returns True if an address refuses connections now."""
    host_keys: dict[str, str] = field(default_factory=dict)
    commands: list[tuple[str, str]] = field(default_factory=list)
    """Every command that was run, as address and command."""
    open: int = 0

    async def connect(self, login: Login, *, within: timedelta) -> Shell:
        """Log in, unless the address is down."""
        await self.clock.sleep(min(self.connect_s, within.total_seconds()))
        if self.down(login.address):
            raise ShellError(f"{login.address}: connection refused")
        key = self.host_keys.get(login.address, f"ssh-ed25519 {login.address}")
        if login.host_key and login.host_key != key:
            raise HostKeyError(f"{login.address} has another host key than the pinned one")
        self.open += 1
        return _SimulatedShell(self, login.address, key)


@dataclass(slots=True)
class _SimulatedShell:
    shells: SimulatedShells
    address: str
    host_key: str

    async def run(self, command: str, *, within: timedelta) -> Ran:
        """Record a command and return its scripted result."""
        if self.shells.down(self.address):
            raise ShellError(f"{self.address}: the connection was lost")
        self.shells.commands.append((self.address, command))
        limit = within.total_seconds()
        await self.shells.clock.sleep(min(self.shells.command_s, limit))
        if self.shells.command_s > limit:
            return Ran(exit_code=-1, timed_out=True)
        return self.shells.answer(self.address, command)

    async def close(self) -> None:
        """Close the connection."""
        self.shells.open -= 1

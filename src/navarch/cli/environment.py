"""The command line's dependencies: clock, terminal, environment variables, connections."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from navarch.cli.errors import CommandError, needs_extra
from navarch.clock import SystemClock
from navarch.core.machine_setup import is_public_key
from navarch.ports.api import FleetApi
from navarch.ports.clock import Clock

if TYPE_CHECKING:
    pass

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A server and how to connect to it."""

    url: str
    token: str | None = field(default=None, repr=False)
    timeout: timedelta = timedelta(seconds=30)
    """For one request."""
    insecure: bool = False
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """Properties of standard output."""

    width: int | None = None
    """Number of columns; None if standard output is not a terminal, so that nothing is cut."""
    live: bool = False
    """Whether text can be redrawn in place."""


Connect = Callable[[Target], AbstractAsyncContextManager[FleetApi]]


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[FleetApi]:
    """Yield a connection to the control plane at `target`."""
    try:
        # Imported late: commands that need no server start without it.
        from navarch.client.connect import connect_fleet
        from navarch.http.tls import ClientTls, TlsPaths

        paths = TlsPaths(
            ca=target.ca_file,
            cert=target.cert_file,
            key=target.key_file,
            insecure=target.insecure,
        )
        fleet = connect_fleet(
            target.url,
            token=target.token,
            timeout_s=target.timeout.total_seconds(),
            tls=ClientTls(paths) if target.url.startswith("https:") else None,
            tls_files=paths,
        )
    except ModuleNotFoundError as error:
        # A light install has no gRPC, for example.
        raise CommandError(needs_extra("this command", error, "server")) from error
    try:
        yield fleet
    finally:
        await fleet.close()


PUBLIC_KEYS = (
    "id_rsa.pub",
    "id_ecdsa.pub",
    "id_ecdsa_sk.pub",
    "id_ed25519.pub",
    "id_ed25519_sk.pub",
)
"""Names of public keys, in the order in which OpenSSH tries them."""


class Run(Protocol):
    """Runs a coroutine to completion."""

    def __call__(self, main: Coroutine[Any, Any, T]) -> T:
        """Return the coroutine's result."""
        ...


def execute(command: Sequence[str]) -> None:
    """Replace this process with another program."""
    os.execvp(command[0], list(command))


def check(cloud: str, fields: Mapping[str, str]) -> str:
    """Return the account of these credentials, or raise CommandError."""
    from navarch.cli.credentials import CHECKS

    return CHECKS[cloud](fields)


def is_interactive() -> bool:
    """Return whether a person can be asked: standard input and standard error are terminals."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def detect_terminal() -> Terminal:
    """Return the properties of standard output."""
    if not sys.stdout.isatty():
        return Terminal()
    return Terminal(width=shutil.get_terminal_size().columns, live=os.environ.get("TERM") != "dumb")


@dataclass(frozen=True, slots=True, kw_only=True)
class CliEnvironment:
    """Everything that a command takes from outside; tests pass their own as the click object."""

    connect: Connect = connect
    clock: Clock = field(default_factory=SystemClock)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    terminal: Callable[[], Terminal] = detect_terminal
    is_interactive: Callable[[], bool] = is_interactive
    execute: Callable[[Sequence[str]], None] = execute
    run: Run = asyncio.run
    check: Callable[[str, Mapping[str, str]], str] = check
    """Checks a cloud's credentials; returns the account they belong to."""

    @property
    def config_dir(self) -> Path:
        """The folder of the user's settings, by the XDG specification."""
        # The specification requires that a relative path is ignored.
        named = Path(self.environ.get("XDG_CONFIG_HOME", ""))
        return (named if named.is_absolute() else Path.home() / ".config") / "navarch"

    @property
    def public_key(self) -> str | None:
        """The user's public SSH key: the first that `ssh` tries of those that exist."""
        home = self.environ.get("HOME")
        if not home:
            return None
        for name in PUBLIC_KEYS:
            with suppress(OSError, UnicodeDecodeError):
                key = Path(home, ".ssh", name).read_text(encoding="utf-8").strip()
                if is_public_key(key) and key.isprintable():
                    return key
        return None

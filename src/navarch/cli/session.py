"""One run of one command: server, credentials, time limits and output."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from functools import update_wrapper
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import click

from navarch.cli.credentials import read_credentials
from navarch.cli.environment import CliEnvironment, Target, Terminal
from navarch.cli.options import GlobalOptions, global_options
from navarch.cli.output import Output, render_data
from navarch.cli.printing import echo
from navarch.cli.render.table import Canvas
from navarch.ports.api import FleetApi
from navarch.ports.clock import Clock

T = TypeVar("T")
P = ParamSpec("P")

DEFAULT_SERVER = "http://localhost:50051"
REQUEST_TIMEOUT = timedelta(seconds=30)
"""Default limit of a command that makes requests and prints the result."""
WAIT_TIMEOUT = timedelta(minutes=20)
"""Default limit of a command that waits for machines; large ones boot in ten minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The environment and the options of a running command."""

    environment: CliEnvironment
    options: GlobalOptions

    @property
    def clock(self) -> Clock:
        """The clock."""
        return self.environment.clock

    @property
    def output(self) -> Output:
        """The output format; a wide table is a table, on a canvas without a limit."""
        chosen = self.options.output
        return Output.TABLE if chosen is Output.WIDE else chosen

    @property
    def terminal(self) -> Terminal:
        """The terminal behind standard output."""
        return self.environment.terminal()

    @property
    def server(self) -> str:
        """The server's URL: from --server, else NAVARCH_SERVER, else this machine."""
        environ = self.environment.environ
        url = self.options.server or environ.get("NAVARCH_SERVER") or DEFAULT_SERVER
        return url.rstrip("/")

    @property
    def token(self) -> str | None:
        """The bearer token: from --token, else NAVARCH_AUTH_TOKEN, else stored for the server.

        A token stored for one server is never sent to another.
        """
        token = self.options.token or self.environment.environ.get("NAVARCH_AUTH_TOKEN")
        return token or read_credentials(self.environment.config_dir).tokens.get(self.server)

    def connect(self) -> AbstractAsyncContextManager[FleetApi]:
        """Return a context manager that connects to the server."""
        target = Target(
            url=self.server,
            token=self.token,
            timeout=min(self.timeout_or(REQUEST_TIMEOUT), REQUEST_TIMEOUT),
            insecure=self.options.insecure,
            ca_file=self._file("ca_file"),
            cert_file=self._file("cert_file"),
            key_file=self._file("key_file"),
        )
        return self.environment.connect(target)

    def _file(self, name: str) -> Path | None:
        """Return a file of TLS: from its option, else from the environment."""
        chosen: Path | None = getattr(self.options, name)
        named = self.environment.environ.get(f"NAVARCH_{name.upper()}")
        return chosen or (Path(named) if named else None)

    def timeout_or(self, default: timedelta) -> timedelta:
        """Return --timeout, or `default` if it is not set."""
        return default if self.options.timeout is None else self.options.timeout

    def call(self, request: Callable[[FleetApi], Awaitable[T]]) -> T:
        """Run `request` with a connection and return its result, within --timeout."""

        async def main() -> T:
            async with asyncio.timeout(self.timeout_or(REQUEST_TIMEOUT).total_seconds()):
                async with self.connect() as api:
                    return await request(api)

        return self.environment.run(main())

    def call_without_timeout(self, request: Callable[[FleetApi], Awaitable[T]]) -> T:
        """Run `request` with a connection; it applies its own time limits."""

        async def main() -> T:
            async with self.connect() as api:
                return await request(api)

        return self.environment.run(main())

    def canvas(self) -> Canvas:
        """Return the width and the colours to render for."""
        terminal = self.terminal.width
        plain = self.options.no_color or bool(self.environment.environ.get("NO_COLOR"))
        width = None if self.options.output is Output.WIDE else terminal
        return Canvas(now=self.clock.now(), width=width, color=terminal is not None and not plain)

    def show(self, answer: object, render: Callable[[Canvas], str]) -> None:
        """Print `answer`: rendered as text, or as JSON, YAML or names."""
        if self.output is Output.TABLE:
            canvas = self.canvas()
            echo(render(canvas), width=canvas.width)
        else:
            text = render_data(answer, self.output)
            echo(text, nl=bool(text))

    def show_call(
        self, request: Callable[[FleetApi], Awaitable[T]], render: Callable[[T, Canvas], str]
    ) -> None:
        """Run `request` with a connection, and print its result."""
        found = self.call(request)
        self.show(found, lambda canvas: render(found, canvas))


def get_session(context: click.Context) -> Session:
    """Return the session of the running command."""
    environment = context.find_object(CliEnvironment) or CliEnvironment()
    return Session(environment=environment, options=global_options(context))


def with_session(command: Callable[Concatenate[Session, P], T]) -> Callable[P, T]:
    """Pass the session to a command as its first argument."""

    def run(*args: P.args, **options: P.kwargs) -> T:
        return command(get_session(click.get_current_context()), *args, **options)

    return update_wrapper(run, command)

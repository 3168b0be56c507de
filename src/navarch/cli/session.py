"""One run of one command: whom it asks, how long it waits and where it writes."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import update_wrapper
from typing import Concatenate, ParamSpec, TypeVar

import click

from navarch.cli.credentials import read_credentials
from navarch.cli.environment import CliEnvironment, Target, Terminal
from navarch.cli.options import GlobalOptions, global_options
from navarch.cli.output import Output, render_data
from navarch.cli.render.canvas import Canvas
from navarch.ports.api import FleetApi
from navarch.ports.clock import Clock

T = TypeVar("T")
P = ParamSpec("P")

DEFAULT_SERVER = "http://localhost:50051"
REQUEST_TIMEOUT = timedelta(seconds=30)
"""For a command that asks and prints."""
WAIT_TIMEOUT = timedelta(minutes=20)
"""For a command that waits for machines; a large GPU machine takes ten minutes to boot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a command has at hand."""

    environment: CliEnvironment
    options: GlobalOptions

    @property
    def clock(self) -> Clock:
        """Time, for ages and pauses."""
        return self.environment.clock

    @property
    def output(self) -> Output:
        """How to write the answer."""
        return self.options.output

    @property
    def terminal(self) -> Terminal:
        """Where the answer goes."""
        return self.environment.terminal()

    @property
    def server(self) -> str:
        """The server's address: as told, else from the environment, else on this machine."""
        environ = self.environment.environ
        told = self.options.server or environ.get("NAVARCH_SERVER") or DEFAULT_SERVER
        return told.rstrip("/")

    @property
    def token(self) -> str | None:
        """The bearer token: as told, else from the environment, else the one kept for the server.

        A token kept for one server is never sent to another.
        """
        told = self.options.token or self.environment.environ.get("NAVARCH_AUTH_TOKEN")
        return told or read_credentials(self.environment.config_dir).tokens.get(self.server)

    def connect(self) -> AbstractAsyncContextManager[FleetApi]:
        """Return a connection to the server, to be opened."""
        target = Target(
            url=self.server,
            token=self.token,
            timeout=min(self.timeout_or(REQUEST_TIMEOUT), REQUEST_TIMEOUT),
            insecure=self.options.insecure,
        )
        return self.environment.connect(target)

    def timeout_or(self, default: timedelta) -> timedelta:
        """Return how long the command may take."""
        return default if self.options.timeout is None else self.options.timeout

    def call(self, request: Callable[[FleetApi], Awaitable[T]]) -> T:
        """Return what the server answers to `request`."""

        async def main() -> T:
            async with asyncio.timeout(self.timeout_or(REQUEST_TIMEOUT).total_seconds()):
                async with self.connect() as api:
                    return await request(api)

        return self.environment.run(main())

    def call_without_timeout(self, conversation: Callable[[FleetApi], Awaitable[T]]) -> T:
        """Return what comes of a conversation that sets its own limits."""

        async def main() -> T:
            async with self.connect() as api:
                return await conversation(api)

        return self.environment.run(main())

    def canvas(self, now: datetime | None = None) -> Canvas:
        """Return the space there is to write in."""
        terminal = self.terminal
        plain = self.options.no_color or bool(self.environment.environ.get("NO_COLOR"))
        return Canvas(
            now=now or self.clock.now(),
            width=terminal.width,
            color=terminal.width is not None and not plain,
        )

    def show(self, answer: object, render: Callable[[Canvas], str]) -> None:
        """Print an answer: rendered for people, or as data."""
        click.echo(self.render(answer, render))

    def render(self, answer: object, render: Callable[[Canvas], str]) -> str:
        """Return an answer, rendered for people or as data."""
        if self.output is Output.TABLE:
            return render(self.canvas())
        return render_data(answer, self.output)


def get_session(context: click.Context) -> Session:
    """Return the session of a command that is being run."""
    environment = context.find_object(CliEnvironment) or CliEnvironment()
    return Session(environment=environment, options=global_options(context))


def with_session(command: Callable[Concatenate[Session, P], T]) -> Callable[P, T]:
    """Give a command its session as the first argument."""

    def run(*args: P.args, **options: P.kwargs) -> T:
        return command(get_session(click.get_current_context()), *args, **options)

    return update_wrapper(run, command)

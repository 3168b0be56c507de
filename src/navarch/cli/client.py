"""The one place that knows the program which speaks to the server."""

import importlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol, cast

from navarch.cli.failures import CommandError
from navarch.cli.surroundings import Target
from navarch.ports.api import FleetApi


class FleetClient(FleetApi, Protocol):
    """A fleet that is somewhere else."""

    async def close(self) -> None:
        """Hang up."""
        ...


class ClientModule(Protocol):
    """What is asked of the module that speaks to servers."""

    def connect_fleet(
        self, url: str, *, token: str | None, timeout_s: float, tls: ssl.SSLContext | None
    ) -> FleetClient:
        """Return the fleet at `url`; nothing is sent until something is asked."""
        ...


@asynccontextmanager
async def open_client(target: Target) -> AsyncIterator[FleetApi]:
    """Yield a connection to `target`."""
    fleet = _module().connect_fleet(
        target.url,
        token=target.token,
        timeout_s=target.timeout.total_seconds(),
        tls=_trusting() if target.insecure else None,
    )
    try:
        yield fleet
    finally:
        await fleet.close()


def _module() -> ClientModule:
    # Imported late: the same program starts the agent, whose install has no client.
    try:
        return cast("ClientModule", importlib.import_module("navarch.client.connect"))
    except ModuleNotFoundError as error:
        raise CommandError(
            f"talking to a server needs {error.name}; install it with: pip install 'navarch[cli]'"
        ) from error


def _trusting() -> ssl.SSLContext:
    """Return TLS that believes every certificate, which --insecure asks for."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context

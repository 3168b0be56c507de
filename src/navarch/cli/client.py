"""The one place that knows the program which speaks to the server."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from navarch.cli.failures import CommandError
from navarch.cli.surroundings import Target
from navarch.ports.api import FleetApi


@asynccontextmanager
async def open_client(target: Target) -> AsyncIterator[FleetApi]:
    """Yield a connection to `target`."""
    try:
        from navarch.client.connect import connect_fleet

        fleet = connect_fleet(
            target.url,
            token=target.token,
            timeout_s=target.timeout.total_seconds(),
            tls=_trusting() if target.insecure else None,
        )
    except ModuleNotFoundError as error:
        # Over gRPC, for instance, which a light install does without.
        raise CommandError(
            f"talking to {target.url} needs {error.name}; run: pip install 'navarch[server]'"
        ) from error
    try:
        yield fleet
    finally:
        await fleet.close()


def _trusting() -> ssl.SSLContext:
    """Return TLS that believes every certificate, which --insecure asks for."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context

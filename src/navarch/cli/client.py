"""The one place that knows the program which speaks to the server."""

import importlib
from contextlib import AbstractAsyncContextManager
from typing import Any

from navarch.cli.failures import CommandError
from navarch.cli.surroundings import Target
from navarch.ports.api import FleetApi


def open_client(target: Target) -> AbstractAsyncContextManager[FleetApi]:
    """Return a connection to `target`, to be opened."""
    # Imported late: the same program starts the agent, whose install has no client.
    try:
        module = importlib.import_module("navarch.client")
    except ModuleNotFoundError as error:
        raise CommandError(
            f"talking to a server needs {error.name}; install it with: pip install 'navarch[cli]'"
        ) from error
    options: dict[str, Any] = {"insecure": True} if target.insecure else {}
    connection: AbstractAsyncContextManager[FleetApi] = module.connect_fleet(
        target.url, token=target.token, timeout=target.timeout, **options
    )
    return connection

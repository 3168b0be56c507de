"""Leadership: one server at a time holds the state directory."""

import socket
from collections.abc import Callable
from pathlib import Path

import structlog

from navarch.app.addresses import Address, StartError
from navarch.app.servers import listen_at
from navarch.core.errors import InUseError
from navarch.ports.clock import Clock, Entropy
from navarch.ports.offload import Offload
from navarch.stores.sqlite import SqliteStore

log = structlog.get_logger(__name__)

RETRY_S = 0.25
"""The interval at which a standby server tries to take over."""
PORT_WITHIN_S = 10.0
"""How long a standby server that took over waits for the port of the previous leader."""

Standby = Callable[[str], None]
"""Called once with the state directory when a server begins to stand by for it."""


async def acquire_leadership(
    clock: Clock, entropy: Entropy, data_dir: Path, offload: Offload, standby: Standby | None
) -> SqliteStore:
    """Open the state as its only writer, waiting for the present leader if `standby` is given.

    Without `standby`, raises InUseError if another server leads.
    """
    waiting = False
    while True:
        try:
            return SqliteStore.open(data_dir, offload, entropy)
        except InUseError as error:
            if standby is None:
                raise
            if not waiting:
                standby(str(data_dir))
                log.info("server.standby", reason=str(error))
                waiting = True
        await clock.sleep(RETRY_S)


async def wait_for_port(clock: Clock, address: Address) -> socket.socket:
    """Return a listening socket for a port that the previous leader may still be closing."""
    deadline = clock.monotonic() + PORT_WITHIN_S
    while True:
        try:
            return listen_at(address)
        except StartError:
            if clock.monotonic() >= deadline:
                raise
        await clock.sleep(0.1)

"""Who leads: one server at a time, by the folder with the state."""

import socket
from collections.abc import Callable
from pathlib import Path

import structlog

from navarch.app.addresses import Address, StartError
from navarch.app.doors import listen_at
from navarch.core.errors import InUseError
from navarch.ports.clock import Clock, Entropy
from navarch.ports.offload import Offload
from navarch.stores.sqlite import SqliteStore

log = structlog.get_logger(__name__)

LOOK_S = 0.25
"""How often a server that stands by looks whether its turn has come."""
INHERIT_WITHIN_S = 10.0
"""How long it then waits for the doors of the one before it."""

Standby = Callable[[str], None]
"""Hears whose folder is waited for."""


async def lead(
    clock: Clock, entropy: Entropy, data_dir: Path, offload: Offload, standby: Standby | None
) -> SqliteStore:
    """Return the state, once nobody else leads with it; without `standby`, now or not at all."""
    told = False
    while True:
        try:
            return SqliteStore.open(data_dir, offload, entropy)
        except InUseError as error:
            if standby is None:
                raise
            if not told:
                standby(str(data_dir))
                log.info("server.standby", reason=str(error))
                told = True
        await clock.sleep(LOOK_S)


async def inherit_door(clock: Clock, address: Address) -> socket.socket:
    """Return a door that whoever led until now may be closing only now."""
    deadline = clock.monotonic() + INHERIT_WITHIN_S
    while True:
        try:
            return listen_at(address)
        except StartError:
            if clock.monotonic() >= deadline:
                raise
        await clock.sleep(0.1)

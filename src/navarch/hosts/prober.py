"""Connects to other machines over TCP."""

import asyncio
import errno
import socket

from navarch.core.witness import Reach

_FOUND = {
    errno.ECONNREFUSED: Reach.REFUSED,
    errno.ECONNRESET: Reach.REFUSED,
    errno.ETIMEDOUT: Reach.NO_RESPONSE,
    errno.EHOSTUNREACH: Reach.NO_ROUTE,
    errno.EHOSTDOWN: Reach.NO_ROUTE,
}
"""All other errors, such as a network that is down, are those of this machine."""


class TcpProber:
    """Opens a connection, waits for a greeting, and closes it without sending anything."""

    async def connect(self, address: str, port: int, *, within_s: float) -> Reach:
        """Return whether a machine responds, and whether one of its programs does."""
        found = Reach.NO_RESPONSE
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_STREAM) as connection:
                connection.setblocking(False)
                async with asyncio.timeout(within_s):
                    loop = asyncio.get_running_loop()
                    await loop.sock_connect(connection, (address, port))
                    found = Reach.CONNECTED
                    if await loop.sock_recv(connection, 1):
                        found = Reach.GREETED
        except TimeoutError:
            return found
        except OSError as error:
            is_open = found is Reach.CONNECTED
            return found if is_open else _FOUND.get(error.errno or 0, Reach.FAILED)
        return found

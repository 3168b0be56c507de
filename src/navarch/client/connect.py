"""A fleet by its address."""

import ssl
from typing import Protocol

from navarch.client.address import parse_address
from navarch.client.connection import HttpConnectionPool
from navarch.client.http import HttpAgentClient, HttpFleetClient
from navarch.core.errors import InvalidError
from navarch.ports.api import FleetApi

TIMEOUT_S = 30.0


class FleetClient(FleetApi, Protocol):
    """A fleet that is somewhere else."""

    async def close(self) -> None:
        """Hang up."""
        ...


def connect_fleet(
    url: str,
    token: str | None = None,
    timeout_s: float = TIMEOUT_S,
    *,
    tls: ssl.SSLContext | None = None,
) -> FleetClient:
    """Return the fleet at `url`: http, https or grpc. Nothing is sent until something is asked."""
    address = parse_address(url)
    if address.scheme == "grpc":
        # Imported here because it takes longer than most commands.
        from navarch.client.grpc import GrpcFleetClient

        return GrpcFleetClient(address, token=token, timeout_s=timeout_s)
    return HttpFleetClient(HttpConnectionPool(address, token=token, timeout_s=timeout_s, tls=tls))


def connect_agent(
    url: str, token: str | None = None, timeout_s: float = TIMEOUT_S
) -> HttpAgentClient:
    """Return the agents' side of the control plane at `url`."""
    address = parse_address(url)
    if address.scheme == "grpc":
        raise InvalidError("agents are served over http")
    return HttpAgentClient(HttpConnectionPool(address, token=token, timeout_s=timeout_s))

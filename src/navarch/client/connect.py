"""Connect to a control plane by URL."""

from typing import Protocol

from navarch.client.connection import ServerConnection, parse_address
from navarch.client.http import HttpFleetClient
from navarch.http.tls import MakeContext, TlsPaths
from navarch.ports.api import FleetApi

TIMEOUT_S = 30.0


class FleetClient(FleetApi, Protocol):
    """A FleetApi over the network."""

    async def close(self) -> None:
        """Close the connections."""
        ...


def connect_fleet(
    url: str,
    token: str | None = None,
    timeout_s: float = TIMEOUT_S,
    *,
    tls: MakeContext | None = None,
    tls_files: TlsPaths | None = None,
) -> FleetClient:
    """Return a client for `url` (http, https, grpc or grpcs). It connects on the first request.

    `tls` are the settings for https, `tls_files` the files for grpcs.
    """
    address = parse_address(url)
    if address.scheme in ("grpc", "grpcs"):
        # Imported late: importing gRPC takes longer than most commands.
        from navarch.client.grpc import GrpcFleetClient

        return GrpcFleetClient(address, token=token, timeout_s=timeout_s, tls_files=tls_files)
    return HttpFleetClient(ServerConnection(address, token=token, timeout_s=timeout_s, tls=tls))

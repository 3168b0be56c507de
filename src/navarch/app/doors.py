"""The doors of a control plane: what stands behind all of them, and the gRPC server."""

from dataclasses import dataclass
from typing import Protocol

from navarch.api.auth import Authenticator
from navarch.api.calls import ApiMetrics
from navarch.api.grpc.server import GrpcServer
from navarch.api.heartbeats import HeartbeatDesk
from navarch.api.http.server import listen
from navarch.api.tls import ServerTls
from navarch.app.servers import Address, in_use, link_name
from navarch.app.services import Services
from navarch.ports.agents import AgentApi, BootDesk
from navarch.ports.evidence import EvidenceDesk
from navarch.service.tokens import TokenUses


class Keeps(Protocol):
    """Something that is kept up to date."""

    async def run(self) -> None:
        """Keep it up to date until cancelled."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """What stands behind every door. All of it checks its caller."""

    auth: Authenticator
    services: Services
    agents: AgentApi
    desk: HeartbeatDesk
    evidence: EvidenceDesk
    boots: BootDesk
    uses: TokenUses
    keys: Keeps | None = None
    """What keeps the keys of an identity provider up to date."""


def build_grpc_server(
    doors: Doors, address: Address, *, calls: ApiMetrics, tls: ServerTls | None = None
) -> GrpcServer:
    """Return the gRPC server, or raise StartError if its address is not available."""
    if address.port:
        # gRPC does not report why a port is not available; a plain socket does.
        try:
            listen(address.host, address.port).close()
        except OSError as error:
            raise in_use(address, "grpc-address", error.strerror or str(error)) from error
    try:
        return GrpcServer(
            doors.services.fleet,
            doors.agents,
            auth=doors.auth,
            desk=doors.desk,
            address=str(address),
            evidence=doors.evidence,
            calls=calls,
            link=link_name(address, "grpc"),
            tls=tls,
        )
    except RuntimeError as error:
        raise in_use(address, "grpc-address", "the address is not available") from error

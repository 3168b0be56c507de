"""The doors of a server: where it listens, and what it asks for."""

import socket
from collections.abc import Mapping

from navarch.api.auth import Anyone, Authenticator, BearerToken, Identity
from navarch.api.grpc.server import GrpcServer
from navarch.api.heartbeats import HeartbeatDesk
from navarch.api.http.server import listen
from navarch.app.addresses import Address, StartError
from navarch.app.control_plane import Plane
from navarch.ports.evidence import EvidenceDesk
from navarch.ports.joining import Joins


class BearerAuth:
    """What the doors ask for, which a reload may change."""

    def __init__(self, token: str | None) -> None:
        self.token = token
        self._inner: Authenticator = Anyone()
        self.change(token)

    def change(self, token: str | None) -> None:
        """Ask for another token from now on."""
        self.token = token
        self._inner = BearerToken(token) if token else Anyone()

    def authenticate(self, headers: Mapping[bytes, bytes]) -> Identity | None:
        """Return who is asking."""
        return self._inner.authenticate(headers)


def listen_at(address: Address) -> socket.socket:
    """Return a socket that takes connections, or raise StartError."""
    try:
        return listen(address.host, address.port)
    except OSError as error:
        raise _taken(address, "address", error.strerror or str(error)) from error


def build_grpc_door(
    plane: Plane,
    lock: BearerAuth,
    desk: HeartbeatDesk,
    evidence: EvidenceDesk,
    joins: Joins,
    address: Address,
) -> GrpcServer:
    """Return the door for gRPC, or raise StartError if its address cannot be had."""
    if address.port:
        # gRPC does not say why it cannot have a port; asking for it first does.
        try:
            listen(address.host, address.port).close()
        except OSError as error:
            raise _taken(address, "grpc-address", error.strerror or str(error)) from error
    try:
        return GrpcServer(
            plane.fleet,
            plane.agents,
            auth=lock,
            desk=desk,
            address=str(address),
            evidence=evidence,
            joins=joins,
        )
    except RuntimeError as error:
        raise _taken(address, "grpc-address", "it cannot be had") from error


def _taken(address: Address, option: str, why: str) -> StartError:
    return StartError(
        f"cannot listen on {address}: {why}. Another server may be running there; stop it, "
        f"or choose another place with --{option}"
    )

"""The HTTP and gRPC servers of a control plane: sockets, authentication and process metrics."""

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
    """Authentication by bearer token; a reload may change the token."""

    def __init__(self, token: str | None) -> None:
        self.token = token
        self._inner: Authenticator = Anyone()
        self.change(token)

    def change(self, token: str | None) -> None:
        """Require another token from now on, or none."""
        self.token = token
        self._inner = BearerToken(token) if token else Anyone()

    def authenticate(self, headers: Mapping[bytes, bytes]) -> Identity | None:
        """Return the identity of the caller, None if it has no valid token."""
        return self._inner.authenticate(headers)


def listen_at(address: Address) -> socket.socket:
    """Return a listening socket, or raise StartError."""
    try:
        return listen(address.host, address.port)
    except OSError as error:
        raise _in_use(address, "address", error.strerror or str(error)) from error


def build_grpc_server(
    plane: Plane,
    auth: BearerAuth,
    desk: HeartbeatDesk,
    evidence: EvidenceDesk,
    joins: Joins,
    address: Address,
) -> GrpcServer:
    """Return the gRPC server, or raise StartError if its address is not available."""
    if address.port:
        # gRPC does not report why a port is not available; a plain socket does.
        try:
            listen(address.host, address.port).close()
        except OSError as error:
            raise _in_use(address, "grpc-address", error.strerror or str(error)) from error
    try:
        return GrpcServer(
            plane.fleet,
            plane.agents,
            auth=auth,
            desk=desk,
            address=str(address),
            evidence=evidence,
            joins=joins,
        )
    except RuntimeError as error:
        raise _in_use(address, "grpc-address", "the address is not available") from error


def _in_use(address: Address, option: str, why: str) -> StartError:
    return StartError(
        f"cannot listen on {address}: {why}. Another server may be running there; stop it, "
        f"or choose another address with --{option}"
    )

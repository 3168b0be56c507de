"""The HTTP and gRPC servers of a control plane: sockets, authentication and process metrics."""

import socket
from dataclasses import dataclass

from navarch.api.auth import Anyone, Authenticator, BearerToken, Chain, Credentials
from navarch.api.http.server import listen
from navarch.core.access import Identity
from navarch.core.errors import InvalidError, NavarchError

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"


class StartError(NavarchError):
    """The server cannot start; the message states why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A host and a port to listen at."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def shown(self) -> str:
        """Return the address for display: 0.0.0.0 and [::] mean all interfaces."""
        return f"{self} (all interfaces)" if self.host in (EVERYWHERE, "::") else str(self)

    def reachable(self) -> str:
        """Return the address by which a program on this machine connects."""
        host = {EVERYWHERE: LOOPBACK, "::": "::1"}.get(self.host, self.host)
        return str(Address(host=host, port=self.port))


def link_name(address: Address, protocol: str) -> str:
    """Return the name of a listener: where this host has many addresses, by the host's name."""
    host = socket.gethostname() if address.host in (EVERYWHERE, "::") else address.host
    return f"{Address(host=host, port=address.port)}/{protocol}"


def parse_listen_address(text: str, *, guarded: bool) -> Address:
    """Return the address to listen at; without a token it must be local."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if not port.isdecimal() or not 0 <= int(port) < 65536:
        raise InvalidError(f"{text!r} is not an address such as :50051 or 127.0.0.1:50051")
    if not guarded and host not in ("", LOOPBACK, "localhost", "::1"):
        raise StartError(
            f"will not listen on {text} without a token: whoever can reach it could spend your "
            f"money. Set NAVARCH_AUTH_TOKEN, or listen on {LOOPBACK}:{port}"
        )
    return Address(host=host or (EVERYWHERE if guarded else LOOPBACK), port=int(port))


class BearerAuth:
    """Authentication by bearer token; a reload may change the token."""

    def __init__(self, token: str | None, *, or_anyone: bool = True) -> None:
        """Without a token, every caller is accepted if `or_anyone`, else none by this link."""
        self.token = token
        self._or_anyone = or_anyone
        self._inner: Authenticator = Anyone()
        self.change(token)

    def change(self, token: str | None) -> None:
        """Require another token from now on, or none."""
        self.token = token
        if token:
            self._inner = BearerToken(token)
        else:
            self._inner = Anyone() if self._or_anyone else Chain([])

    def authenticate(self, credentials: Credentials) -> Identity | None:
        """Return the identity of the caller, None if it has no valid token."""
        return self._inner.authenticate(credentials)


def listen_at(address: Address) -> socket.socket:
    """Return a listening socket, or raise StartError."""
    try:
        return listen(address.host, address.port)
    except OSError as error:
        raise in_use(address, "address", error.strerror or str(error)) from error


def in_use(address: Address, option: str, why: str) -> StartError:
    """Return the error for an address that is not available."""
    return StartError(
        f"cannot listen on {address}: {why}. Another server may be running there; stop it, "
        f"or choose another address with --{option}"
    )

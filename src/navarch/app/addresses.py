"""The addresses at which a server listens."""

from dataclasses import dataclass

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

"""Where the doors are, and who can reach them."""

from dataclasses import dataclass

from navarch.core.errors import InvalidError, NavarchError

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"


class StartError(NavarchError):
    """The server cannot start as it was asked to; the message says what would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A place to listen."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def shown(self) -> str:
        """Return it for people: 0.0.0.0 and [::] stand for all interfaces."""
        return f"{self} (all interfaces)" if self.host in (EVERYWHERE, "::") else str(self)

    def reachable(self) -> str:
        """Return it as a program on this machine can call it."""
        host = {EVERYWHERE: LOOPBACK, "::": "::1"}.get(self.host, self.host)
        return str(Address(host=host, port=self.port))


def parse_listen_address(text: str, *, guarded: bool) -> Address:
    """Return where to listen; without a token, never where strangers can reach it."""
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

"""Server URLs: `http://host:50051`, `https://...` or `grpc://host:50052`."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from navarch.core.errors import InvalidError

_PORTS = {"http": 50051, "https": 443, "grpc": 50052}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address of a server, and the protocol to use."""

    scheme: str
    host: str
    port: int
    prefix: str = ""
    """A path prefix that a proxy adds."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"

    @property
    def authority(self) -> str:
        """The server in the form of a Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (
            host
            if self.port == {"http": 80, "https": 443}.get(self.scheme)
            else f"{host}:{self.port}"
        )


def parse_address(url: str) -> Address:
    """Return the address in `url`; the default scheme is http."""
    whole = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(whole)
        port = parts.port
    except ValueError as error:
        raise InvalidError(f"{url!r} is not a server URL: {error}") from error
    if parts.scheme not in _PORTS or not parts.hostname or parts.query or parts.username:
        raise InvalidError(
            f"{url!r} is not a server URL; try http://localhost:50051 or grpc://localhost:50052"
        )
    return Address(
        scheme=parts.scheme,
        host=parts.hostname,
        port=_PORTS[parts.scheme] if port is None else port,
        prefix=parts.path.rstrip("/"),
    )

"""Server URLs: `http://host:50051`, `https://...` or `grpc://host:50052`."""

from urllib.parse import urlsplit

from navarch.core.errors import InvalidError
from navarch.http.message import Endpoint

_PORTS = {"http": 50051, "https": 443, "grpc": 50052}


def parse_address(url: str) -> Endpoint:
    """Return the server in `url`; the default scheme is http."""
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
    return Endpoint(
        scheme=parts.scheme,
        host=parts.hostname,
        port=_PORTS[parts.scheme] if port is None else port,
        prefix=parts.path.rstrip("/"),
    )

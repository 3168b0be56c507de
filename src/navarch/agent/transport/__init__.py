"""Which link an address asks for."""

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from navarch.agent.transport.http_client import HttpConnection, parse_endpoint
from navarch.agent.transport.http_link import HttpLink
from navarch.core.errors import InvalidError
from navarch.ports.link import Link

TokenSource = Callable[[], str | None]
LinkFactory = Callable[[str, TokenSource], Link]
"""Makes a link to an address, with a token that may change from call to call."""


def http_link(server: str, token: TokenSource) -> Link:
    """Return a link over HTTP or HTTPS."""
    return HttpLink(HttpConnection(parse_endpoint(server)), token=token)


LINKS: Mapping[str, LinkFactory] = {"http": http_link, "https": http_link}


def open_link(
    server: str, *, token: TokenSource = lambda: None, links: Mapping[str, LinkFactory] = LINKS
) -> Link:
    """Return the link that `server`'s scheme asks for; nothing is sent before it is used."""
    scheme = urlsplit(server).scheme if "://" in server else ""
    if scheme not in links:
        known = ", ".join(f"{name}://" for name in sorted(links))
        raise InvalidError(f"{server!r} must start with one of {known}")
    return links[scheme](server, token)

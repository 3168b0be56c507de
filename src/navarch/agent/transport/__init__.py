"""Links to the control plane, chosen by the scheme of its address."""

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from navarch.agent.transport.http_link import HttpLink
from navarch.core.errors import InvalidError
from navarch.http.message import parse_endpoint
from navarch.http.tls import MakeContext
from navarch.ports.agents import Link

TokenSource = Callable[[], str | None]
LinkFactory = Callable[[str, TokenSource], Link]
"""Returns a link to an address. The token is read for every request, so it can be rotated."""


def http_link(server: str, token: TokenSource, tls: MakeContext | None = None) -> Link:
    """Return a link over HTTP or HTTPS."""
    return HttpLink(parse_endpoint(server), token=token, tls=tls)


LINKS: Mapping[str, LinkFactory] = {"http": http_link, "https": http_link}


def open_link(
    server: str, *, token: TokenSource = lambda: None, links: Mapping[str, LinkFactory] = LINKS
) -> Link:
    """Return the link for the scheme of `server`; the first request connects."""
    scheme = urlsplit(server).scheme if "://" in server else ""
    if scheme not in links:
        known = ", ".join(f"{name}://" for name in sorted(links))
        raise InvalidError(f"{server!r} must start with one of {known}")
    return links[scheme](server, token)

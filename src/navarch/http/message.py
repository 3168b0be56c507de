"""Endpoints, responses and errors."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from navarch.core.errors import InvalidError

PORTS: Mapping[str, int] = {"http": 80, "https": 443}


class HttpError(Exception):
    """No response was received."""


class NotSentError(HttpError):
    """The request was not sent and has no effect."""


class NoResponseError(HttpError):
    """The request may have arrived; its outcome is unknown."""


class DisconnectedError(NoResponseError):
    """The connection was closed before the first byte of a response.

    On a reused connection the usual cause is a server that closed it while it was idle.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request: the target is the path with its query, or a URL for a proxy."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    """Names are in lower case."""
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of a server."""

    scheme: str = "http"
    host: str
    port: int = 0
    prefix: str = ""
    """A path prefix, for a server behind a proxy."""
    socket: str = ""
    """The path of a Unix socket to connect to instead of host and port."""

    def __str__(self) -> str:
        if self.socket:
            return f"unix://{self.socket}"
        return f"{self.scheme}://{self.host_in_url}:{self.port}{self.prefix}"

    @property
    def host_in_url(self) -> str:
        """The host, in brackets if it is an IPv6 address."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        if self.port in (0, PORTS.get(self.scheme)):
            return self.host_in_url
        return f"{self.host_in_url}:{self.port}"


def parse_endpoint(url: str) -> Endpoint:
    """Return the endpoint of an http or https address; raise InvalidError if it is malformed."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidError(f"{url!r} is not an address: {error}") from error
    if parts.scheme not in PORTS or not parts.hostname:
        raise InvalidError(f"{url!r} is not an address; use http://host:50051")
    if parts.username or parts.query or parts.fragment:
        raise InvalidError(f"{url!r}: an address has a scheme, host, port and path, nothing else")
    if not (parts.path + parts.hostname).isascii() or any(c.isspace() for c in parts.path):
        raise InvalidError(f"{url!r}: an address may only contain ASCII characters without spaces")
    return Endpoint(
        scheme=parts.scheme,
        host=parts.hostname,
        port=port if port is not None else PORTS[parts.scheme],
        prefix=parts.path.rstrip("/"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """The address of a proxy, and the headers for it."""

    host: str
    port: int
    headers: Mapping[str, str]


def environment_proxy(endpoint: Endpoint) -> Proxy | None:
    """Return the proxy for `endpoint` from http_proxy, https_proxy and no_proxy."""
    # Imported late: the agent needs no proxy.
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    url = proxies.get(endpoint.scheme)
    if not url or proxy_bypass(f"{endpoint.host_in_url}:{endpoint.port}"):
        return None
    # The variable may contain a password, so no error quotes it.
    invalid = NotSentError(f"the environment's {endpoint.scheme}_proxy is not a URL")
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or 80
    except ValueError:
        raise invalid from None
    if not parts.hostname:
        raise invalid
    headers = {}
    if parts.username:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    return Proxy(host=parts.hostname, port=port, headers=headers)

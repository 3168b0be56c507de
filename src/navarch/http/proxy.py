"""The proxy that the environment sets for a server."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from navarch.http.message import Endpoint, NotSentError


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

"""The Host header of a server without a token.

A web page can point its own DNS name at 127.0.0.1 (DNS rebinding). The browser then treats this
server as the page's own site: it sends that name as Host and as Origin, and lets the page read the
responses. Without a token, only a loopback Host distinguishes the two.
"""

import re
from ipaddress import AddressValueError, IPv4Address

from navarch.api.http.exchange import Refusal, Scope

_LOOPBACK = re.compile(
    rb"(?:localhost\.?|\[::1\]|(?P<address>127\.[0-9.]+))(?::[0-9]*)?", re.IGNORECASE
)


def check_host(scope: Scope) -> None:
    """Reject a request unless it has exactly one Host header, which names loopback."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(hosts) == 1 and is_loopback(hosts[0]):
        return
    host, port = scope.get("server") or ("127.0.0.1", 50051)
    own = f"http://{'[::1]' if ':' in host else '127.0.0.1'}:{port}"
    raise Refusal(
        421,
        "permission_denied",
        "a server without a token serves only requests whose one Host header is localhost, an "
        "address in 127.0.0.0/8 or [::1], because any other name may belong to a web page; "
        f"use {own}, or set NAVARCH_AUTH_TOKEN for the server and its clients",
    )


def is_loopback(authority: bytes) -> bool:
    """Return whether a Host header, with or without a port, names loopback."""
    match = _LOOPBACK.fullmatch(authority)
    if match is None:
        return False
    if match["address"] is None:
        return True
    try:
        IPv4Address(match["address"].decode("ascii"))
    except AddressValueError:
        return False  # Such as 127.0.0.256 or 127.1.
    return True

"""Addresses that mean the machine on which they are used, and no other."""

import ipaddress
import socket
from urllib.parse import urlsplit

_LOCAL_NAMES = ("localhost", "localhost.localdomain")


def is_local(url: str) -> bool:
    """Return whether the host of `url` is a loopback or an unspecified address."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    if host in _LOCAL_NAMES or host.endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and (address.is_loopback or address.is_unspecified)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        return getattr(found, "ipv4_mapped", None) or found
    try:
        # The short forms that resolvers accept too, such as 127.1.
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None

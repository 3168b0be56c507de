"""A small HTTP client for the metadata service.

It uses no proxy, whatever the environment sets: the service identifies the machine by its
connection.
"""

import http.client
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from navarch.ports.metadata import MetadataError

BYTES_MAX = 64 * 1024
NOT_FOUND = 404
UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The response of a metadata service."""

    status: int
    text: str
    headers: Mapping[str, str]


def request(
    url: str, *, headers: Mapping[str, str], within_s: float, method: str = "GET"
) -> Response | None:
    """Return the response; None for "not found". Raise MetadataError if there is none."""
    parts = urlsplit(url)
    assert parts.hostname, url
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=within_s)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request(method, path, headers=dict(headers))
        reply = connection.getresponse()
        body = reply.read(BYTES_MAX + 1)
    except (OSError, http.client.HTTPException) as error:
        what = "no response in time" if isinstance(error, TimeoutError | socket.timeout) else error
        raise MetadataError(f"{method} {url}: {what}") from error
    finally:
        connection.close()
    if reply.status == NOT_FOUND:
        return None
    if len(body) > BYTES_MAX:
        raise MetadataError(f"{method} {url}: more than {BYTES_MAX} bytes")
    found = {name.lower(): word for name, word in reply.getheaders()}
    return Response(status=reply.status, text=body.decode(errors="replace"), headers=found)

"""HTTP calls with separate errors for unsent requests and lost responses.

For clouds without a suitable client. A call blocks, so it belongs on a thread. Every call opens a
new connection: when a kept connection has died, it is unknown whether the server received the
request.
"""

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

BODY_BYTES_MAX = 64 * 1024 * 1024
"""Larger than the listing of the largest account. A longer response is an error."""


class NotSentError(Exception):
    """The request was not sent and has no effect."""


class NoAnswerError(Exception):
    """The request may have arrived; its outcome is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A server's response."""

    status: int
    headers: Mapping[str, str]
    """Names are in lower case."""
    body: bytes


def call(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
    within_s: float,
) -> Answer:
    """Make one request; raise NotSentError or NoAnswerError if there is no response."""
    parts = urlsplit(url)
    assert parts.scheme in ("http", "https"), "the configuration has checked this"
    assert parts.hostname is not None, "the configuration has checked this"
    connection = _connection(parts.scheme, parts.hostname, parts.port, within_s)
    try:
        try:
            connection.connect()
        except (OSError, ValueError) as error:
            raise NotSentError(f"{parts.hostname}: {_message(error)}") from error
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        try:
            connection.request(method, path, body=body, headers=dict(headers))
            reply = connection.getresponse()
            content = reply.read(BODY_BYTES_MAX + 1)
        except ValueError:
            # The error would quote the invalid header's value, which may be a key.
            raise NotSentError(f"{parts.hostname}: a header that cannot be sent") from None
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswerError(f"{parts.hostname}: {_message(error)}") from error
        if len(content) > BODY_BYTES_MAX:
            raise NoAnswerError(f"{parts.hostname}: more than {BODY_BYTES_MAX} bytes")
        found = {name.lower(): value for name, value in reply.getheaders()}
        return Answer(status=reply.status, headers=found, body=content)
    finally:
        connection.close()


def _connection(
    scheme: str, host: str, port: int | None, within_s: float
) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=within_s)
    context = ssl.create_default_context()
    return http.client.HTTPSConnection(host, port, timeout=within_s, context=context)


def _message(error: Exception) -> str:
    return str(error) or type(error).__name__

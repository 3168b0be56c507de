"""One HTTP call after another, told apart by what may have come of it.

For clouds without a client worth having. A call blocks, so it belongs on a thread. Every call
has a connection of its own: one that was kept and has died meanwhile could not say whether the
server took the request.
"""

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

BODY_BYTES_MAX = 64 * 1024 * 1024
"""Larger than the largest account's listing; a server that sends more does not mean well."""


class NotSentError(Exception):
    """The request never left: nothing can have come of it."""


class NoAnswerError(Exception):
    """The request may have arrived, and what came of it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server said."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes


def call(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
    within_s: float,
) -> Answer:
    """Make one request; raise NotSentError or NoAnswerError where there is no answer."""
    parts = urlsplit(url)
    assert parts.scheme in ("http", "https"), "the configuration has checked this"
    assert parts.hostname is not None, "the configuration has checked this"
    connection = _connection(parts.scheme, parts.hostname, parts.port, within_s)
    try:
        try:
            connection.connect()
        except (OSError, ValueError) as error:
            raise NotSentError(f"{parts.hostname}: {_words(error)}") from error
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        try:
            connection.request(method, path, body=body, headers=dict(headers))
            reply = connection.getresponse()
            content = reply.read(BODY_BYTES_MAX + 1)
        except ValueError:
            # Of a header, whose value the error would quote: it may be a key.
            raise NotSentError(f"{parts.hostname}: a header that cannot be sent") from None
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswerError(f"{parts.hostname}: {_words(error)}") from error
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


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__

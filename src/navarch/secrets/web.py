"""Requests to services that keep secrets."""

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from navarch.core.errors import SecretError
from navarch.http.blocking import request
from navarch.http.message import HttpError

TIMEOUT_S = 10.0
BODY_BYTES_MAX = 256 * 1024

LINK_LOCAL = "169.254.169.254"
"""The metadata service of a cloud machine, which has no TLS."""


def ask(
    what: str,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
) -> dict[str, object]:
    """Return the JSON object that a service answers; SecretError otherwise.

    Redirects are not followed, and no part of an answer becomes part of an error: it may be a
    secret.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in (
        "localhost",
        "127.0.0.1",
        "::1",
        LINK_LOCAL,
    ):
        raise SecretError(f"{what}: {parts.scheme}://{parts.netloc} is not https")
    try:
        answer = request(
            method,
            url,
            headers=headers,
            body=body,
            timeout_s=TIMEOUT_S,
            body_bytes_max=BODY_BYTES_MAX,
        )
    except (HttpError, ValueError) as error:
        raise SecretError(f"{what}: {error}") from None
    if answer.status != 200:
        raise SecretError(f"{what}: status {answer.status}{_HINTS.get(answer.status, '')}")
    try:
        return msgspec.json.decode(answer.body, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        raise SecretError(f"{what}: the answer is not a JSON object") from None


_HINTS = {
    401: "; the credentials of this machine are not accepted",
    403: "; this machine may not read it",
    404: "; there is no such secret",
    429: "; too many requests",
}

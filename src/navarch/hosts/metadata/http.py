"""Requests to a metadata service.

They use no proxy, whatever the environment sets: the service identifies the machine by its
connection.
"""

from collections.abc import Mapping

from navarch.http.blocking import request
from navarch.http.message import HttpError, Response
from navarch.ports.host import MetadataError

BYTES_MAX = 64 * 1024
NOT_FOUND = 404
UNAUTHORIZED = 401


def fetch(
    url: str,
    *,
    headers: Mapping[str, str],
    within_s: float,
    method: str = "GET",
    body: bytes | None = None,
) -> Response | None:
    """Return the response; None for "not found". Raise MetadataError if there is none."""
    try:
        response = request(
            method, url, headers=headers, body=body, timeout_s=within_s, body_bytes_max=BYTES_MAX
        )
    except HttpError as error:
        raise MetadataError(f"{method} {url}: {error}") from error
    return None if response.status == NOT_FOUND else response


def text(response: Response) -> str:
    """Return the body as text."""
    return response.body.decode(errors="replace").strip()

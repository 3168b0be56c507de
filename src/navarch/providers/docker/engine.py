"""The Docker Engine API, with one connection per request.

The official client is synchronous and large; Navarch makes about five calls a minute.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from navarch.core.errors import CredentialError, InvalidError, OutcomeUnknownError, TransientError
from navarch.http.message import Endpoint, NoResponseError, NotSentError, Response
from navarch.http.pool import ConnectionPool

VERSION = "v1.41"
"""The oldest API version with every call used here; newer engines still support it."""
DEFAULT_HOST = "unix:///var/run/docker.sock"

_HEADERS = {"Connection": "close", "Content-Type": "application/json"}


class Engine:
    """The API of one engine."""

    def __init__(self, connections: ConnectionPool, where: str) -> None:
        self._connections = connections
        self.where = where

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
    ) -> Response:
        """Make one request and return the response, whatever its status.

        Raises TransientError if the engine cannot be reached, CredentialError if access is
        denied, and OutcomeUnknownError if the response is lost.
        """
        content = b"" if body is None else msgspec.json.encode(body)
        try:
            return await self._connections.request(
                method, target(path, query), headers=_HEADERS, body=content
            )
        except NotSentError as error:
            if isinstance(error.__cause__, PermissionError):
                raise CredentialError(
                    f"{self.where}: permission denied; join the group of the socket (docker)"
                ) from error
            raise TransientError(f"no Docker engine at {self.where}: {error}") from error
        except NoResponseError as error:
            raise OutcomeUnknownError(f"no response from the Docker engine: {error}") from error


def engine_at(host: str) -> Engine:
    """Return the engine at an address in DOCKER_HOST's format; raise InvalidError for others."""
    parts = urlsplit(host)
    if parts.scheme == "unix":
        return Engine(ConnectionPool(Endpoint(host="docker", socket=parts.path)), host)
    if parts.scheme in ("tcp", "http") and parts.hostname and parts.port:
        return Engine(ConnectionPool(Endpoint(host=parts.hostname, port=parts.port)), host)
    raise InvalidError(
        f"{host!r} is no engine address; write unix:///var/run/docker.sock or tcp://HOST:PORT"
    )


def target(path: str, query: Mapping[str, str] | None) -> str:
    """Return the request target: versioned path and query."""
    return f"/{VERSION}{path}" + (f"?{urlencode(query)}" if query else "")


def error_message(response: Response) -> str:
    """Return the error message of a failed request."""
    try:
        return str(msgspec.json.decode(response.body)["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return response.body.decode(errors="replace").strip()[:300]


def decode(response: Response) -> Any:  # noqa: ANN401 - the engine's own structures
    """Return the decoded body of a response."""
    try:
        return msgspec.json.decode(response.body)
    except msgspec.DecodeError as error:
        raise OutcomeUnknownError(f"the engine's response is not JSON: {error}") from error

"""Authentication of requests: the interface, the built-in authenticators, and join tokens."""

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from navarch.core.errors import UnauthenticatedError
from navarch.core.ownership import PREFIX
from navarch.ports.agents import Joins

AUTHORIZATION = b"authorization"
REALM = 'Bearer realm="navarch"'
UNAUTHORIZED = "unauthorized"
"""The whole response to a request without valid credentials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """An authenticated caller."""

    subject: str
    groups: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)


class Authenticator(Protocol):
    """Identifies the caller from the headers of a request (their names in lower case).

    class FromProxy:
        def authenticate(self, headers):
            user = headers.get(b"x-forwarded-user")
            return None if user is None else Identity(subject=user.decode())
    """

    def authenticate(self, headers: Mapping[bytes, bytes]) -> Identity | None:
        """Return the caller, or None if the request carries no credentials of this kind.

        Raises UnauthenticatedError for credentials that are wrong. A call without any header
        shows whether credentials are required at all.
        """
        ...


class BearerToken:
    """Accepts every caller with the one token."""

    def __init__(self, token: str, *, subject: str = "system:authenticated") -> None:
        self._token = token.encode()
        self._identity = Identity(subject=subject)

    def authenticate(self, headers: Mapping[bytes, bytes]) -> Identity | None:
        """Compare the token in constant time."""
        header = headers.get(AUTHORIZATION)
        # An empty token would accept an empty one.
        if header is None or not self._token:
            return None
        if header[:7].lower() != b"bearer " or len(header) == 7:
            raise UnauthenticatedError("malformed authorization header")
        if not hmac.compare_digest(header[7:], self._token):
            raise UnauthenticatedError("invalid bearer token")
        return self._identity


class Anyone:
    """Accepts every caller: for a server without a token, which must listen on loopback only."""

    def __init__(self) -> None:
        self._identity = Identity(subject="system:anonymous")

    def authenticate(self, headers: Mapping[bytes, bytes]) -> Identity | None:  # noqa: ARG002
        """Return the anonymous identity."""
        return self._identity


def identify(authenticator: Authenticator, headers: Mapping[bytes, bytes]) -> Identity:
    """Return the caller, or raise UnauthenticatedError."""
    identity = authenticator.authenticate(headers)
    if identity is None:
        raise UnauthenticatedError("no credentials")
    return identity


def requires_credentials(authenticator: Authenticator) -> bool:
    """Return whether a request without credentials is rejected."""
    try:
        return authenticator.authenticate({}) is None
    except UnauthenticatedError:
        return True


def headers_in(pairs: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return the headers of a request by name; raise UnauthenticatedError for two credentials.

    A proxy in front of the server may check one of them, and the server the other.
    """
    headers: dict[bytes, bytes] = {}
    for name, value in pairs:
        if name == AUTHORIZATION and name in headers:
            raise UnauthenticatedError("more than one authorization header")
        headers[name] = value
    return headers


AGENTS = "agents"
"""The group of callers that may only make agent calls, for their own node."""
TOKEN = "join-token"
_BEARER = b"bearer " + PREFIX.encode()


def shown_in(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the join token in the headers, if there is one."""
    header = headers.get(AUTHORIZATION)
    if header is None or header[: len(_BEARER)].lower() != _BEARER:
        return None
    return header[7:].decode("ascii", errors="replace")


class JoinTokens:
    """Identifies machines by their join tokens, and other callers by another authenticator."""

    def __init__(self, joins: Joins, others: Authenticator) -> None:
        self._joins = joins
        self._others = others

    def authenticate(self, headers: Mapping[bytes, bytes]) -> Identity | None:
        """Return the identity of the machine with the join token, or of another caller."""
        shown = shown_in(headers)
        if shown is None:
            return self._others.authenticate(headers)
        joiner = self._joins.recognize(shown)
        return Identity(
            subject=f"node:{joiner.node}",
            groups=(AGENTS,),
            extra={"node": joiner.node, TOKEN: shown},
        )

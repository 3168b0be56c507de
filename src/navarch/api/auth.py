"""Authentication of requests: the interface, the chain, and the built-in authenticators."""

import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

from navarch.core.access import ADMIN, AGENT, Grant, Identity
from navarch.core.access_token import PREFIX as TOKEN_PREFIX
from navarch.core.errors import UnauthenticatedError
from navarch.core.ownership import HOST_PREFIX, PREFIX
from navarch.ports.agents import Joins
from navarch.ports.tokens import TokenBook

__all__ = ["Identity"]

AUTHORIZATION = b"authorization"
REALM = 'Bearer realm="navarch"'
UNAUTHORIZED = "unauthorized"
"""The whole response to a request without valid credentials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCertificate:
    """The certificate of a TLS client, verified against the configured authorities."""

    common_name: str = ""
    names: tuple[str, ...] = ()
    """The alternative names: DNS names, URIs and e-mail addresses."""


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """What a request shows of its caller."""

    headers: Mapping[bytes, bytes] = field(default_factory=dict)
    """The headers by name, in lower case; for gRPC the metadata."""
    certificate: ClientCertificate | None = None

    @cached_property
    def bearer(self) -> str | None:
        """The bearer token; None if there is none, or credentials of another scheme."""
        header = self.headers.get(AUTHORIZATION, b"")
        if header[:7].lower() != b"bearer " or len(header) == 7:
            return None
        return header[7:].decode("utf-8", errors="replace")

    @cached_property
    def proven(self) -> dict[object, Identity]:
        """What an authenticator found once and for all: a connection repeats its credentials.

        Only what no later event can make false, such as a signature.
        """
        return {}


class Authenticator(Protocol):
    """Identifies the caller of a request by one kind of credentials.

    class FromProxy:
        def authenticate(self, credentials):
            user = credentials.headers.get(b"x-forwarded-user")
            return None if user is None else Identity(subject=f"proxy:{user.decode()}")

    `server.access.bindings` give the caller its roles. What authenticates must be quick: it runs
    for every request, and for every message of a stream.
    """

    def authenticate(self, credentials: Credentials) -> Identity | None:
        """Return the caller, or None if the request carries no credentials of this kind.

        Raises UnauthenticatedError for credentials of this kind that are wrong. Empty credentials
        show whether any are required at all.
        """
        ...


class BearerToken:
    """Accepts every caller with the one token, as an administrator."""

    def __init__(self, token: str, *, subject: str = "system:authenticated") -> None:
        self._token = token.encode()
        self._identity = Identity(subject=subject, grants=ADMIN)

    def authenticate(self, credentials: Credentials) -> Identity | None:
        """Compare the token in constant time. It is the last link: any other token is wrong."""
        # An empty token would accept an empty one.
        if AUTHORIZATION not in credentials.headers or not self._token:
            return None
        shown = credentials.bearer
        if shown is None:
            raise UnauthenticatedError("malformed authorization header")
        if not hmac.compare_digest(shown.encode(), self._token):
            raise UnauthenticatedError("invalid bearer token")
        return self._identity


class Anyone:
    """Accepts every caller: for a server without a token, which must listen on loopback only."""

    def __init__(self) -> None:
        self._identity = Identity(subject="system:anonymous", grants=ADMIN)

    def authenticate(self, credentials: Credentials) -> Identity | None:  # noqa: ARG002
        """Return the anonymous identity."""
        return self._identity


class JoinTokens:
    """Identifies machines by their join tokens."""

    def __init__(self, joins: Joins) -> None:
        self._joins = joins

    def authenticate(self, credentials: Credentials) -> Identity | None:
        """Return the identity of the machine with the join token; None for other tokens."""
        shown = credentials.bearer
        if shown is None or not shown.startswith((PREFIX, HOST_PREFIX)):
            return None
        proven = credentials.proven.get(self)
        if proven is not None and proven.joiner is not None:
            self._joins.check_expected(proven.joiner)
            return proven
        joiner = self._joins.recognize(shown)
        identity = Identity(subject=f"node:{joiner.node}", grants=AGENT, joiner=joiner)
        if shown.startswith(PREFIX):
            # The cluster's signature stays true; the token of a host may be replaced.
            credentials.proven[self] = identity
        return identity


class StoredTokens:
    """Identifies callers by stored tokens."""

    def __init__(self, tokens: TokenBook) -> None:
        self._tokens = tokens

    def authenticate(self, credentials: Credentials) -> Identity | None:
        """Return the identity of a stored token; None for other tokens."""
        shown = credentials.bearer
        if shown is None or not shown.startswith(TOKEN_PREFIX):
            return None
        return self._tokens.recognize_token(shown)


class Certificates:
    """Identifies callers by their TLS certificates, which the handshake has verified."""

    def authenticate(self, credentials: Credentials) -> Identity | None:
        """Return the identity of the certificate: its first alternative name, else its subject."""
        shown = credentials.certificate
        # A wrong token stays wrong, whatever certificate comes with it.
        if shown is None or AUTHORIZATION in credentials.headers:
            return None
        name = next(iter(shown.names), shown.common_name)
        if not name or not name.isprintable():
            raise UnauthenticatedError("the client certificate has no name")
        return Identity(subject=f"cert:{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A grant for the callers that it names, or that are in one of its groups."""

    grant: Grant
    subjects: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def includes(self, identity: Identity) -> bool:
        """Return whether the grant is for this caller."""
        return identity.subject in self.subjects or not self.groups.isdisjoint(identity.groups)


class Bound:
    """Gives the callers of an authenticator the grants of their bindings, and no others."""

    def __init__(self, inner: Authenticator, bindings: Callable[[], Sequence[Binding]]) -> None:
        """`bindings` are read for every request, because a reload may change them."""
        self._inner = inner
        self._bindings = bindings

    def authenticate(self, credentials: Credentials) -> Identity | None:
        """Return the caller with its grants."""
        found = self._inner.authenticate(credentials)
        if found is None:
            return None
        grants = (each.grant for each in self._bindings() if each.includes(found))
        return replace(found, grants=tuple(grants))


class Chain:
    """Asks authenticators in turn; the first that recognizes the kind of credentials decides."""

    def __init__(self, links: Sequence[Authenticator]) -> None:
        self._links = tuple(links)

    def authenticate(self, credentials: Credentials) -> Identity | None:
        """Return the first identity, or None; UnauthenticatedError if credentials are wrong."""
        for link in self._links:
            found = link.authenticate(credentials)
            if found is not None:
                return found
        return None


def identify(authenticator: Authenticator, credentials: Credentials) -> Identity:
    """Return the caller, or raise UnauthenticatedError."""
    identity = authenticator.authenticate(credentials)
    if identity is None:
        raise UnauthenticatedError("no credentials")
    return identity


_NOTHING = Credentials()


def requires_credentials(authenticator: Authenticator) -> bool:
    """Return whether a request without credentials is rejected."""
    try:
        return authenticator.authenticate(_NOTHING) is None
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

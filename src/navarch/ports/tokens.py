"""The API for stored tokens, and for what the caller may do."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from navarch.core.access import Grant, Identity
from navarch.core.ids import TokenName


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """A token to create."""

    name: TokenName
    grant: Grant
    expires_in: timedelta | None = timedelta(days=90)
    """None: it does not expire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenView:
    """A token as administrators see it: without a secret or its hash."""

    name: TokenName
    grant: Grant
    created_at: datetime
    rotated_at: datetime | None
    expires_at: datetime | None
    """When its newest secret expires; None if it does not."""
    old_secret_until: datetime | None
    """How long the secret before the last rotation is accepted."""
    last_used_at: datetime | None
    expired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedToken:
    """A new secret. It is shown this once and stored nowhere."""

    name: TokenName
    token: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of a request, and what it may do."""

    subject: str
    grants: tuple[Grant, ...]
    groups: tuple[str, ...] = ()


@runtime_checkable
class TokenApi(Protocol):
    """The API for stored tokens, served in-process and over HTTP.

    Raises NotFoundError for an unknown name, InvalidError for an invalid request.
    """

    async def whoami(self) -> Caller:
        """Return the caller of this request."""

    async def create_token(self, request: TokenRequest, *, reason: str = "") -> IssuedToken:
        """Create a token; ConflictError if the name is taken."""

    async def list_tokens(self) -> Sequence[TokenView]:
        """Return every token, by name."""

    async def rotate_token(
        self,
        token: TokenName,
        *,
        overlap: timedelta = timedelta(hours=24),
        expires_in: timedelta | None = timedelta(days=90),
    ) -> IssuedToken:
        """Give a token a new secret; the one before is accepted for `overlap`."""

    async def revoke_token(self, token: TokenName, *, reason: str = "") -> None:
        """Delete a token: none of its secrets is accepted from now on."""


class TokenBook(Protocol):
    """Recognizes stored tokens."""

    def recognize_token(self, shown: str) -> Identity:
        """Return the identity of a token, or raise UnauthenticatedError."""

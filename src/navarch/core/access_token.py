"""Stored tokens: named, hashed, expiring credentials of people and programs."""

import hashlib
import hmac
import re
from datetime import datetime

import msgspec

from navarch.core.access import Grant
from navarch.core.ids import TokenName

TOKEN_CHARACTERS_MIN = 16
"""Guessing 16 random hexadecimal digits takes longer than any server runs."""

TOKEN_REMEDY = "make one with: openssl rand -hex 32"

PREFIX = "nvt1."
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class TokenSecret(msgspec.Struct, frozen=True, kw_only=True):
    """One secret of a token: its hash, and how long it is accepted."""

    sha256: str
    """The secret is random and long, so a plain hash cannot be reversed."""
    created_at: datetime
    expires_at: datetime | None = None
    """None: it does not expire."""

    def valid(self, now: datetime) -> bool:
        """Return whether it is accepted at `now`."""
        return self.expires_at is None or now < self.expires_at


class AccessToken(msgspec.Struct, frozen=True, kw_only=True):
    """A credential with a name and a grant. While it is rotated, it has two secrets."""

    name: TokenName
    grant: Grant
    created_at: datetime
    secrets: tuple[TokenSecret, ...]
    """The newest first."""
    last_used_at: datetime | None = None
    """Recorded every few minutes only."""

    def accepts(self, secret: str, now: datetime) -> bool:
        """Return whether `secret` is one of its secrets and still valid."""
        digest = sha256_of(secret)
        # Every secret is compared, so that the time does not tell which one matched.
        matches = [hmac.compare_digest(each.sha256, digest) for each in self.secrets]
        return any(
            same and each.valid(now) for same, each in zip(matches, self.secrets, strict=True)
        )


def is_token_name(text: str) -> bool:
    """Return whether a token may have this name."""
    return _NAME.fullmatch(text) is not None


def sha256_of(secret: str) -> str:
    """Return the hash under which a secret is stored."""
    return hashlib.sha256(secret.encode()).hexdigest()


def render_token(name: TokenName, secret: str) -> str:
    """Return the token as its owner sends it."""
    return f"{PREFIX}{name}.{secret}"


def parse_token(shown: str) -> tuple[TokenName, str] | None:
    """Return the name and the secret of a token, or None if it has another form."""
    name, _, secret = shown.removeprefix(PREFIX).partition(".")
    if not shown.startswith(PREFIX) or not is_token_name(name) or not secret:
        return None
    return TokenName(name), secret


def too_short(token: str) -> str:
    """Return what is wrong with a token that can be guessed."""
    return f"has {len(token)} characters; a token needs {TOKEN_CHARACTERS_MIN} or more"

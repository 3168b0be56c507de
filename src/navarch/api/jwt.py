"""JSON Web Tokens of an identity provider (OpenID Connect)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import jwt
import msgspec
import structlog

from navarch.api.auth import Credentials
from navarch.core.access import Identity
from navarch.core.errors import UnauthenticatedError, UnreachableError
from navarch.ports.clock import Clock

TOKEN_CHARACTERS_MAX = 16_384
KEYS_MAX = 100
ASK_AGAIN_S = 30.0
"""The shortest interval between two fetches, whatever tokens arrive: anyone can send a token that
names an unknown key."""
KEYS_KEPT = timedelta(hours=24)
"""How long keys are used without a successful fetch. After that, no token is accepted."""
LOOK_S = 1.0

PUBLIC_KEYS = frozenset({"RSA", "EC", "OKP"})

log = structlog.get_logger(__name__)

Fetch = Callable[[], Awaitable[bytes]]
"""Fetches the key set, or raises UnreachableError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """What a token must satisfy."""

    issuer: str
    audience: str
    algorithms: tuple[str, ...]
    """Signatures with a public key only: with a shared secret, a public key could sign."""
    subject_claim: str = "sub"
    groups_claim: str = "groups"
    clock_skew: timedelta = timedelta(seconds=60)


class KeySet:
    """The public keys of an identity provider, fetched in the background."""

    def __init__(self, clock: Clock, fetch: Fetch, *, refresh: timedelta) -> None:
        self._clock = clock
        self._fetch = fetch
        self._refresh_s = refresh.total_seconds()
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._wanted = False

    def find(self, key_id: str) -> jwt.PyJWK:
        """Return a key. An unknown one is asked for, and may be there a moment later."""
        now = self._clock.monotonic()
        if self._fetched_at is None or now - self._fetched_at > KEYS_KEPT.total_seconds():
            self._wanted = True
            raise UnauthenticatedError("the keys of the identity provider are not known")
        found = self._keys.get(key_id)
        if found is None:
            self._wanted = True
            raise UnauthenticatedError("the token is signed with an unknown key")
        return found

    async def run(self) -> None:
        """Keep the keys up to date until cancelled."""
        while True:
            if self.due():
                await self.fetch()
            await self._clock.sleep(LOOK_S)

    def due(self) -> bool:
        """Return whether the keys should be fetched now."""
        if self._tried_at is None:
            return True
        since = self._clock.monotonic() - self._tried_at
        if since < ASK_AGAIN_S:
            return False
        failed = self._fetched_at is None or self._fetched_at < self._tried_at
        return self._wanted or failed or since >= self._refresh_s

    async def fetch(self) -> None:
        """Fetch the keys; keep the present ones if that fails."""
        self._tried_at = self._clock.monotonic()
        self._wanted = False
        try:
            keys = parse_keys(await self._fetch())
        except UnreachableError as error:
            log.warning("oidc.keys_not_fetched", error=str(error))
            return
        except Exception:  # what another service sends must not end the server
            log.exception("oidc.keys_not_fetched")
            return
        self._keys, self._fetched_at = keys, self._tried_at


class _Listed(msgspec.Struct):
    keys: list[dict[str, Any]]


def parse_keys(body: bytes) -> Mapping[str, jwt.PyJWK]:
    """Return the usable public keys of a key set, by their ids; UnreachableError for none."""
    try:
        listed = msgspec.json.decode(body, type=_Listed).keys
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreachableError(f"the identity provider sent no key set: {error}") from error
    found: dict[str, jwt.PyJWK] = {}
    for each in listed[:KEYS_MAX]:
        if each.get("kty") not in PUBLIC_KEYS:
            continue
        if each.get("use", "sig") != "sig" or not isinstance(each.get("kid"), str):
            continue
        try:
            found[each["kid"]] = jwt.PyJWK(each)
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue  # One key of a kind that is not supported must not hide the others.
    if not found:
        raise UnreachableError("the identity provider has no key for signatures")
    return found


class JsonWebTokens:
    """Identifies callers by tokens of one identity provider."""

    def __init__(self, rules: TokenRules, keys: KeySet) -> None:
        self._rules = rules
        self._keys = keys

    def authenticate(self, credentials: Credentials) -> Identity | None:
        """Return the identity of a token of this issuer; None for other credentials."""
        shown = credentials.bearer
        if shown is None or not _is_from(shown, self._rules.issuer):
            return None
        try:
            claims = self._verified(shown)
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise UnauthenticatedError(f"invalid token: {error}") from error
        return identity_from(claims, self._rules)

    def _verified(self, shown: str) -> Mapping[str, Any]:
        header = jwt.get_unverified_header(shown)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in self._rules.algorithms:
            raise UnauthenticatedError(f"the signature {algorithm!r} is not accepted")
        if "crit" in header or not isinstance(key_id, str):
            raise UnauthenticatedError("the token has no key id, or needs an extension")
        key = self._keys.find(key_id)
        claims: dict[str, Any] = jwt.decode(
            shown,
            key=key.key,
            # A key that names its algorithm is for that one only.
            algorithms=[algorithm] if key.algorithm_name in (None, algorithm) else [],
            audience=self._rules.audience,
            issuer=self._rules.issuer,
            leeway=self._rules.clock_skew.total_seconds(),
            options={"require": ["exp", "iss", "aud", self._rules.subject_claim]},
        )
        return claims


def _is_from(shown: str, issuer: str) -> bool:
    """Return whether a token claims to be of this issuer; its signature is checked later."""
    if shown.count(".") != 2 or len(shown) > TOKEN_CHARACTERS_MAX:
        return False
    try:
        claims = jwt.decode(shown, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        return False
    return bool(claims.get("iss") == issuer)


def identity_from(claims: Mapping[str, Any], rules: TokenRules) -> Identity:
    """Return the caller that verified claims name."""
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject or not subject.isprintable():
        raise UnauthenticatedError(f"the claim {rules.subject_claim} is empty or not printable")
    if rules.subject_claim == "email" and claims.get("email_verified") is not True:
        raise UnauthenticatedError("the e-mail address is not verified")
    groups = claims.get(rules.groups_claim, ())
    return Identity(subject=f"oidc:{subject}", groups=_texts(groups))


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence):
        return ()
    return tuple(each for each in value if isinstance(each, str))

"""Stored tokens: creation, rotation, revocation and recognition."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from navarch.control.runtime.controller import retried
from navarch.core.access import Identity as CallerIdentity
from navarch.core.access import Role, caller
from navarch.core.access_token import (
    AccessToken,
    TokenSecret,
    is_token_name,
    parse_token,
    render_token,
    sha256_of,
)
from navarch.core.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    NotPossibleError,
    StoreError,
    UnauthenticatedError,
)
from navarch.core.event import BY_HAND, Event, about
from navarch.core.fleet import Change
from navarch.core.ids import TokenName
from navarch.core.records import evolve
from navarch.ports.clock import Clock, Entropy
from navarch.ports.store import Store
from navarch.ports.tokens import Caller, IssuedToken, TokenRequest, TokenView

EXPIRES_MAX = timedelta(days=3650)
OVERLAP_MAX = timedelta(days=30)
TOKENS_MAX = 10_000
PATTERNS_MAX = 100

USE_EVERY = timedelta(minutes=10)
"""How precisely the last use of a token is recorded. Each record costs a commit."""
SAVE_EVERY_S = 60.0


class TokenService:
    """Serves TokenApi, and recognizes tokens."""

    def __init__(
        self, clock: Clock, entropy: Entropy, store: Store, uses: "TokenUses | None" = None
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._store = store
        self._uses = uses or TokenUses(clock, store)

    async def whoami(self) -> Caller:
        """Return the caller of this request."""
        who = caller()
        return Caller(subject=who.subject, grants=who.grants, groups=who.groups)

    @retried
    async def create_token(self, request: TokenRequest, *, reason: str = "") -> IssuedToken:
        """Create a token."""
        _check(request)
        fleet = self._store.fleet()
        name = request.name
        if name in fleet.access_tokens:
            raise NotPossibleError(
                f"a token named {name} exists; rotate it, revoke it, or choose another name"
            )
        if len(fleet.access_tokens) >= TOKENS_MAX:
            raise NotPossibleError(f"there are {TOKENS_MAX} tokens; revoke some first")
        shown, secret = self._new_secret(name, request.expires_in)
        token = AccessToken(
            name=name,
            grant=request.grant,
            created_at=secret.created_at,
            secrets=(secret,),
        )
        why = f"as {request.grant}{_until(secret)}{_because(reason)}"
        await self._write(token, "token.created", why)
        return IssuedToken(name=name, token=shown, expires_at=secret.expires_at)

    async def list_tokens(self) -> Sequence[TokenView]:
        """Return every token, by name."""
        tokens = self._store.fleet().access_tokens
        return [self._view(tokens[name]) for name in sorted(tokens)]

    @retried
    async def rotate_token(
        self,
        token: TokenName,
        *,
        overlap: timedelta = timedelta(hours=24),
        expires_in: timedelta | None = timedelta(days=90),
    ) -> IssuedToken:
        """Give a token a new secret."""
        _check_span("expires_in", expires_in, EXPIRES_MAX)
        if not timedelta(0) <= overlap <= OVERLAP_MAX:
            raise InvalidError(f"overlap: must be 0 to {OVERLAP_MAX.days} days")
        known = self._found(token)
        shown, secret = self._new_secret(token, expires_in)
        old, ends = known.secrets[0], secret.created_at + overlap
        kept = evolve(old, expires_at=min(ends, old.expires_at or ends))
        secrets = (secret, kept) if kept.valid(secret.created_at) else (secret,)
        why = f"the secret before is accepted until {ends:%Y-%m-%d %H:%M} UTC{_until(secret)}"
        await self._write(evolve(known, secrets=secrets), "token.rotated", why)
        return IssuedToken(name=token, token=shown, expires_at=secret.expires_at)

    @retried
    async def revoke_token(self, token: TokenName, *, reason: str = "") -> None:
        """Delete a token."""
        self._found(token)
        fleet = self._store.fleet()
        event = self._event(token, "token.revoked", reason.strip() or "by hand")
        change = Change(forget_access_tokens=[token], events=[event])
        await self._store.commit(change, based_on=fleet.revision)

    def recognize_token(self, shown: str) -> CallerIdentity:
        """Return the identity of a token, or raise UnauthenticatedError."""
        parsed = parse_token(shown)
        if parsed is None:
            raise UnauthenticatedError("malformed token")
        name, secret = parsed
        token, now = self._store.fleet().access_tokens.get(name), self._clock.now()
        if token is None or not token.accepts(secret, now):
            raise UnauthenticatedError("the token is unknown, expired or revoked")
        self._uses.note(name, now)
        return CallerIdentity(subject=f"token:{name}", grants=(token.grant,))

    def _new_secret(self, name: TokenName, span: timedelta | None) -> tuple[str, TokenSecret]:
        now, secret = self._clock.now(), self._entropy.secret().hex()
        expires_at = None if span is None else now + span
        stored = TokenSecret(sha256=sha256_of(secret), created_at=now, expires_at=expires_at)
        return render_token(name, secret), stored

    def _found(self, name: TokenName) -> AccessToken:
        token = self._store.fleet().access_tokens.get(name)
        if token is None:
            raise NotFoundError(f"token not found: {name}")
        return token

    async def _write(self, token: AccessToken, kind: str, why: str) -> None:
        event = self._event(token.name, kind, why)
        change = Change(access_tokens=[token], events=[event])
        await self._store.commit(change, based_on=self._store.fleet().revision)

    def _event(self, name: TokenName, kind: str, why: str) -> Event:
        facts = {"by": BY_HAND}
        at = self._clock.now()
        return Event(at=at, about=about("token", name), kind=kind, reason=why, facts=facts)

    def _view(self, token: AccessToken) -> TokenView:
        now, newest = self._clock.now(), token.secrets[0]
        older = [each for each in token.secrets[1:] if each.valid(now)]
        rotated = newest.created_at if newest.created_at != token.created_at else None
        return TokenView(
            name=token.name,
            grant=token.grant,
            created_at=token.created_at,
            rotated_at=rotated,
            expires_at=newest.expires_at,
            old_secret_until=older[0].expires_at if older else None,
            last_used_at=self._uses.last(token),
            expired=not any(each.valid(now) for each in token.secrets),
        )


class TokenUses:
    """Remembers when each token was last used, and records it every few minutes."""

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._store = store
        self._used: dict[TokenName, datetime] = {}

    def note(self, token: TokenName, at: datetime) -> None:
        """Remember a use."""
        self._used[token] = at

    def last(self, token: AccessToken) -> datetime | None:
        """Return the last use that is known here."""
        known = [x for x in (token.last_used_at, self._used.get(token.name)) if x is not None]
        return max(known, default=None)

    async def run(self) -> None:
        """Record uses until cancelled."""
        while True:
            await self._clock.sleep(SAVE_EVERY_S)
            # Neither a full disk nor a conflict may end the server: the next round records it.
            with suppress(StoreError, ConflictError):
                await self.save()

    @retried
    async def save(self) -> None:
        """Record the uses that are much later than those recorded before."""
        fleet = self._store.fleet()
        tokens = [
            evolve(token, last_used_at=used)
            for name, used in self._used.items()
            if (token := fleet.access_tokens.get(name)) is not None
            and (token.last_used_at is None or used - token.last_used_at >= USE_EVERY)
        ]
        if tokens:
            await self._store.commit(Change(access_tokens=tokens), based_on=fleet.revision)


def _check(request: TokenRequest) -> None:
    if not is_token_name(request.name):
        raise InvalidError(
            "name: use 1 to 63 lower-case letters, digits and hyphens, such as ci-deploy"
        )
    _check_span("expires_in", request.expires_in, EXPIRES_MAX)
    grant = request.grant
    if len(grant.pools) + len(grant.teams) > PATTERNS_MAX:
        raise InvalidError(f"grant: name at most {PATTERNS_MAX} pools and teams")
    if any(not each for each in (*grant.pools, *grant.teams)):
        raise InvalidError("grant: the name of a pool or team is empty")
    if grant.role is Role.AGENT and grant.teams:
        raise InvalidError("grant.teams: agents name a pool, not a team; limit the token by pools")


def _check_span(field: str, span: timedelta | None, longest: timedelta) -> None:
    if span is not None and not timedelta(0) < span <= longest:
        raise InvalidError(f"{field}: must be positive and at most {longest.days} days")


def _until(secret: TokenSecret) -> str:
    if secret.expires_at is None:
        return ", without an end"
    return f", until {secret.expires_at:%Y-%m-%d %H:%M} UTC"


def _because(reason: str) -> str:
    return f": {reason.strip()}" if reason.strip() else ""

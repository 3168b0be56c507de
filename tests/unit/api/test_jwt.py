"""JSON Web Tokens: which are accepted, and how the keys of their issuer are kept."""

import asyncio
import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from navarch.api.auth import Binding, Bound, Credentials
from navarch.api.jwt import ASK_AGAIN_S, KEYS_KEPT, JsonWebTokens, KeySet, TokenRules, parse_keys
from navarch.core.access import Grant, Identity, Role
from navarch.core.errors import UnauthenticatedError, UnreachableError

ISSUER = "https://id.example"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
RULES = TokenRules(issuer=ISSUER, audience="navarch", algorithms=("RS256", "ES256"))


def key_set(**keys: Any) -> bytes:  # noqa: ANN401
    listed = []
    for name, key in keys.items():
        public = key.public_key()
        if isinstance(key, rsa.RSAPrivateKey):
            found = jwt.algorithms.RSAAlgorithm.to_jwk(public, as_dict=True)
        else:
            found = jwt.algorithms.ECAlgorithm.to_jwk(public, as_dict=True)
        listed.append({**found, "kid": name, "use": "sig"})
    return json.dumps({"keys": listed}).encode()


class Provider:
    """An identity provider with a clock of its own."""

    def __init__(self, keys: bytes | None = None) -> None:
        self.time = 1_000.0
        self.keys: bytes | None = key_set(a=RSA_KEY, e=EC_KEY) if keys is None else keys
        self.fetches = 0
        self.set = KeySet(self, self._fetch, refresh=timedelta(minutes=10))
        self.tokens = JsonWebTokens(RULES, self.set)

    async def _fetch(self) -> bytes:
        self.fetches += 1
        if self.keys is None:
            raise UnreachableError("the identity provider is down")
        return self.keys

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds

    def work(self) -> None:
        """Do what the background task does when it looks."""
        if self.set.due():
            asyncio.run(self.set.fetch())

    def accepts(self, token: str) -> Identity | None:
        return self.tokens.authenticate(showing(token))


@pytest.fixture
def provider() -> Provider:
    found = Provider()
    found.work()
    return found


def showing(token: str) -> Credentials:
    return Credentials(headers={b"authorization": f"Bearer {token}".encode()})


def a_token(
    key: Any = RSA_KEY,  # noqa: ANN401
    kid: str | None = "a",
    algorithm: str = "RS256",
    **claims: object,
) -> str:
    now = datetime.now(UTC)
    whole = {
        "iss": ISSUER,
        "aud": "navarch",
        "sub": "kim",
        "iat": now,
        "exp": now + timedelta(minutes=5),
        **claims,
    }
    whole = {name: value for name, value in whole.items() if value is not None}
    return jwt.encode(whole, key, algorithm, headers={"kid": kid} if kid else {})


def test_a_token_of_the_issuer_names_its_caller_and_the_groups(provider: Provider) -> None:
    found = provider.accepts(a_token(groups=["ml", "ops", 7]))
    assert found == Identity(subject="oidc:kim", groups=("ml", "ops"))
    assert provider.accepts(a_token(EC_KEY, "e", "ES256")) is not None


def ago(minutes: float) -> datetime:
    return datetime.now(UTC) - timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: a_token(exp=ago(2)), "expired"),
        (lambda: a_token(exp=None), "exp"),
        (lambda: a_token(nbf=ago(-2)), "not yet valid"),
        (lambda: a_token(aud="other"), "[Aa]udience"),
        (lambda: a_token(aud=None), "aud"),
        (lambda: a_token(sub=None), "sub"),
        (lambda: a_token(sub=""), "is empty or not printable"),
        (lambda: a_token(sub="a\nb"), "is empty or not printable"),
        (lambda: a_token(OTHER_KEY), "[Ss]ignature"),
        (lambda: a_token(kid="z"), "unknown key"),
        (lambda: a_token(kid=None), "no key id"),
        (lambda: a_token(algorithm="RS512"), "not accepted"),
        (lambda: a_token(EC_KEY, "a", "ES256"), "invalid token"),
        (lambda: a_token(RSA_KEY, "e", "RS256"), "invalid token"),
        (lambda: a_token("secret" * 8, "a", "HS256"), "not accepted"),
    ],
)
def test_a_token_that_breaks_a_rule_is_refused(
    provider: Provider, make: Callable[[], str], complaint: str
) -> None:
    with pytest.raises(UnauthenticatedError, match=complaint):
        provider.accepts(make())


def test_a_token_without_a_signature_is_refused(provider: Provider) -> None:
    def part(value: Mapping[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"iss": ISSUER, "aud": "navarch", "sub": "kim", "exp": 9_999_999_999}
    for algorithm in ("none", "None", "NONE"):
        forged = f"{part({'alg': algorithm, 'kid': 'a'})}.{part(claims)}."
        with pytest.raises(UnauthenticatedError):
            provider.accepts(forged)


def test_the_public_key_is_no_secret_to_sign_with(provider: Provider) -> None:
    public = RSA_KEY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    import hashlib
    import hmac

    def part(value: bytes) -> str:
        return base64.urlsafe_b64encode(value).decode().rstrip("=")

    claims = {"iss": ISSUER, "aud": "navarch", "sub": "kim", "exp": 9_999_999_999}
    head = part(b'{"alg":"HS256","kid":"a"}') + "." + part(json.dumps(claims).encode())
    forged = head + "." + part(hmac.digest(public, head.encode(), hashlib.sha256))
    with pytest.raises(UnauthenticatedError, match="not accepted"):
        provider.accepts(forged)


def test_the_difference_of_the_clocks_is_tolerated_up_to_its_limit(provider: Provider) -> None:
    assert provider.accepts(a_token(exp=ago(0.9))) is not None
    with pytest.raises(UnauthenticatedError):
        provider.accepts(a_token(exp=ago(1.1)))


@pytest.mark.parametrize(
    "token",
    ["", "x", "a.b.c", "..", "nvt1.ci.x", "x" * 20_000, a_token(iss="https://evil.example")],
)
def test_other_tokens_are_left_to_other_authenticators(provider: Provider, token: str) -> None:
    if token:
        assert provider.accepts(token) is None
    assert provider.tokens.authenticate(Credentials()) is None


def test_an_email_names_the_caller_only_if_it_is_verified(provider: Provider) -> None:
    rules = TokenRules(
        issuer=ISSUER, audience="navarch", algorithms=("RS256",), subject_claim="email"
    )
    tokens = JsonWebTokens(rules, provider.set)
    good = a_token(email="kim@example.com", email_verified=True)
    found = tokens.authenticate(showing(good))
    assert found is not None
    assert found.subject == "oidc:kim@example.com"
    for flag in (None, False, "true", 1):
        with pytest.raises(UnauthenticatedError, match="not verified"):
            tokens.authenticate(showing(a_token(email="kim@example.com", email_verified=flag)))


def test_a_new_key_is_fetched_when_a_token_names_it_but_not_for_every_such_token(
    provider: Provider,
) -> None:
    provider.keys = key_set(a=RSA_KEY, b=OTHER_KEY)
    new = a_token(OTHER_KEY, "b")
    for _ in range(1000):
        with pytest.raises(UnauthenticatedError, match="unknown key"):
            provider.accepts(new)
        provider.work()
    assert provider.fetches == 1, "the last fetch is less than the pause ago"
    provider.time += ASK_AGAIN_S
    provider.work()
    assert provider.fetches == 2
    assert provider.accepts(new) is not None


def test_a_flood_of_unknown_keys_costs_one_fetch_per_pause(provider: Provider) -> None:
    for number in range(600):
        with pytest.raises(UnauthenticatedError):
            provider.accepts(a_token(kid=f"k{number}"))
        provider.time += 1.0
        provider.work()
    assert provider.fetches <= 1 + 600 / ASK_AGAIN_S


def test_keys_are_fetched_again_after_a_while_and_those_that_are_gone_end(
    provider: Provider,
) -> None:
    old = a_token()
    assert provider.accepts(old) is not None
    provider.keys = key_set(b=OTHER_KEY)
    provider.time += 600
    provider.work()
    with pytest.raises(UnauthenticatedError, match="unknown key"):
        provider.accepts(old)


def test_known_keys_outlast_an_outage_of_the_provider_for_a_day(provider: Provider) -> None:
    provider.keys = None
    until = provider.time + KEYS_KEPT.total_seconds()
    while provider.time < until - ASK_AGAIN_S:
        provider.time += ASK_AGAIN_S * 10
        provider.work()
    assert provider.accepts(a_token()) is not None
    provider.time = until + 1
    with pytest.raises(UnauthenticatedError, match="not known"):
        provider.accepts(a_token())


def test_no_token_is_accepted_before_the_keys_are_known() -> None:
    provider = Provider()
    provider.keys = None
    with pytest.raises(UnauthenticatedError, match="not known"):
        provider.accepts(a_token())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": 1}',
        b'{"keys": [1]}',
        b'{"keys": []}',
        b'{"keys": [{"kty": "oct", "kid": "a", "k": "c2VjcmV0"}]}',
        b'{"keys": [{"kty": "RSA", "kid": "a", "n": "?", "e": "AQAB"}]}',
        b'{"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}]}',
        key_set(a=RSA_KEY).replace(b'"sig"', b'"enc"'),
    ],
)
def test_a_key_set_without_a_usable_key_changes_nothing(body: bytes) -> None:
    with pytest.raises(UnreachableError):
        parse_keys(body)


def test_one_odd_key_does_not_hide_the_others() -> None:
    odd = [{"kty": "RSA", "kid": "x", "n": "?", "e": "?"}, {"kty": "OKP", "kid": "y", "crv": "X9"}]
    listed = json.loads(key_set(a=RSA_KEY))["keys"]
    assert set(parse_keys(json.dumps({"keys": [*odd, *listed]}).encode())) == {"a"}


def test_bindings_alone_give_roles_and_apply_at_the_next_request(provider: Provider) -> None:
    bindings = [
        Binding(grant=Grant(role=Role.VIEWER), groups=frozenset({"all"})),
        Binding(grant=Grant(role=Role.OPERATOR, teams=("ml",)), subjects=frozenset({"oidc:kim"})),
    ]
    bound = Bound(provider.tokens, lambda: bindings)
    found = bound.authenticate(showing(a_token(groups=["all"])))
    assert found is not None
    assert [each.role for each in found.grants] == [Role.VIEWER, Role.OPERATOR]
    stranger = bound.authenticate(showing(a_token(sub="kimberly", groups=["al"])))
    assert stranger is not None
    assert stranger.grants == ()
    bindings.clear()
    again = bound.authenticate(showing(a_token(groups=["all"])))
    assert again is not None
    assert again.grants == ()

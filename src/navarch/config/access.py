"""The `server.access` block: who gets which role, and how callers are recognized."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from urllib.parse import urlsplit

from navarch.config.block import Nested
from navarch.config.kinds import (
    DURATION,
    DURATION_OR_ZERO,
    FACTORY,
    SETTINGS,
    TEXT,
    URL,
    Choice,
    Integer,
    ListOf,
)
from navarch.config.schema import Fault, block, key
from navarch.core.access import Grant, Role

TEXTS = ListOf(each=TEXT)


class Algorithm(StrEnum):
    """Signatures with a public key. Those with a shared secret are never accepted."""

    RS256 = "RS256"
    RS384 = "RS384"
    RS512 = "RS512"
    PS256 = "PS256"
    PS384 = "PS384"
    PS512 = "PS512"
    ES256 = "ES256"
    ES384 = "ES384"
    ES512 = "ES512"
    EDDSA = "EdDSA"


def _names_someone(subjects: Sequence[str], groups: Sequence[str]) -> Iterator[Fault]:
    if not subjects and not groups:
        yield Fault(
            "the binding is for no caller", "name subjects, such as oidc:kim@example.com, or groups"
        )


def _agents_have_pools(role: Role, teams: Sequence[str]) -> Iterator[Fault]:
    if role is Role.AGENT and teams:
        yield Fault("agents name a pool, not a team", "use pools in place of teams", at=("teams",))


@block(rules=(_names_someone, _agents_have_pools))
class BindingConfig:
    """A role for some callers."""

    role: Role = key(Choice(options=Role), "the role")
    subjects: tuple[str, ...] = key(
        TEXTS, "callers by name: `oidc:SUBJECT`, `cert:NAME`, or of an authenticator", default=()
    )
    groups: tuple[str, ...] = key(TEXTS, "callers by group, from their OIDC token", default=())
    pools: tuple[str, ...] = key(
        TEXTS,
        "the pools of the role, which may contain `*`; neither pools nor teams: all",
        default=(),
    )
    teams: tuple[str, ...] = key(TEXTS, "the teams whose pools the role is for", default=())

    @property
    def grant(self) -> Grant:
        """The grant of the callers."""
        return Grant(role=self.role, pools=tuple(self.pools), teams=tuple(self.teams))


def _issuer_is_safe(issuer: str, jwks_url: str | None) -> Iterator[Fault]:
    for name, url in (("issuer", issuer), ("jwks_url", jwks_url or issuer)):
        parts = urlsplit(url)
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        if parts.scheme != "https" and not local:
            yield Fault(
                f"{name} {url} is not https, so anyone on the way could sign tokens",
                "use the https URL of your identity provider",
                at=(name,),
            )


def _skew_is_short(clock_skew: timedelta) -> Iterator[Fault]:
    if clock_skew > timedelta(minutes=5):
        yield Fault("clock_skew is over five minutes", "synchronize the clocks", at=("clock_skew",))


_ONCE = "the keys are fetched from the start"


@block(rules=(_issuer_is_safe, _skew_is_short), restart=_ONCE)
class OidcConfig:
    """An identity provider whose JSON Web Tokens are accepted."""

    issuer: str = key(URL, "the issuer, exactly as in its tokens")
    audience: str = key(TEXT, "the audience that a token must name, such as the client id")
    jwks_url: str | None = key(
        URL,
        "the address of its keys; found at the issuer's discovery document if left out",
        default=None,
    )
    algorithms: tuple[Algorithm, ...] = key(
        ListOf(each=Choice(options=Algorithm), empty=False),
        "the accepted signatures",
        default=(Algorithm.RS256, Algorithm.ES256),
    )
    subject_claim: str = key(
        TEXT, "the claim that names the caller; `email` must also be verified", default="sub"
    )
    groups_claim: str = key(TEXT, "the claim that lists the groups", default="groups")
    clock_skew: timedelta = key(
        DURATION_OR_ZERO, "the tolerated difference of the clocks", default=timedelta(seconds=60)
    )
    refresh: timedelta = key(
        DURATION, "how often the keys are fetched again", default=timedelta(minutes=10)
    )


@block(restart="authenticators are loaded once, when the server starts")
class AuthenticatorConfig:
    """An authenticator of your own."""

    factory: str = key(
        FACTORY,
        "`module:Class`, or the name of an entry point in the group `navarch.authenticators`",
    )
    settings: Mapping[str, str | int | float] = key(
        SETTINGS, "its keyword arguments", default_factory=dict
    )


@block()
class QuotaConfig:
    """A limit on the pools of a team."""

    team: str = key(TEXT, "the team, as in the label `team` of its pools")
    gpus_max: int = key(
        Integer(least=0, example="64"),
        "the most GPUs that its pools may take: of an autoscaled pool, those of its maximum",
    )


def _one_quota_per_team(quotas: tuple[QuotaConfig, ...]) -> Iterator[Fault]:
    teams = [each.team for each in quotas]
    for team in sorted({each for each in teams if teams.count(each) > 1}):
        yield Fault(f"team {team} has two quotas", "keep one of them", at=("quotas",))


@block(rules=(_one_quota_per_team,))
class AccessConfig:
    """How callers are recognized besides tokens, and which roles they get."""

    bindings: tuple[BindingConfig, ...] = key(
        ListOf(each=Nested(cls=BindingConfig)), "roles of callers", default=()
    )
    quotas: tuple[QuotaConfig, ...] = key(
        ListOf(each=Nested(cls=QuotaConfig)), "limits on the pools of teams", default=()
    )
    oidc: OidcConfig | None = key(
        Nested(cls=OidcConfig),
        "an identity provider whose tokens are accepted",
        default=None,
        restart=_ONCE,
    )
    authenticators: tuple[AuthenticatorConfig, ...] = key(
        ListOf(each=Nested(cls=AuthenticatorConfig)),
        "authenticators of your own, asked in this order before OIDC",
        default=(),
        restart="authenticators are loaded once, when the server starts",
    )

"""The chain of authenticators of a server, built from its configuration."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import urljoin

import msgspec

from navarch.api.auth import (
    Authenticator,
    Binding,
    Bound,
    Certificates,
    Chain,
    JoinTokens,
    StoredTokens,
)
from navarch.app.doors import Keeps
from navarch.app.servers import StartError
from navarch.clock import ThreadOffload
from navarch.config import Config
from navarch.config.access import OidcConfig
from navarch.core.errors import ExtensionError, UnreachableError
from navarch.http.blocking import request
from navarch.http.message import HttpError
from navarch.ports.agents import Joins
from navarch.ports.clock import Clock
from navarch.ports.tokens import TokenBook
from navarch.registry import build_part

FETCH_S = 10.0
DOCUMENT_BYTES_MAX = 256 * 1024


@dataclass(frozen=True, slots=True)
class Authentication:
    """The chain, and what keeps it up to date."""

    chain: Authenticator
    keys: Keeps | None


def identifies_without_token(config: Config) -> bool:
    """Return whether callers can identify themselves by something else than the one token."""
    access, tls = config.server.access, config.server.tls
    certificates = tls is not None and tls.client_ca_file is not None
    return bool(access.oidc or access.authenticators or certificates)


def build_authentication(
    clock: Clock,
    offload: ThreadOffload,
    config: Callable[[], Config],
    joins: Joins,
    tokens: TokenBook,
    operators: Authenticator,
) -> Authentication:
    """Return the chain: tokens first, the operators' token and certificates last."""

    def bindings() -> Sequence[Binding]:
        return [
            Binding(
                grant=each.grant,
                subjects=frozenset(each.subjects),
                groups=frozenset(each.groups),
            )
            for each in config().server.access.bindings
        ]

    access = config().server.access
    links: list[Authenticator] = [JoinTokens(joins), StoredTokens(tokens)]
    links += [Bound(each, bindings) for each in load_authenticators(config())]
    keys: Keeps | None = None
    if access.oidc is not None:
        web_tokens, keys = _open_oidc(clock, offload, access.oidc)
        links.append(Bound(web_tokens, bindings))
    # The operators' token rejects every token that no link before it has recognized.
    links += [operators, Bound(Certificates(), bindings)]
    return Authentication(Chain(links), keys)


def load_authenticators(config: Config) -> list[Authenticator]:
    """Return the authenticators that a configuration names, or raise StartError."""
    found = []
    for each in config.server.access.authenticators:
        try:
            part = build_part("authenticators", each.factory, each.settings, method="authenticate")
        except ExtensionError as error:
            raise StartError(str(error)) from error
        found.append(cast("Authenticator", part))
    return found


def _open_oidc(
    clock: Clock, offload: ThreadOffload, config: OidcConfig
) -> tuple[Authenticator, Keeps]:
    # Imported late: most servers have no identity provider, and its library is an extra.
    try:
        from navarch.api.jwt import JsonWebTokens, KeySet, TokenRules
    except ModuleNotFoundError as error:
        raise StartError(
            f"server.access.oidc needs {error.name}; run: pip install 'navarch[oidc]'"
        ) from error
    rules = TokenRules(
        issuer=config.issuer,
        audience=config.audience,
        algorithms=tuple(config.algorithms),
        subject_claim=config.subject_claim,
        groups_claim=config.groups_claim,
        clock_skew=config.clock_skew,
    )

    async def fetch() -> bytes:
        return await offload.run(lambda: fetch_keys(config.issuer, config.jwks_url))

    keys = KeySet(clock, fetch, refresh=config.refresh)
    return JsonWebTokens(rules, keys), keys


def fetch_keys(issuer: str, jwks_url: str | None) -> bytes:
    """Return the key set of an identity provider, or raise UnreachableError. Blocking."""
    if jwks_url is None:
        discovery = urljoin(issuer.rstrip("/") + "/", ".well-known/openid-configuration")
        try:
            document = msgspec.json.decode(_fetch(discovery), type=dict[str, object])
        except msgspec.DecodeError as error:
            raise UnreachableError(f"{discovery} is no discovery document: {error}") from error
        if document.get("issuer") != issuer:
            raise UnreachableError(
                f"{discovery} is of the issuer {document.get('issuer')!r}, not {issuer!r}"
            )
        jwks_url = str(document.get("jwks_uri", ""))
        if issuer.startswith("https:") and not jwks_url.startswith("https:"):
            raise UnreachableError(f"{discovery} names keys that are not at an https URL")
    return _fetch(jwks_url)


def _fetch(url: str) -> bytes:
    """Return a document. Redirects are not followed: they could lead to keys of others."""
    try:
        answer = request(
            "GET",
            url,
            headers={"Accept": "application/json"},
            timeout_s=FETCH_S,
            body_bytes_max=DOCUMENT_BYTES_MAX,
            use_proxy=True,
        )
    except (HttpError, ValueError) as error:
        raise UnreachableError(f"{url}: {error}") from error
    if answer.status != 200:
        raise UnreachableError(f"{url} answered with status {answer.status}")
    return answer.body

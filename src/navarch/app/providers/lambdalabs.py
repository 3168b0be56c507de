"""`type: lambda`."""

import hashlib
from weakref import WeakValueDictionary

from navarch.app.addresses import StartError
from navarch.app.providers.building import Surroundings
from navarch.config.provider import LambdaConfig, ProviderConfig
from navarch.ports.provider import Provider
from navarch.providers.lambdalabs.account import LambdaAccount, RateLimits, lambda_rate_limits
from navarch.providers.lambdalabs.provider import LambdaCloud

CALLS_AT_ONCE = 4
"""One call may be made a second, and the slowest answers take a few."""

_limits: WeakValueDictionary[bytes, RateLimits] = WeakValueDictionary()
"""By account: two providers with one key have one limit between them."""


def build(config: ProviderConfig, surroundings: Surroundings) -> Provider:
    """Return the account that `config` describes."""
    assert isinstance(config, LambdaConfig), config
    if config.api_key is None:
        raise StartError(
            f"provider {config.name!r}: {config.api_key_env} environment variable is required; "
            "set it where the server runs, or write api_key_file"
        )
    key = config.api_key.reveal()
    account = LambdaAccount(
        surroundings.clock,
        surroundings.threads(f"lambda-{config.name}", at_once=CALLS_AT_ONCE),
        rate_limits_of(config.endpoint, key, surroundings.clock.monotonic()),
        api_key=key,
        endpoint=config.endpoint,
    )
    return LambdaCloud(surroundings.clock, account, name=config.name, ssh_key=config.ssh_key or "")


def renew(provider: Provider, config: ProviderConfig) -> None:
    """Use the key that the file now has: keys are changed while fleets run."""
    assert isinstance(provider, LambdaCloud), provider
    assert isinstance(config, LambdaConfig), config
    if config.api_key is not None:
        provider.account.use_key(config.api_key.reveal())


def rate_limits_of(endpoint: str, key: str, now_s: float) -> RateLimits:
    """Return the rate limits of an account, shared by all providers of this process."""
    account = hashlib.sha256(f"{endpoint}\0{key}".encode()).digest()
    return _limits.setdefault(account, lambda_rate_limits(now_s))

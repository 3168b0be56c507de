"""What a cloud needs before it sells a machine, as far as the settings decide it.

The adapters refuse such launches as well. Here the pool is refused, before anything is tried.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from navarch.config.pool import PoolConfig
from navarch.config.pool_offerings import offerings
from navarch.config.provider import AwsConfig, GcpConfig, LambdaConfig, ProviderConfig
from navarch.config.schema import Fault
from navarch.core.launch import Offering
from navarch.core.machine_setup import is_public_key


class Obstacle(NamedTuple):
    """Why a cloud would refuse every launch of an offering, and the remedy."""

    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}"


def obstacle(
    provider: ProviderConfig, offering: Offering, ssh_keys: Sequence[str]
) -> Obstacle | None:
    """Return what keeps a provider from selling an offering to a pool with these keys, or None."""
    match provider:
        case LambdaConfig():
            return _at_lambda(provider, offering, ssh_keys)
        case AwsConfig():
            return _at_aws(provider, offering, ssh_keys)
        case GcpConfig():
            return _at_gcp(provider, offering, ssh_keys)
    return None


def _at_lambda(
    provider: LambdaConfig, offering: Offering, ssh_keys: Sequence[str]
) -> Obstacle | None:
    name = provider.name
    if not offering.region:
        return Obstacle(f"{name} sells by region", "give the pool a region, such as us-east-1")
    if offering.spot:
        return Obstacle(f"{name} sells no spot machines", "buy them on demand")
    if offering.reservation:
        return Obstacle(f"{name} has no reservations", "remove the reservation")
    keys = len(ssh_keys) or int(provider.ssh_key is not None)
    if keys != 1:
        return Obstacle(
            f"{name} needs exactly one SSH key per machine, not {keys}",
            "give the pool one (`--ssh-key`, or ssh_keys in the file), or set ssh_key of the "
            "provider",
        )
    return None


def _at_aws(provider: AwsConfig, offering: Offering, ssh_keys: Sequence[str]) -> Obstacle | None:
    name = provider.name
    # The name of a zone is that of its region and a letter.
    region = offering.region or offering.zone.rstrip("abcdefghijklmnop") or provider.region or ""
    if not region:
        return Obstacle(
            f"{name} sells by region",
            "give the pool a region, such as us-east-1, or set region of the provider",
        )
    if provider.regions and region not in provider.regions:
        return Obstacle(
            f"{region} is not among the regions of {name}, {', '.join(provider.regions)}",
            "choose one of them, or add it to regions of the provider and start the server again",
        )
    names = [key for key in ssh_keys if not is_public_key(key.strip())]
    if len(names) > 1:
        return Obstacle(
            f"{name} takes one key pair by its name, not {len(names)}",
            "write the other public keys out",
        )
    return None


def _at_gcp(provider: GcpConfig, offering: Offering, ssh_keys: Sequence[str]) -> Obstacle | None:
    name = provider.name
    region = offering.region
    if not offering.zone and region and provider.zone.rpartition("-")[0] != region:
        return Obstacle(
            f"{name} sells by zone", f"give the pool a zone of {region}, such as {region}-a"
        )
    for key in ssh_keys:
        if " " not in key:
            return Obstacle(
                f'the SSH key "{key}" is a name, and {name} keeps no keys by name',
                "write the public key itself",
            )
    return None


def clouds_can_sell(
    providers: Mapping[str, ProviderConfig], pools: Mapping[str, PoolConfig]
) -> Iterator[Fault]:
    """Yield what keeps clouds from selling to pools of the file.

    It is a warning if another offering of the pool can be bought.
    """
    for pool in pools.values():
        if not all(source.name in providers for source in pool.sources):
            continue  # Reported where it is named.
        every = offerings(providers, pool)
        found = [obstacle(providers[each.provider], each, pool.ssh_keys) for each in every]
        for each in dict.fromkeys(x for x in found if x is not None):
            yield Fault(
                f'pool "{pool.name}": {each.message}',
                each.remedy,
                at=("pools", pool.name),
                warning=None in found,
            )

"""The configuration as a whole."""

import ipaddress
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from urllib.parse import urlsplit

from navarch.config.alerts import AlertsConfig
from navarch.config.block import Named, Nested, nested
from navarch.config.disruption import BudgetConfig, to_budget
from navarch.config.errors import Problem, did_you_mean
from navarch.config.kinds import ListOf
from navarch.config.pool import DefaultsConfig, PoolConfig, pool_defaults, pool_name_remedy
from navarch.config.provider import CLOUDS, PROVIDER, AwsConfig, GcpConfig, ProviderConfig
from navarch.config.purchase import clouds_can_sell
from navarch.config.scheduler import SchedulerConfig
from navarch.config.schema import Fault, block, key, repeated
from navarch.config.server import ServerConfig
from navarch.core.budget import BudgetOf
from navarch.core.machine_setup import AgentStart, MachineSetup

_LOCAL_NAMES = ("localhost", "localhost.localdomain")

REACHABLE = (
    "set server.external_address to a URL that they reach, such as "
    "https://navarch.example.com:50051, or pass it to `navarch serve --external-address`"
)


def unreachable(address: str | None, clouds: Iterable[str]) -> str | None:
    """Return why machines of these providers cannot reach a server at `address`, or None."""
    names = " and ".join(clouds)
    if address is None:
        return f"machines of {names} cannot reach the server: no address is set for them"
    if is_local(address):
        return (
            f"machines of {names} cannot reach the server at {address}: there, that address is "
            "the machine itself"
        )
    return None


def calls_server(setup: MachineSetup, *, cloud: bool) -> bool:
    """Return whether Navarch passes the address of the server to machines of a provider."""
    match setup.agent_at(cloud=cloud):
        case AgentStart.CLOUD_INIT:
            return True
        case AgentStart.SSH:
            return any("ControlPlane" in command for command in setup.commands)
    return False


def is_local(url: str) -> bool:
    """Return whether the host of `url` is a loopback or an unspecified address."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    if host in _LOCAL_NAMES or host.endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and (address.is_loopback or address.is_unspecified)


def _is_private(url: str) -> bool:
    address = _address(urlsplit(url).hostname or "")
    return address is not None and address.is_private


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        return getattr(found, "ipv4_mapped", None) or found
    try:
        # Resolvers also accept short forms such as 127.1.
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None


def _at_least_one_provider_or_pool(
    providers: Mapping[str, ProviderConfig], pools: Mapping[str, PoolConfig]
) -> Iterator[Fault]:
    if not providers and not pools:
        yield Fault(
            "at least one pool is required",
            "add pools: with a name, a provider, an instance_type and max_nodes, "
            "or only providers: and create pools with `navarch up`",
            at=("pools",),
        )


def _budgets_are_unique(budgets: tuple[BudgetConfig, ...]) -> Iterator[Fault]:
    for index in repeated([(each.of, each.name) for each in budgets]):
        message = f"duplicate budget for {to_budget(budgets[index])}"
        yield Fault(message, "keep one of the two", at=("budgets", index))


def _budgets_match_pools(
    budgets: tuple[BudgetConfig, ...], pools: Mapping[str, PoolConfig]
) -> Iterator[Fault]:
    teams = {pool.labels["team"] for pool in pools.values() if "team" in pool.labels}
    for index, each in enumerate(budgets):
        if each.of is BudgetOf.FLEET or each.name is None:
            continue
        names = list(pools) if each.of is BudgetOf.POOL else sorted(teams)
        if each.name in names:
            continue
        hint = "ignore this if the pool is created over the API"
        if each.of is BudgetOf.TEAM:
            hint = f"give the team's pools labels: {{team: {each.name}}}"
        yield Fault(
            f'this file has no pool of the {each.of.value} "{each.name}"',
            did_you_mean(each.name, names, hint),
            at=("budgets", index, "name"),
            warning=True,
        )


def _zones_in_their_regions(
    providers: Mapping[str, ProviderConfig], pools: Mapping[str, PoolConfig]
) -> Iterator[Fault]:
    """Yield zones outside the listed regions, at clouds that prefix zones with the region."""
    for pool in pools.values():
        home = (pool.region,) if pool.region else ()
        lists: list[tuple[tuple[str | int, ...], str, tuple[str, ...], tuple[str, ...]]] = [
            (("providers", index, "zones"), each.name, each.regions or home, each.zones)
            for index, each in enumerate(pool.providers)
        ]
        if pool.provider is not None:
            lists.append((("zones",), pool.provider, home, pool.zones))
        for at, provider, regions, zones in lists:
            if not regions or not isinstance(providers.get(provider), AwsConfig | GcpConfig):
                continue
            for place, zone in enumerate(zones):
                if not zone.startswith(regions):
                    yield Fault(
                        f'pool "{pool.name}": the zone "{zone}" is not in {" or ".join(regions)}',
                        "add its region, or leave the zone out",
                        at=("pools", pool.name, *at, place),
                    )


def _agents_can_reach_server(
    server: ServerConfig, providers: Mapping[str, ProviderConfig], pools: Mapping[str, PoolConfig]
) -> Iterator[Fault]:
    """Yield pools at clouds with an address that their machines cannot reach."""
    reported: set[tuple[str, ...]] = set()
    for pool in pools.values():
        clouds = [x.name for x in pool.sources if isinstance(providers.get(x.name), CLOUDS)]
        if not clouds or not calls_server(pool.setup, cloud=True):
            continue
        address = pool.control_plane_address or server.external_address
        at: tuple[str, ...] = ("pools", pool.name)
        if pool.control_plane_address:
            at = ("pools", pool.name, "control_plane_address")
        elif address:
            at = ("server", "external_address")
        if at in reported:
            continue
        reported.add(at)
        problem = unreachable(address, clouds)
        if problem is not None:
            yield Fault(f'pool "{pool.name}": {problem}', REACHABLE, at=at)
        elif address is not None and _is_private(address):
            yield Fault(
                f'pool "{pool.name}": machines of {" and ".join(clouds)} reach the private address '
                f"{address} only inside that network",
                "ignore this if they are in it, or write a public address",
                at=at,
                warning=True,
            )


# Blocks are read in this order: the rules of pools use the blocks before them.
@block(
    rules=(
        _at_least_one_provider_or_pool,
        _budgets_are_unique,
        _budgets_match_pools,
        _zones_in_their_regions,
        _agents_can_reach_server,
        clouds_can_sell,
    )
)
class Config:
    """A configuration file with its defaults filled in."""

    server: ServerConfig = nested(
        ServerConfig, "addresses, state and intervals of the control plane"
    )
    defaults: DefaultsConfig = nested(DefaultsConfig, "defaults for pools")
    providers: Mapping[str, ProviderConfig] = key(
        Named(subject="provider", each=PROVIDER),
        "accounts that sell machines, by name",
        default_factory=dict,
    )
    pools: Mapping[str, PoolConfig] = key(
        Named(
            subject="pool",
            each=Nested(cls=PoolConfig),
            absent=pool_defaults,
            check=pool_name_remedy,
        ),
        "groups of identical nodes, by name",
        default_factory=dict,
    )
    budgets: tuple[BudgetConfig, ...] = key(
        ListOf(each=Nested(cls=BudgetConfig)),
        "limits on the monthly spending of the fleet, a team or a pool",
        default=(),
    )
    alerts: AlertsConfig = nested(AlertsConfig, "how people learn of what needs attention")
    scheduler: SchedulerConfig = nested(SchedulerConfig, "queues and plugins of the job scheduler")
    warnings: tuple[Problem, ...] = field(default=(), compare=False)
    """Settings that are valid, but probably do not work as intended."""


def unreachable_clouds(config: Config) -> str | None:
    """Return why clouds that no pool of the file names would be refused to new pools, or None.

    The rules of the file have judged the others.
    """
    named = {source.name for pool in config.pools.values() for source in pool.sources}
    clouds = [
        name
        for name, provider in config.providers.items()
        if isinstance(provider, CLOUDS) and name not in named
    ]
    return unreachable(config.server.external_address, clouds) if clouds else None

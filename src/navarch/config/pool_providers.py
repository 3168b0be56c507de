"""The keys of a pool that choose providers, regions and capacity types, and their rules."""

from collections.abc import Iterator, Mapping
from enum import StrEnum

from navarch.config.errors import did_you_mean
from navarch.config.kinds import TEXT, Choice, Integer, ListOf
from navarch.config.schema import Fault, block, key, repeated


class Strategy(StrEnum):
    """How the provider of the next machine is chosen."""

    PRIORITY = "priority"
    COST = "cost"
    AVAILABILITY = "availability"
    ROUND_ROBIN = "round-robin"
    FIRST_AVAILABLE = "first-available"
    REGION_PREFERENCE = "region-preference"
    CARBON_AWARE = "carbon-aware"


class CapacityType(StrEnum):
    """How a machine is bought."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"


CAPACITY_TYPES = ListOf(each=Choice(options=CapacityType), empty=False)


@block()
class PoolProviderConfig:
    """One of several providers of a pool."""

    name: str = key(TEXT, "the name of the provider")
    priority: int = key(Integer(least=0, most=1_000_000), "lower is tried first", default=0)
    weight: int = key(Integer(least=1, most=1_000_000), "its share under round-robin", default=1)
    regions: tuple[str, ...] = key(
        ListOf(each=TEXT),
        "regions to buy in, preferred first; the pool's region if left out",
        default=(),
    )
    zones: tuple[str, ...] = key(
        ListOf(each=TEXT),
        "zones to buy in, preferred first; the pool's zones if left out",
        default=(),
    )
    instance_type: str | None = key(
        TEXT, "the instance type to buy there; the pool's if left out", default=None
    )
    reservation: str | None = key(
        TEXT, "a capacity reservation there, used before other capacity", default=None
    )
    reserved_nodes: int | None = key(
        Integer(least=1, most=100_000),
        "how many machines the reservation holds; if left out, until the provider refuses",
        default=None,
    )
    capacity_types: tuple[CapacityType, ...] | None = key(
        CAPACITY_TYPES,
        "`on-demand` or `spot`, preferred first; the pool's if left out",
        default=None,
    )


def _provider_is_required(
    provider: str | None, providers: tuple[PoolProviderConfig, ...]
) -> Iterator[Fault]:
    if not provider and not providers:
        yield Fault(
            "must specify provider or providers",
            "add provider: with a name from the providers section",
        )


def _provider_or_providers(present: frozenset[str]) -> Iterator[Fault]:
    if {"provider", "providers"} <= present:
        yield Fault(
            "cannot specify both provider and providers",
            "keep provider for one, providers for several",
            at=("providers",),
        )


def _providers_exist(
    provider: str | None, providers: tuple[PoolProviderConfig, ...], provider_names: tuple[str, ...]
) -> Iterator[Fault]:
    wanted: list[tuple[tuple[str | int, ...], str]] = []
    if provider:
        wanted.append((("provider",), provider))
    wanted += [(("providers", i, "name"), each.name) for i, each in enumerate(providers)]
    for at, name in wanted:
        if name not in provider_names:
            known = ", ".join(provider_names) or "none; add it under providers"
            remedy = did_you_mean(name, provider_names, f"configured: {known}")
            yield Fault(f'unknown provider "{name}"', remedy, at=at)


def _providers_are_unique(providers: tuple[PoolProviderConfig, ...]) -> Iterator[Fault]:
    for index in repeated([each.name for each in providers]):
        yield Fault(
            f'the provider "{providers[index].name}" is listed twice',
            "keep one of the two; several regions can go in one entry",
            at=("providers", index, "name"),
        )


def _instance_type_is_required(
    instance_type: str | None, providers: tuple[PoolProviderConfig, ...]
) -> Iterator[Fault]:
    if not instance_type or not instance_type.strip():
        yield Fault(
            "instance_type is required",
            "add instance_type: with a name of the provider's, or one such as h100-8x",
            at=("instance_type",),
        )
    for index, each in enumerate(providers):
        if each.instance_type is not None and not each.instance_type.strip():
            yield Fault(
                "instance_type must not be empty",
                "write a name of this provider's, or leave it out to use the pool's",
                at=("providers", index, "instance_type"),
            )


def _reservations_are_named(providers: tuple[PoolProviderConfig, ...]) -> Iterator[Fault]:
    for index, each in enumerate(providers):
        if each.reserved_nodes is not None and each.reservation is None:
            yield Fault(
                "reserved_nodes without a reservation",
                "add reservation: with its name at the provider",
                at=("providers", index, "reserved_nodes"),
            )


def _strategy_has_its_settings(
    strategy: Strategy, region_order: tuple[str, ...], carbon_g_per_kwh: Mapping[str, float]
) -> Iterator[Fault]:
    needs = (
        (Strategy.REGION_PREFERENCE, "region_order", region_order, "[eu-north-1, eu-west-1]"),
        (Strategy.CARBON_AWARE, "carbon_g_per_kwh", carbon_g_per_kwh, "{eu-north-1: 30}"),
    )
    for needing, name, given, example in needs:
        if strategy is needing and not given:
            yield Fault(
                f"the strategy {needing.value} needs {name}",
                f"add {name}: {example}",
                at=("strategy",),
            )
        if given and strategy is not needing:
            yield Fault(
                f"{name} is not used by the strategy {strategy.value}",
                f"write strategy: {needing.value}, or leave {name} out",
                at=(name,),
                warning=True,
            )


def _weights_are_used(
    strategy: Strategy, providers: tuple[PoolProviderConfig, ...]
) -> Iterator[Fault]:
    for index, each in enumerate(providers):
        if each.weight != 1 and strategy is not Strategy.ROUND_ROBIN:
            yield Fault(
                f"weight is not used by the strategy {strategy.value}",
                "write strategy: round-robin, or leave weight out",
                at=("providers", index, "weight"),
                warning=True,
            )


def _strategy_or_provision_scheduler(present: frozenset[str]) -> Iterator[Fault]:
    if {"strategy", "provision_scheduler"} <= present:
        yield Fault(
            "cannot specify both strategy and provision_scheduler",
            "keep strategy for a built-in strategy, provision_scheduler for a custom one",
            at=("provision_scheduler",),
        )
    if "provision_settings" in present and "provision_scheduler" not in present:
        yield Fault(
            "provision_settings needs provision_scheduler",
            "add provision_scheduler: module:Class, or leave the settings out",
            at=("provision_settings",),
        )


def _capacity_types_are_unique(
    capacity_types: tuple[CapacityType, ...], providers: tuple[PoolProviderConfig, ...]
) -> Iterator[Fault]:
    places: list[tuple[tuple[str | int, ...], tuple[CapacityType, ...]]] = [
        (("capacity_types",), capacity_types)
    ]
    places += [
        (("providers", i, "capacity_types"), each.capacity_types or ())
        for i, each in enumerate(providers)
    ]
    for at, given in places:
        if len(set(given)) < len(given):
            yield Fault("a capacity type is listed twice", "keep the first of the two", at=at)


def _region_order_matches_providers(
    region: str | None, region_order: tuple[str, ...], providers: tuple[PoolProviderConfig, ...]
) -> Iterator[Fault]:
    """Yield a warning for every preferred region in which the pool buys nothing."""
    regions = {name for each in providers for name in each.regions or (region or "",)}
    if not providers or "" in regions:
        return  # The provider's own settings choose the region.
    for place, name in enumerate(region_order):
        if name not in regions:
            hint = "add it to a provider's regions, or leave it out"
            yield Fault(
                f'no provider of this pool buys in "{name}"',
                did_you_mean(name, sorted(regions), hint),
                at=("region_order", place),
                warning=True,
            )


def _places_are_unique(
    zones: tuple[str, ...], region_order: tuple[str, ...], providers: tuple[PoolProviderConfig, ...]
) -> Iterator[Fault]:
    lists: list[tuple[tuple[str | int, ...], tuple[str, ...]]] = [
        (("zones",), zones),
        (("region_order",), region_order),
    ]
    for index, each in enumerate(providers):
        lists.append((("providers", index, "regions"), each.regions))
        lists.append((("providers", index, "zones"), each.zones))
    for at, names in lists:
        for place, name in enumerate(names):
            if not name.strip():
                yield Fault(
                    "the name of a region or zone must not be empty",
                    "write its name at the provider, or leave it out",
                    at=(*at, place),
                )
            elif name in names[:place]:
                yield Fault(
                    f'"{name}" is listed twice', "keep the first of the two", at=(*at, place)
                )


PROVIDER_RULES = (
    _provider_is_required,
    _provider_or_providers,
    _providers_exist,
    _providers_are_unique,
    _instance_type_is_required,
    _reservations_are_named,
    _strategy_has_its_settings,
    _weights_are_used,
    _strategy_or_provision_scheduler,
    _capacity_types_are_unique,
    _region_order_matches_providers,
    _places_are_unique,
)
"""The rules between the keys that choose where a pool buys."""

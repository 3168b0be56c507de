"""Pools: groups of like nodes, as the operator writes them down."""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum

from navarch.config.autoscaling import AUTOSCALING, AutoscalingConfig, windows
from navarch.config.disruption import DisruptionConfig
from navarch.config.health import HealthConfig
from navarch.config.kinds import (
    BOOLEAN,
    COMMAND,
    DURATION,
    DURATION_OR_ZERO,
    FACTORY,
    PATH,
    SETTINGS,
    TEXT,
    URL,
    Choice,
    Integer,
    ListOf,
    MapOf,
    Real,
)
from navarch.config.nesting import Nested
from navarch.config.remediation import REMEDIATION, RemediationConfig
from navarch.config.schema import Fault, block, key
from navarch.config.suggestion import suggest
from navarch.core.bringup import Setup, check_template
from navarch.core.errors import InvalidError
from navarch.core.pool import is_pool_name

ANY_NODES = Integer(most=100_000)


class Strategy(StrEnum):
    """How the next machine's provider is chosen."""

    PRIORITY = "priority"
    COST = "cost"
    AVAILABILITY = "availability"
    ROUND_ROBIN = "round-robin"
    FIRST_AVAILABLE = "first-available"
    REGION_PREFERENCE = "region-preference"
    CARBON_AWARE = "carbon-aware"


class CapacityType(StrEnum):
    """On what terms a machine is bought."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"


CAPACITY_TYPES = ListOf(each=Choice(options=CapacityType), empty=False)


@block()
class PoolProviderConfig:
    """One of several providers a pool buys from."""

    name: str = key(TEXT, doc="the provider's name")
    priority: int = key(Integer(least=0, most=1_000_000), default=0, doc="lower is tried first")
    weight: int = key(
        Integer(least=1, most=1_000_000), default=1, doc="its share under round-robin"
    )
    regions: tuple[str, ...] = key(
        ListOf(each=TEXT), default=(), doc="where to buy, best first; the pool's region if left out"
    )
    zones: tuple[str, ...] = key(
        ListOf(each=TEXT), default=(), doc="where to buy, best first; the pool's zones if left out"
    )
    instance_type: str | None = key(
        TEXT, default=None, doc="what to buy there, if not the pool's instance type"
    )
    reservation: str | None = key(
        TEXT, default=None, doc="a capacity reservation there, which is used first"
    )
    reserved_nodes: int | None = key(
        Integer(least=1, most=100_000),
        default=None,
        doc="how many machines the reservation holds; the provider's refusal tells if left out",
    )
    capacity_types: tuple[CapacityType, ...] | None = key(
        CAPACITY_TYPES, default=None, doc="on what terms to buy there; the pool's if left out"
    )


@block()
class DefaultsConfig:
    """What holds for pools that do not say otherwise."""

    ssh_keys: tuple[str, ...] = key(
        ListOf(each=TEXT), default=(), doc="names of keys that may log in to nodes"
    )
    health: HealthConfig | None = key(
        Nested(cls=HealthConfig), default=None, doc="when nodes are given up; as a whole block"
    )
    ssh_user: str | None = key(TEXT, default=None, doc="who logs in to set a node up")
    ssh_private_key_path: str | None = key(
        PATH, default=None, doc="the key to log in with to set a node up"
    )


def pool_defaults(context: Mapping[str, object]) -> Mapping[str, object]:
    """Return what stands in for keys a pool leaves out."""
    defaults = context.get("defaults")
    if not isinstance(defaults, DefaultsConfig):
        return {}
    held = {
        "ssh_keys": defaults.ssh_keys,
        "health": defaults.health,
        "ssh_user": defaults.ssh_user,
        "ssh_private_key_path": defaults.ssh_private_key_path,
    }
    return {name: value for name, value in held.items() if value is not None}


def pool_name_remedy(text: str) -> str | None:
    """Return what to write in place of a text that cannot name a pool at every cloud."""
    if is_pool_name(text):
        return None
    near = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-")
    example = f", such as {near}" if is_pool_name(near) else ""
    return f"use at most 40 lower-case letters, digits and dashes, a letter first{example}"


def _some_way_to_buy(
    provider: str | None, providers: tuple[PoolProviderConfig, ...]
) -> Iterator[Fault]:
    if not provider and not providers:
        yield Fault(
            message="must specify provider or providers",
            remedy="add provider: with a name from the providers section",
        )


def _one_way_to_buy(present: frozenset[str]) -> Iterator[Fault]:
    if {"provider", "providers"} <= present:
        yield Fault(
            at=("providers",),
            message="cannot specify both provider and providers",
            remedy="keep provider for one, providers for several",
        )


def _providers_exist(
    provider: str | None,
    providers: tuple[PoolProviderConfig, ...],
    provider_names: tuple[str, ...],
) -> Iterator[Fault]:
    wanted: list[tuple[tuple[str | int, ...], str]] = []
    if provider:
        wanted.append((("provider",), provider))
    wanted += [(("providers", i, "name"), each.name) for i, each in enumerate(providers)]
    for at, name in wanted:
        if name not in provider_names:
            close = suggest(name, provider_names)
            known = ", ".join(provider_names) or "none; add it under providers"
            yield Fault(
                at=at,
                message=f'unknown provider "{name}"',
                remedy=f'did you mean "{close}"?' if close else f"configured are {known}",
            )


def _providers_once(providers: tuple[PoolProviderConfig, ...]) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, each in enumerate(providers):
        if each.name in seen:
            yield Fault(
                at=("providers", index, "name"),
                message=f'the provider "{each.name}" stands twice',
                remedy="keep one of the two; several regions can go in one entry",
            )
        seen.add(each.name)


def _type_given(instance_type: str | None) -> Iterator[Fault]:
    if not instance_type:
        yield Fault(
            at=("instance_type",),
            message="instance_type is required",
            remedy="add instance_type: with a provider's name for it, or one such as h100-8x",
        )


def _bounds_make_sense(min_nodes: int, max_nodes: int) -> Iterator[Fault]:
    if max_nodes <= 0:
        yield Fault(
            at=("max_nodes",),
            message="max_nodes must be > 0",
            remedy="write how many nodes the pool may have at most, such as max_nodes: 10",
        )
    if min_nodes < 0:
        yield Fault(
            at=("min_nodes",),
            message="min_nodes must be >= 0",
            remedy="write min_nodes: 0 for a pool that may be empty",
        )
    elif min_nodes > max_nodes > 0:
        yield Fault(
            at=("min_nodes",),
            message="min_nodes cannot exceed max_nodes",
            remedy=f"write min_nodes: {max_nodes} or less, or a higher max_nodes",
        )


def _key_to_log_in(
    setup_commands: tuple[str, ...], ssh_private_key_path: str | None, defaults: DefaultsConfig
) -> Iterator[Fault]:
    if setup_commands and not (ssh_private_key_path or defaults.ssh_private_key_path):
        yield Fault(
            at=("setup_commands",),
            message="ssh_private_key_path is required when setup_commands are configured",
            remedy="add ssh_private_key_path here or under defaults",
        )


def _known_variables(setup_commands: tuple[str, ...]) -> Iterator[Fault]:
    for index, command in enumerate(setup_commands):
        try:
            check_template(command)
        except InvalidError as error:
            yield Fault(
                at=("setup_commands", index),
                message=str(error),
                remedy="correct its name, or write single braces for the shell",
            )


def _windows_within_bounds(
    autoscaling: AutoscalingConfig | None, max_nodes: int
) -> Iterator[Fault]:
    for window in windows(autoscaling):
        if window.min_nodes is not None and window.min_nodes > max_nodes > 0:
            yield Fault(
                at=("autoscaling",),
                message=f"a window asks for {window.min_nodes} nodes, "
                f"but max_nodes is {max_nodes}, which goes before it",
                remedy="raise max_nodes, or lower min_nodes of the window",
                warning=True,
            )


def _whole_gangs(gang: int, min_nodes: int, max_nodes: int) -> Iterator[Fault]:
    if gang > max_nodes > 0:
        yield Fault(
            at=("gang",),
            message=f"{gang} nodes together are more than max_nodes",
            remedy=f"write gang: {max_nodes} or less, or a higher max_nodes",
        )
    elif gang > 0 and min_nodes > 0 and min_nodes % gang:
        yield Fault(
            at=("min_nodes",),
            message=f"nodes come {gang} together, so {min_nodes} cannot be had",
            remedy=f"write min_nodes: {min_nodes // gang * gang} or {-(-min_nodes // gang) * gang}",
        )
    if gang < 0:
        yield Fault(at=("gang",), message="gang must be >= 0", remedy="leave it out for none")


def _reservations_are_named(providers: tuple[PoolProviderConfig, ...]) -> Iterator[Fault]:
    for index, each in enumerate(providers):
        if each.reserved_nodes is not None and each.reservation is None:
            yield Fault(
                at=("providers", index, "reserved_nodes"),
                message="reserved_nodes without a reservation",
                remedy="add reservation: with the provider's name for it",
            )


def _strategy_has_what_it_needs(
    strategy: Strategy, region_order: tuple[str, ...], carbon_g_per_kwh: Mapping[str, float]
) -> Iterator[Fault]:
    needs = (
        (Strategy.REGION_PREFERENCE, "region_order", region_order, "[eu-north-1, eu-west-1]"),
        (Strategy.CARBON_AWARE, "carbon_g_per_kwh", carbon_g_per_kwh, "{eu-north-1: 30}"),
    )
    for needing, name, given, example in needs:
        if strategy is needing and not given:
            yield Fault(
                at=("strategy",),
                message=f"the strategy {needing.value} needs {name}",
                remedy=f"add {name}: {example}",
            )
        if given and strategy is not needing:
            yield Fault(
                at=(name,),
                message=f"{name} is not used by the strategy {strategy.value}",
                remedy=f"write strategy: {needing.value}, or leave {name} out",
                warning=True,
            )


def _weights_used(strategy: Strategy, providers: tuple[PoolProviderConfig, ...]) -> Iterator[Fault]:
    for index, each in enumerate(providers):
        if each.weight != 1 and strategy is not Strategy.ROUND_ROBIN:
            yield Fault(
                at=("providers", index, "weight"),
                message=f"weight is not used by the strategy {strategy.value}",
                remedy="write strategy: round-robin, or leave weight out",
                warning=True,
            )


def _one_way_to_choose(present: frozenset[str]) -> Iterator[Fault]:
    if {"strategy", "provision_scheduler"} <= present:
        yield Fault(
            at=("provision_scheduler",),
            message="cannot specify both strategy and provision_scheduler",
            remedy="keep strategy for a built-in one, provision_scheduler for one of yours",
        )
    if "provision_settings" in present and "provision_scheduler" not in present:
        yield Fault(
            at=("provision_settings",),
            message="provision_settings are for provision_scheduler, which is not there",
            remedy="add provision_scheduler: module:Class, or leave the settings out",
        )


def _terms_once(
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
            yield Fault(
                at=at, message="the same terms stand twice", remedy="keep the first of the two"
            )


def _places_once(
    zones: tuple[str, ...],
    region_order: tuple[str, ...],
    providers: tuple[PoolProviderConfig, ...],
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
            if name in names[:place]:
                yield Fault(
                    at=(*at, place),
                    message=f'"{name}" stands twice',
                    remedy="keep the first of the two",
                )


def _room_for_spares(spares: int, min_nodes: int, max_nodes: int) -> Iterator[Fault]:
    if spares and 0 < max_nodes < min_nodes + spares:
        yield Fault(
            at=("spares",),
            message=f"max_nodes leaves no room for {spares} spares next to {min_nodes} nodes",
            remedy=f"write max_nodes: {min_nodes + spares} or more",
        )


def _room_for_successors(
    disruption: DisruptionConfig, spares: int, min_nodes: int, max_nodes: int
) -> Iterator[Fault]:
    replaces = (
        disruption.lifetime_max is not None
        or disruption.replace_drifted
        or disruption.savings_min is not None
    )
    if replaces and max_nodes > 0 and max_nodes == min_nodes + spares:
        yield Fault(
            at=("disruption",),
            message="max_nodes leaves no room for a successor, so nothing sound is ever replaced",
            remedy=f"write max_nodes: {max_nodes + 1} or more",
            warning=True,
        )


def _room_for_a_gang(gang: int, spares: int, min_nodes: int, max_nodes: int) -> Iterator[Fault]:
    kept = min_nodes + spares
    if gang > 1 and gang <= kept <= max_nodes < kept + gang:
        yield Fault(
            at=("max_nodes",),
            message="max_nodes leaves no room for a gang to move when its block is full: "
            "it then stays without its broken node",
            remedy=f"write max_nodes: {kept + gang} or more",
            warning=True,
        )


def _label_is_ours(name: str, labels: Mapping[str, str]) -> Iterator[Fault]:
    if labels.get("pool", name) != name:
        yield Fault(
            at=("labels", "pool"),
            message=f"the label pool is always the pool's name, {name}",
            remedy="leave it out",
            warning=True,
        )


@block(
    rules=(
        _some_way_to_buy,
        _one_way_to_buy,
        _providers_exist,
        _providers_once,
        _type_given,
        _bounds_make_sense,
        _key_to_log_in,
        _known_variables,
        _windows_within_bounds,
        _whole_gangs,
        _reservations_are_named,
        _strategy_has_what_it_needs,
        _weights_used,
        _one_way_to_choose,
        _terms_once,
        _places_once,
        _room_for_spares,
        _room_for_successors,
        _room_for_a_gang,
        _label_is_ours,
    )
)
class PoolConfig:
    """A group of like nodes."""

    name: str
    provider: str | None = key(TEXT, default=None, doc="whom to buy from, if from one provider")
    providers: tuple[PoolProviderConfig, ...] = key(
        ListOf(each=Nested(cls=PoolProviderConfig)),
        default=(),
        doc="whom to buy from, if from several",
    )
    strategy: Strategy = key(
        Choice(options=Strategy, unknown="unknown provider strategy"),
        default=Strategy.PRIORITY,
        doc="how the next machine's provider is chosen",
    )
    region_order: tuple[str, ...] = key(
        ListOf(each=TEXT), default=(), doc="regions, best first, for `region-preference`"
    )
    carbon_g_per_kwh: Mapping[str, float] = key(
        MapOf(each=Real(least=0, most=10_000, example="30")),
        default_factory=dict,
        doc="grams of carbon dioxide per kilowatt-hour by region, for `carbon-aware`",
    )
    provision_scheduler: str | None = key(
        FACTORY,
        default=None,
        doc="in place of `strategy`: `module:Class`, or what an installed package offers under "
        "`navarch.provision_schedulers`",
    )
    provision_settings: Mapping[str, str | int | float | bool] = key(
        SETTINGS, default_factory=dict, doc="what `provision_scheduler` is called with, by name"
    )
    capacity_types: tuple[CapacityType, ...] = key(
        CAPACITY_TYPES,
        default=(CapacityType.ON_DEMAND,),
        doc="on what terms to buy, best first; with both, one stands in for the other",
    )
    instance_type: str = key(
        TEXT, default="", doc="required: a provider's name for it, or one such as `h100-8x`"
    )
    region: str | None = key(TEXT, default=None, doc="where to buy")
    zones: tuple[str, ...] = key(ListOf(each=TEXT), default=(), doc="where to buy, best first")
    min_nodes: int = key(ANY_NODES, default=0, doc="never fewer nodes than this")
    max_nodes: int = key(ANY_NODES, default=0, doc="required: never more nodes than this")
    spares: int = key(
        Integer(least=0, most=100_000, example="2"),
        default=0,
        doc="how many nodes to keep above the size, ready to take over from one that breaks",
    )
    cooldown: timedelta = key(
        DURATION_OR_ZERO,
        default=timedelta(minutes=5),
        doc="how long to wait between changes of size; scaling by hand does not wait",
    )
    scale_down_after: timedelta = key(
        DURATION_OR_ZERO,
        default=timedelta(minutes=5),
        doc="for how long fewer nodes must be enough before there are fewer",
    )
    labels: Mapping[str, str] = key(
        MapOf(each=TEXT), default_factory=dict, doc="what nodes are labelled with"
    )
    ssh_keys: tuple[str, ...] = key(
        ListOf(each=TEXT), default=(), doc="names of keys that may log in to nodes"
    )
    ssh_user: str = key(TEXT, default="ubuntu", doc="who logs in to set a node up")
    ssh_private_key_path: str | None = key(
        PATH, default=None, doc="the key to log in with to set a node up"
    )
    ssh_port: int = key(
        Integer(least=1, most=65535, example="22"), default=22, doc="the port SSH listens on"
    )
    ssh_by_private_address: bool = key(
        BOOLEAN,
        default=False,
        doc="log in by the address inside the provider's network, where there is one",
    )
    control_plane_address: str | None = key(
        URL,
        default=None,
        doc="the URL its nodes reach the server by, such as a private address; "
        "`server.external_address` if left out",
    )
    dead_man_lease: timedelta | None = key(
        DURATION,
        default=None,
        doc="an idle machine whose agent was told of it ends itself once no control plane has "
        "answered for so long; never if left out",
    )
    cloud_init: bool = key(
        BOOLEAN,
        default=False,
        doc="install and start the agent at the first boot, with a join token of its own",
    )
    agent_install_command: str | None = key(
        COMMAND,
        default=None,
        doc="what installs the agent into /opt/navarch at the first boot; pip if left out",
    )
    setup_attempts: int = key(
        Integer(least=1, most=100, example="3"),
        default=3,
        doc="how often the set-up commands are tried before the machine is given back",
    )
    setup_commands: tuple[str, ...] = key(
        ListOf(each=COMMAND),
        default=(),
        doc="what to run on a new node, over SSH; `${...}` is left to the shell there",
    )
    ip_wait_timeout: timedelta = key(
        DURATION, default=timedelta(minutes=15), doc="how long a machine may have no address"
    )
    ssh_timeout: timedelta = key(
        DURATION, default=timedelta(minutes=10), doc="how long SSH may take to come up"
    )
    ssh_connect_timeout: timedelta = key(
        DURATION, default=timedelta(seconds=30), doc="how long one attempt to log in may take"
    )
    command_timeout: timedelta = key(
        DURATION, default=timedelta(minutes=5), doc="how long one setup command may take"
    )
    boot_deadline: timedelta = key(
        DURATION,
        default=timedelta(minutes=10),
        doc="past this a machine that has not registered is given up",
    )
    drain_timeout: timedelta = key(
        DURATION_OR_ZERO,
        default=timedelta(minutes=5),
        doc="how long work on a node that must go may take to leave",
    )
    health: HealthConfig = key(
        Nested(cls=HealthConfig), default=HealthConfig(), doc="when nodes are given up"
    )
    gang: int = key(
        ANY_NODES,
        default=0,
        doc="how many nodes come together, within one block of the network, all or none",
    )
    gang_hold: timedelta = key(
        DURATION,
        default=timedelta(minutes=10),
        doc="how long a part of a gang is kept while the rest is not to be had",
    )
    disruption: DisruptionConfig = key(
        Nested(cls=DisruptionConfig),
        default=DisruptionConfig(),
        doc="why and how fast sound nodes are replaced",
    )
    remediation: RemediationConfig = key(
        REMEDIATION,
        default=RemediationConfig(),
        doc="what is done about nodes that are not well",
    )
    autoscaling: AutoscalingConfig | None = key(
        AUTOSCALING, default=None, doc="how the size follows the load; `min_nodes` if left out"
    )

    @property
    def sources(self) -> tuple[PoolProviderConfig, ...]:
        """Whom to buy from, in the file's order."""
        if self.provider is not None:
            return (PoolProviderConfig(name=self.provider),)
        return self.providers

    @property
    def setup(self) -> Setup | None:
        """How its machines are set up over SSH; None if they set themselves up."""
        if not self.setup_commands:
            return None
        return Setup(
            commands=self.setup_commands,
            user=self.ssh_user,
            port=self.ssh_port,
            key_file=self.ssh_private_key_path or "",
            private_address=self.ssh_by_private_address,
            address_within=self.ip_wait_timeout,
            answer_within=self.ssh_timeout,
            connect_within=self.ssh_connect_timeout,
            command_within=self.command_timeout,
            attempts_max=self.setup_attempts,
        )

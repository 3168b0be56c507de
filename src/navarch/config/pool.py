"""The `pools` and `defaults` blocks: groups of like nodes."""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta

from navarch.config.autoscaling import AUTOSCALING, AutoscalingConfig
from navarch.config.block import Nested
from navarch.config.disruption import DisruptionConfig
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
from navarch.config.pool_providers import (
    CAPACITY_TYPES,
    PROVIDER_RULES,
    CapacityType,
    PoolProviderConfig,
    Strategy,
)
from navarch.config.pool_sizes import SIZE_RULES
from navarch.config.remediation import REMEDIATION, RemediationConfig
from navarch.config.schema import Fault, block, key
from navarch.core.bringup import Setup, check_template
from navarch.core.errors import InvalidError
from navarch.core.pool import is_pool_name
from navarch.health.judgement import TIMES_MAX


@block()
class HealthConfig:
    """When a node is given up, and whether it is replaced.

    A block that leaves `auto_replace` out replaces, like no block at all: leaving something
    out must not switch a safeguard off.
    """

    unhealthy_after: int = key(
        # Nobody counts further: what is asked for beyond it would never come.
        Integer(least=1, most=TIMES_MAX, example="2"),
        default=2,
        doc="how many unhealthy verdicts in a row, none of them fatal, make a node be replaced",
    )
    silent_after: timedelta = key(
        DURATION,
        default=timedelta(minutes=10),
        doc="how long a node may be silent, with nothing else wrong, before it is replaced",
    )
    auto_replace: bool = key(
        BOOLEAN, default=True, doc="replace unhealthy nodes without being asked"
    )
    policy: str | None = key(
        PATH,
        default=None,
        doc="a file of rules for these nodes' health events; the server's if left out",
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


ANY_NODES = Integer(most=100_000)


def pool_name_remedy(text: str) -> str | None:
    """Return what to write in place of a text that cannot name a pool at every cloud."""
    if is_pool_name(text):
        return None
    near = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-")
    example = f", such as {near}" if is_pool_name(near) else ""
    return f"use at most 40 lower-case letters, digits and dashes, a letter first{example}"


def _setup_needs_ssh_key(
    setup_commands: tuple[str, ...], ssh_private_key_path: str | None, defaults: DefaultsConfig
) -> Iterator[Fault]:
    if setup_commands and not (ssh_private_key_path or defaults.ssh_private_key_path):
        yield Fault(
            at=("setup_commands",),
            message="ssh_private_key_path is required when setup_commands are configured",
            remedy="add ssh_private_key_path here or under defaults",
        )


def _template_variables_exist(setup_commands: tuple[str, ...]) -> Iterator[Fault]:
    for index, command in enumerate(setup_commands):
        try:
            check_template(command)
        except InvalidError as error:
            yield Fault(
                at=("setup_commands", index),
                message=str(error),
                remedy="correct its name, or write single braces for the shell",
            )


def _pool_label_is_reserved(name: str, labels: Mapping[str, str]) -> Iterator[Fault]:
    if labels.get("pool", name) != name:
        yield Fault(
            at=("labels", "pool"),
            message=f"the label pool is always the pool's name, {name}",
            remedy="leave it out",
            warning=True,
        )


@block(
    rules=(
        *PROVIDER_RULES,
        *SIZE_RULES,
        _setup_needs_ssh_key,
        _template_variables_exist,
        _pool_label_is_reserved,
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
        doc="what installs the agent into /opt/navarch at the first boot; pip, with the version "
        "of the server, if left out",
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

"""The `pools` and `defaults` blocks: groups of identical nodes."""

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
from navarch.core.limits import NODES_PER_POOL_MAX
from navarch.core.pool import is_pool_name
from navarch.health.conditions import TIMES_MAX


@block()
class HealthConfig:
    """When a node is replaced.

    `auto_replace` is on by default, with and without the block: leaving a key out must not disable
    a safeguard.
    """

    unhealthy_after: int = key(
        # Verdicts are not counted further: a higher threshold would never be reached.
        Integer(least=1, most=TIMES_MAX, example="2"),
        default=2,
        doc="replace a node after this many consecutive unhealthy verdicts that are not fatal",
    )
    silent_after: timedelta = key(
        DURATION,
        default=timedelta(minutes=10),
        doc="replace a node that is otherwise healthy after this long without a heartbeat",
    )
    auto_replace: bool = key(BOOLEAN, default=True, doc="replace unhealthy nodes automatically")
    policy: str | None = key(
        PATH,
        default=None,
        doc="a policy file for the health events of these nodes; the server's if left out",
    )


@block()
class DefaultsConfig:
    """Defaults for keys that a pool leaves out."""

    ssh_keys: tuple[str, ...] = key(
        ListOf(each=TEXT), default=(), doc="names of the SSH keys that can log in to nodes"
    )
    health: HealthConfig | None = key(
        Nested(cls=HealthConfig),
        default=None,
        doc="the `health` block of pools that have none; the blocks are not merged",
    )
    ssh_user: str | None = key(TEXT, default=None, doc="the SSH user that runs the setup commands")
    ssh_private_key_path: str | None = key(
        PATH, default=None, doc="the private SSH key for the setup commands"
    )


def pool_defaults(context: Mapping[str, object]) -> Mapping[str, object]:
    """Return the values for keys that a pool leaves out."""
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


ANY_NODES = Integer(most=NODES_PER_POOL_MAX)


def pool_name_remedy(text: str) -> str | None:
    """Return the remedy for a text that cannot name a pool at every cloud, or None."""
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
                remedy="correct the name, or write single braces for the shell",
            )


def _pool_label_is_reserved(name: str, labels: Mapping[str, str]) -> Iterator[Fault]:
    if labels.get("pool", name) != name:
        yield Fault(
            at=("labels", "pool"),
            message=f"the label pool is reserved: its value is the pool's name, {name}",
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
    """A group of identical nodes."""

    name: str
    provider: str | None = key(
        TEXT, default=None, doc="the provider to buy from, if it is only one"
    )
    providers: tuple[PoolProviderConfig, ...] = key(
        ListOf(each=Nested(cls=PoolProviderConfig)),
        default=(),
        doc="the providers to buy from, if they are several",
    )
    strategy: Strategy = key(
        Choice(options=Strategy, unknown="unknown provider strategy"),
        default=Strategy.PRIORITY,
        doc="how the provider of the next machine is chosen",
    )
    region_order: tuple[str, ...] = key(
        ListOf(each=TEXT), default=(), doc="regions, preferred first, for `region-preference`"
    )
    carbon_g_per_kwh: Mapping[str, float] = key(
        MapOf(each=Real(least=0, most=10_000, example="30")),
        default_factory=dict,
        doc="grams of carbon dioxide per kilowatt-hour by region, for `carbon-aware`",
    )
    provision_scheduler: str | None = key(
        FACTORY,
        default=None,
        doc="instead of `strategy`: `module:Class`, or the name of an entry point in the group "
        "`navarch.provision_schedulers`",
    )
    provision_settings: Mapping[str, str | int | float | bool] = key(
        SETTINGS, default_factory=dict, doc="keyword arguments of `provision_scheduler`"
    )
    capacity_types: tuple[CapacityType, ...] = key(
        CAPACITY_TYPES,
        default=(CapacityType.ON_DEMAND,),
        doc="`on-demand` or `spot`, preferred first; with both, the second is the fallback",
    )
    instance_type: str = key(
        TEXT,
        default="",
        doc="required: a name of the provider's, or an abstract one such as `h100-8x`",
    )
    region: str | None = key(TEXT, default=None, doc="the region to buy in")
    zones: tuple[str, ...] = key(
        ListOf(each=TEXT), default=(), doc="the zones to buy in, preferred first"
    )
    min_nodes: int = key(ANY_NODES, default=0, doc="the smallest number of nodes")
    max_nodes: int = key(ANY_NODES, default=0, doc="required: the largest number of nodes")
    spares: int = key(
        Integer(least=0, most=NODES_PER_POOL_MAX, example="2"),
        default=0,
        doc="how many ready nodes to keep beyond the size, to take over from failed ones",
    )
    cooldown: timedelta = key(
        DURATION_OR_ZERO,
        default=timedelta(minutes=5),
        doc="the least time between two changes of size; manual scaling is not delayed",
    )
    scale_down_after: timedelta = key(
        DURATION_OR_ZERO,
        default=timedelta(minutes=5),
        doc="how long autoscaling must recommend fewer nodes before the pool shrinks",
    )
    labels: Mapping[str, str] = key(
        MapOf(each=TEXT), default_factory=dict, doc="labels of the nodes"
    )
    ssh_keys: tuple[str, ...] = key(
        ListOf(each=TEXT), default=(), doc="names of the SSH keys that can log in to nodes"
    )
    ssh_user: str = key(TEXT, default="ubuntu", doc="the SSH user that runs the setup commands")
    ssh_private_key_path: str | None = key(
        PATH, default=None, doc="the private SSH key for the setup commands"
    )
    ssh_port: int = key(Integer(least=1, most=65535, example="22"), default=22, doc="the SSH port")
    ssh_by_private_address: bool = key(
        BOOLEAN,
        default=False,
        doc="log in at the private address, if the machine has one",
    )
    control_plane_address: str | None = key(
        URL,
        default=None,
        doc="the URL at which its nodes reach the server, such as a private address; "
        "`server.external_address` if left out",
    )
    dead_man_lease: timedelta | None = key(
        DURATION,
        default=None,
        doc="an idle machine shuts itself down after this long without contact to the control "
        "plane, once its agent has received the setting; never if left out",
    )
    cloud_init: bool = key(
        BOOLEAN,
        default=False,
        doc="install and start the agent at the first boot, with its own join token",
    )
    agent_install_command: str | None = key(
        COMMAND,
        default=None,
        doc="the command that installs the agent into /opt/navarch at the first boot; pip with the "
        "version of the server if left out",
    )
    setup_attempts: int = key(
        Integer(least=1, most=100, example="3"),
        default=3,
        doc="how often the setup commands are tried before the machine is terminated",
    )
    setup_commands: tuple[str, ...] = key(
        ListOf(each=COMMAND),
        default=(),
        doc="commands to run on a new node over SSH; `${...}` is expanded by the shell there",
    )
    ip_wait_timeout: timedelta = key(
        DURATION, default=timedelta(minutes=15), doc="how long to wait for a machine's address"
    )
    ssh_timeout: timedelta = key(
        DURATION,
        default=timedelta(minutes=10),
        doc="how long to wait for SSH to accept connections",
    )
    ssh_connect_timeout: timedelta = key(
        DURATION, default=timedelta(seconds=30), doc="the time limit for one SSH connection attempt"
    )
    command_timeout: timedelta = key(
        DURATION, default=timedelta(minutes=5), doc="the time limit for one setup command"
    )
    boot_deadline: timedelta = key(
        DURATION,
        default=timedelta(minutes=10),
        doc="terminate a machine that has not registered after this long",
    )
    drain_timeout: timedelta = key(
        DURATION_OR_ZERO,
        default=timedelta(minutes=5),
        doc="how long to wait for work to leave a draining node",
    )
    health: HealthConfig = key(
        Nested(cls=HealthConfig), default=HealthConfig(), doc="when unhealthy nodes are replaced"
    )
    gang: int = key(
        ANY_NODES,
        default=0,
        doc="buy nodes in groups of this size, within one network block, all or none",
    )
    gang_hold: timedelta = key(
        DURATION,
        default=timedelta(minutes=10),
        doc="how long to keep a part of a gang while the rest is unavailable",
    )
    disruption: DisruptionConfig = key(
        Nested(cls=DisruptionConfig),
        default=DisruptionConfig(),
        doc="which healthy nodes are replaced, and how fast",
    )
    remediation: RemediationConfig = key(
        REMEDIATION,
        default=RemediationConfig(),
        doc="what is done about unhealthy nodes",
    )
    autoscaling: AutoscalingConfig | None = key(
        AUTOSCALING,
        default=None,
        doc="how the size follows the load; the size is `min_nodes` if left out",
    )

    @property
    def sources(self) -> tuple[PoolProviderConfig, ...]:
        """The providers to buy from, in the order of the file."""
        if self.provider is not None:
            return (PoolProviderConfig(name=self.provider),)
        return self.providers

    @property
    def setup(self) -> Setup | None:
        """The setup over SSH; None if the pool has no setup commands."""
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

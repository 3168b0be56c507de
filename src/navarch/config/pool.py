"""The `pools` and `defaults` blocks: groups of identical nodes."""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta

from navarch.config.autoscaling import AUTOSCALING, AutoscalingConfig
from navarch.config.block import Nested, nested
from navarch.config.disruption import REMEDIATION, DisruptionConfig, RemediationConfig
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
from navarch.config.schema import Fault, block, key, keys_of
from navarch.core.bringup import check_template
from navarch.core.errors import InvalidError
from navarch.core.limits import NODES_PER_POOL_MAX
from navarch.core.machine_setup import AgentStart, MachineSetup
from navarch.core.pool import is_pool_name
from navarch.health.conditions import TIMES_MAX


@block()
class HealthConfig:
    """When a node is replaced.

    `auto_replace` is on by default, with and without the block: leaving a key out must not disable
    a safeguard.
    """

    unhealthy_after: int = key(
        Integer(least=1, most=TIMES_MAX, example="2"),
        "replace a node after this many consecutive unhealthy verdicts that are not fatal",
        default=2,
    )
    silent_after: timedelta = key(
        DURATION,
        "replace a node that is otherwise healthy after this long without a heartbeat",
        default=timedelta(minutes=10),
    )
    auto_replace: bool = key(BOOLEAN, "replace unhealthy nodes automatically", default=True)
    policy: str | None = key(
        PATH,
        "a policy file for the health events of these nodes; the server's if left out",
        default=None,
    )


@block()
class DefaultsConfig:
    """Defaults for keys that a pool leaves out."""

    ssh_keys: tuple[str, ...] = key(
        ListOf(each=TEXT), "names of the SSH keys that can log in to nodes", default=()
    )
    health: HealthConfig | None = key(
        Nested(cls=HealthConfig),
        "the `health` block of pools that have none; the blocks are not merged",
        default=None,
    )
    ssh_user: str | None = key(TEXT, "the SSH user that runs the setup commands", default=None)
    ssh_private_key_path: str | None = key(
        PATH, "the private SSH key for the setup commands", default=None
    )


def pool_defaults(context: Mapping[str, object]) -> Mapping[str, object]:
    """Return the values for keys that a pool leaves out."""
    defaults = context.get("defaults")
    if not isinstance(defaults, DefaultsConfig):
        return {}
    held = {name: getattr(defaults, name) for name in keys_of(DefaultsConfig)}
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
    agent: AgentStart | None,
    cloud_init: bool,
    setup_commands: tuple[str, ...],
    ssh_private_key_path: str | None,
    defaults: DefaultsConfig,
) -> Iterator[Fault]:
    if not setup_commands or _agent(agent, cloud_init, setup_commands) is not AgentStart.SSH:
        return
    if not (ssh_private_key_path or defaults.ssh_private_key_path):
        yield Fault(
            "ssh_private_key_path is required when setup_commands are configured",
            "add ssh_private_key_path here or under defaults",
            at=("setup_commands",),
        )


def _agent_fits_other_keys(
    agent: AgentStart | None, cloud_init: bool, setup_commands: tuple[str, ...]
) -> Iterator[Fault]:
    if cloud_init and agent not in (None, AgentStart.CLOUD_INIT):
        yield Fault(
            f"agent is {agent}, and cloud_init is true",
            "keep agent, and leave cloud_init out",
            at=("cloud_init",),
        )
    elif agent is AgentStart.SSH and not setup_commands:
        yield Fault(
            "agent: ssh needs setup_commands that start the agent",
            "add setup_commands, or leave agent out",
            at=("agent",),
        )
    elif agent is AgentStart.IMAGE and setup_commands:
        yield Fault(
            "setup_commands do not run with agent: image",
            "write agent: cloud-init or agent: ssh",
            at=("setup_commands",),
        )


def _agent(
    agent: AgentStart | None, cloud_init: bool, setup_commands: tuple[str, ...]
) -> AgentStart | None:
    """Return what starts the agent; None: what fits the provider."""
    if agent is None and cloud_init:
        return AgentStart.CLOUD_INIT
    return AgentStart.SSH if agent is None and setup_commands else agent


def _template_variables_exist(setup_commands: tuple[str, ...]) -> Iterator[Fault]:
    for index, command in enumerate(setup_commands):
        try:
            check_template(command)
        except InvalidError as error:
            yield Fault(
                str(error),
                "correct the name, or write single braces for the shell",
                at=("setup_commands", index),
            )


def _pool_label_is_reserved(name: str, labels: Mapping[str, str]) -> Iterator[Fault]:
    if labels.get("pool", name) != name:
        yield Fault(
            f"the label pool is reserved: its value is the pool's name, {name}",
            "leave it out",
            at=("labels", "pool"),
            warning=True,
        )


@block(
    rules=(
        *PROVIDER_RULES,
        *SIZE_RULES,
        _agent_fits_other_keys,
        _setup_needs_ssh_key,
        _template_variables_exist,
        _pool_label_is_reserved,
    )
)
class PoolConfig:
    """A group of identical nodes."""

    name: str
    provider: str | None = key(TEXT, "the provider to buy from, if it is only one", default=None)
    providers: tuple[PoolProviderConfig, ...] = key(
        ListOf(each=Nested(cls=PoolProviderConfig)),
        "the providers to buy from, if they are several",
        default=(),
    )
    strategy: Strategy = key(
        Choice(options=Strategy, unknown="unknown provider strategy"),
        "how the provider of the next machine is chosen",
        default=Strategy.PRIORITY,
    )
    region_order: tuple[str, ...] = key(
        ListOf(each=TEXT), "regions, preferred first, for `region-preference`", default=()
    )
    carbon_g_per_kwh: Mapping[str, float] = key(
        MapOf(each=Real(least=0, most=10_000, example="30")),
        "grams of carbon dioxide per kilowatt-hour by region, for `carbon-aware`",
        default_factory=dict,
    )
    provision_scheduler: str | None = key(
        FACTORY,
        "instead of `strategy`: `module:Class`, or the name of an entry point in the group "
        "`navarch.provision_schedulers`",
        default=None,
    )
    provision_settings: Mapping[str, str | int | float | bool] = key(
        SETTINGS, "keyword arguments of `provision_scheduler`", default_factory=dict
    )
    capacity_types: tuple[CapacityType, ...] = key(
        CAPACITY_TYPES,
        "`on-demand` or `spot`, preferred first; with both, the second is the fallback",
        default=(CapacityType.ON_DEMAND,),
    )
    instance_type: str = key(
        TEXT, "required: a name of the provider's, or an abstract one such as `h100-8x`", default=""
    )
    region: str | None = key(TEXT, "the region to buy in", default=None)
    zones: tuple[str, ...] = key(
        ListOf(each=TEXT), "the zones to buy in, preferred first", default=()
    )
    min_nodes: int = key(ANY_NODES, "the smallest number of nodes", default=0)
    max_nodes: int = key(ANY_NODES, "required: the largest number of nodes", default=0)
    spares: int = key(
        Integer(least=0, most=NODES_PER_POOL_MAX, example="2"),
        "how many ready nodes to keep beyond the size, to take over from failed ones",
        default=0,
    )
    cooldown: timedelta = key(
        DURATION_OR_ZERO,
        "the least time between two changes of size; manual scaling is not delayed",
        default=timedelta(minutes=5),
    )
    scale_down_after: timedelta = key(
        DURATION_OR_ZERO,
        "how long autoscaling must recommend fewer nodes before the pool shrinks",
        default=timedelta(minutes=5),
    )
    labels: Mapping[str, str] = key(MapOf(each=TEXT), "labels of the nodes", default_factory=dict)
    ssh_keys: tuple[str, ...] = key(
        ListOf(each=TEXT), "names of the SSH keys that can log in to nodes", default=()
    )
    ssh_user: str = key(TEXT, "the SSH user that runs the setup commands", default="ubuntu")
    ssh_private_key_path: str | None = key(
        PATH, "the private SSH key for the setup commands", default=None
    )
    ssh_port: int = key(Integer(least=1, most=65535, example="22"), "the SSH port", default=22)
    ssh_by_private_address: bool = key(
        BOOLEAN, "log in at the private address, if the machine has one", default=False
    )
    control_plane_address: str | None = key(
        URL,
        "the URL at which its nodes reach the server, such as a private address; "
        "`server.external_address` if left out",
        default=None,
    )
    dead_man_lease: timedelta | None = key(
        DURATION,
        "an idle machine shuts itself down after this long without contact to the control "
        "plane, once its agent has received the setting; never if left out",
        default=None,
    )
    agent: AgentStart | None = key(
        Choice(options=AgentStart),
        "what starts the agent on a new machine: a boot script (`cloud-init`), `setup_commands` "
        "over SSH (`ssh`), or the machine itself (`image`); if left out, `ssh` with "
        "`setup_commands`, else `cloud-init` at AWS, GCP and Lambda and `image` elsewhere",
        default=None,
    )
    cloud_init: bool = key(BOOLEAN, "`true` is short for `agent: cloud-init`", default=False)
    user_data: str | None = key(
        COMMAND,
        "a script or cloud-config for the first boot, in addition to what starts the agent",
        default=None,
    )
    image: str | None = key(
        TEXT, "the image that its machines boot; the provider's if left out", default=None
    )
    agent_install_command: str | None = key(
        COMMAND,
        "the command that installs the agent into /opt/navarch at the first boot; if left out, the "
        "machine installs what the server serves",
        default=None,
    )
    setup_attempts: int = key(
        Integer(least=1, most=100, example="3"),
        "how often the setup commands are tried before the machine is terminated",
        default=3,
    )
    setup_commands: tuple[str, ...] = key(
        ListOf(each=COMMAND),
        "commands to run on a new node, over SSH or with `agent: cloud-init` in the boot script; "
        "`${...}` is expanded by the shell there",
        default=(),
    )
    ip_wait_timeout: timedelta = key(
        DURATION, "how long to wait for a machine's address", default=timedelta(minutes=15)
    )
    ssh_timeout: timedelta = key(
        DURATION, "how long to wait for SSH to accept connections", default=timedelta(minutes=10)
    )
    ssh_connect_timeout: timedelta = key(
        DURATION, "the time limit for one SSH connection attempt", default=timedelta(seconds=30)
    )
    command_timeout: timedelta = key(
        DURATION, "the time limit for one setup command", default=timedelta(minutes=5)
    )
    boot_deadline: timedelta = key(
        DURATION,
        "give up a machine that has not registered and shows no progress; "
        "longer where boots of its instance type usually take longer, up to an hour",
        default=timedelta(minutes=10),
    )
    drain_timeout: timedelta = key(
        DURATION_OR_ZERO,
        "how long to wait for work to leave a draining node",
        default=timedelta(minutes=5),
    )
    health: HealthConfig = nested(HealthConfig, "when unhealthy nodes are replaced")
    gang: int = key(
        ANY_NODES,
        "buy nodes in groups of this size, within one network block, all or none",
        default=0,
    )
    gang_hold: timedelta = key(
        DURATION,
        "how long to keep a part of a gang while the rest is unavailable",
        default=timedelta(minutes=10),
    )
    disruption: DisruptionConfig = nested(
        DisruptionConfig, "which healthy nodes are replaced, and how fast"
    )
    remediation: RemediationConfig = key(
        REMEDIATION, "what is done about unhealthy nodes", default=RemediationConfig()
    )
    autoscaling: AutoscalingConfig | None = key(
        AUTOSCALING,
        "how the size follows the load; the size is `min_nodes` if left out",
        default=None,
    )

    @property
    def sources(self) -> tuple[PoolProviderConfig, ...]:
        """The providers to buy from, in the order of the file."""
        if self.provider is not None:
            return (PoolProviderConfig(name=self.provider),)
        return self.providers

    @property
    def setup(self) -> MachineSetup:
        """How its machines are set up."""
        return MachineSetup(
            agent=_agent(self.agent, self.cloud_init, self.setup_commands),
            commands=self.setup_commands,
            install_command=self.agent_install_command or "",
            user_data=self.user_data or "",
            image=self.image or "",
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

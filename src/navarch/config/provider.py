"""The `providers` block: accounts that sell machines, one class per type."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import ClassVar, TypeAlias

from navarch.config.block import Nested, Tagged
from navarch.config.kinds import (
    BOOLEAN,
    COMMAND,
    DURATION,
    DURATION_OR_ZERO,
    MONEY,
    NAME,
    PATH,
    SECRET,
    TEXT,
    URL,
    Integer,
    ListOf,
    MapOf,
    Real,
    Text,
)
from navarch.config.schema import Fault, block, key
from navarch.config.secret import Secret

GPUS = Integer(least=1, most=1024, example="8")
PORT = Integer(least=1, most=65535, example="22")
COUNT_OR_ZERO = Integer(least=0, most=1_000_000, example="8")
_CONNECTED_ONCE = "providers are connected once, when the server starts"


def _boot_times_in_order(boot_min: timedelta, boot_max: timedelta) -> Iterator[Fault]:
    if boot_min > boot_max:
        yield Fault(
            at=("boot_min",),
            message="boot_min cannot exceed boot_max",
            remedy="make boot_max the longer of the two",
        )


SIMULATED_GPU_HOUR = Decimal("2.99")
"""The price of a simulated GPU that `prices` does not list."""
ONE_GPU = "h100-1x"
"""The only type with one GPU instead of `gpu_count`."""


@block(rules=(_boot_times_in_order,))
class FakeConfig:
    """A simulated cloud: machines that cost nothing and run the real agent."""

    type: ClassVar[str] = "fake"
    name: str
    gpu_count: int = key(GPUS, default=8, doc="GPUs per machine", restart=_CONNECTED_ONCE)
    gpu_type: str = key(
        TEXT,
        default="NVIDIA H100 80GB HBM3",
        doc="the model that the GPUs report",
        restart=_CONNECTED_ONCE,
    )
    boot_min: timedelta = key(
        DURATION_OR_ZERO,
        default=timedelta(seconds=3),
        doc="the shortest boot time",
        restart=_CONNECTED_ONCE,
    )
    boot_max: timedelta = key(
        DURATION_OR_ZERO,
        default=timedelta(seconds=10),
        doc="the longest boot time",
        restart=_CONNECTED_ONCE,
    )
    bad_boot_share: float = key(
        Real(least=0, most=1, example="0.1"),
        default=0.1,
        doc="the share of machines that fail to boot and have to be replaced",
        restart=_CONNECTED_ONCE,
    )
    prices: Mapping[str, Decimal] = key(
        MapOf(each=MONEY),
        default_factory=dict,
        doc=f"price per hour by instance type; ${SIMULATED_GPU_HOUR} for each GPU if left out",
        restart=_CONNECTED_ONCE,
    )
    spot_prices: Mapping[str, Decimal] = key(
        MapOf(each=MONEY),
        default_factory=dict,
        doc="price per hour of spot machines by instance type",
        restart=_CONNECTED_ONCE,
    )
    stock: Mapping[str, int] | None = key(
        MapOf(each=COUNT_OR_ZERO),
        default=None,
        doc="how many machines of each type can run at once, spot machines under `TYPE spot`; "
        "none of a type that is not listed, any number if left out",
        restart=_CONNECTED_ONCE,
    )
    reservations: Mapping[str, int] = key(
        MapOf(each=COUNT_OR_ZERO),
        default_factory=dict,
        doc="how many machines each capacity reservation holds, by name",
        restart=_CONNECTED_ONCE,
    )
    blocks: Mapping[str, int] | None = key(
        MapOf(each=COUNT_OR_ZERO),
        default=None,
        doc="how many machines fit into each network block; `ZONE/NAME` is in that zone. "
        "Four large blocks if left out",
        restart=_CONNECTED_ONCE,
    )
    seed: int | None = key(
        Integer(least=0),
        default=None,
        doc="the random seed that makes its failures repeatable",
        restart=_CONNECTED_ONCE,
    )

    def price(self, instance_type: str) -> Decimal:
        """Return the hourly price of an instance type."""
        gpus = 1 if instance_type == ONE_GPU else self.gpu_count
        return self.prices.get(instance_type, SIMULATED_GPU_HOUR * gpus)


def _api_key_is_set(api_key: Secret | None, api_key_env: str) -> Iterator[Fault]:
    if api_key is None:
        yield Fault(
            at=("api_key_env",),
            message=f"{api_key_env} environment variable is required",
            remedy=f"set {api_key_env} where the server runs, or write api_key_file",
            warning=True,
        )


@block(rules=(_api_key_is_set,))
class LambdaConfig:
    """An account at Lambda."""

    type: ClassVar[str] = "lambda"
    name: str
    api_key_env: str = key(
        Text(
            noun="the name of an environment variable",
            example="LAMBDA_API_KEY",
            check=lambda text: None if text.isidentifier() else "write only its name",
        ),
        default="LAMBDA_API_KEY",
        doc="the environment variable that holds the API key if the file does not",
    )
    api_key: Secret | None = key(
        SECRET, default=None, file=True, environment_key="api_key_env", doc="the API key"
    )
    ssh_key: str | None = key(
        TEXT,
        default=None,
        doc="the name of an SSH key at Lambda, or a public key, for pools without `ssh_keys`",
        restart=_CONNECTED_ONCE,
    )
    endpoint: str = key(
        URL,
        default="https://cloud.lambda.ai/api/v1",
        doc="the URL of the API",
        restart=_CONNECTED_ONCE,
    )


FLEX_START_MAX = timedelta(days=7)


def _flex_start_needs_max_run(flex_start: bool, max_run: timedelta | None) -> Iterator[Fault]:
    if flex_start and max_run is None:
        yield Fault(
            at=("flex_start",),
            message="flex_start needs max_run",
            remedy="add max_run: with how long a machine runs, at most 168h",
        )
    if flex_start and max_run is not None and max_run > FLEX_START_MAX:
        yield Fault(
            at=("max_run",),
            message="flex-start machines run for at most 7 days",
            remedy="write max_run: 168h",
        )


@block(rules=(_flex_start_needs_max_run,))
class GcpConfig:
    """A project at Google Cloud."""

    type: ClassVar[str] = "gcp"
    name: str
    project: str = key(TEXT, doc="the project that owns the machines", restart=_CONNECTED_ONCE)
    zone: str = key(
        TEXT,
        default="us-central1-a",
        doc="the zone to buy in if a pool names none",
        restart=_CONNECTED_ONCE,
    )
    region: str | None = key(
        TEXT, default=None, doc="the region to buy in if a pool names none", restart=_CONNECTED_ONCE
    )
    credentials_file: str | None = key(
        PATH,
        default=None,
        doc="the key file of a service account; the server's default credentials if left out",
        restart=_CONNECTED_ONCE,
    )
    network: str | None = key(
        TEXT, default=None, doc="the network machines join", restart=_CONNECTED_ONCE
    )
    subnetwork: str | None = key(
        TEXT, default=None, doc="the subnetwork machines join", restart=_CONNECTED_ONCE
    )
    public_address: bool = key(
        BOOLEAN,
        default=True,
        doc="give machines a public address",
        restart=_CONNECTED_ONCE,
    )
    service_account: str | None = key(
        TEXT,
        default=None,
        doc="the service account of the machines; none if left out",
        restart=_CONNECTED_ONCE,
    )
    image: str | None = key(
        TEXT,
        default=None,
        doc="the image or image family to boot; Ubuntu 24.04 if left out",
        restart=_CONNECTED_ONCE,
    )
    disk_gb: int = key(
        Integer(least=10, most=65536, example="200"),
        default=200,
        doc="the size of the boot disk",
        restart=_CONNECTED_ONCE,
    )
    flex_start: bool = key(
        BOOLEAN,
        default=False,
        doc="queue for machines that run for at most `max_run`, instead of being refused",
        restart=_CONNECTED_ONCE,
    )
    max_run: timedelta | None = key(
        DURATION,
        default=None,
        doc="how long a machine runs before the provider terminates it",
        restart=_CONNECTED_ONCE,
    )
    endpoint: str | None = key(URL, default=None, doc="the URL of the API", restart=_CONNECTED_ONCE)
    billing_endpoint: str | None = key(
        URL,
        default=None,
        doc="the URL of the billing API; Google's unless `endpoint` is set",
        restart=_CONNECTED_ONCE,
    )


def _region_is_among_regions(region: str | None, regions: tuple[str, ...]) -> Iterator[Fault]:
    if region is not None and regions and region not in regions:
        yield Fault(
            at=("region",),
            message=f'"{region}" is not listed under regions',
            remedy=f"add it to regions, or write region: {regions[0]}",
        )


@block(rules=(_region_is_among_regions,))
class AwsConfig:
    """An account at AWS, with credentials from the same sources as the AWS command line."""

    type: ClassVar[str] = "aws"
    name: str
    region: str | None = key(
        TEXT, default=None, doc="the region to buy in if a pool names none", restart=_CONNECTED_ONCE
    )
    regions: tuple[str, ...] = key(
        ListOf(each=TEXT),
        default=(),
        doc="the regions to buy and list machines in; all regions of the account if left out",
        restart=_CONNECTED_ONCE,
    )
    profile: str | None = key(
        TEXT,
        default=None,
        doc="the profile of the shared credentials file",
        restart=_CONNECTED_ONCE,
    )
    credentials_file: str | None = key(
        PATH, default=None, doc="a shared credentials file at another path", restart=_CONNECTED_ONCE
    )
    image: str | None = key(
        TEXT,
        default=None,
        doc="the AMI to boot, or `resolve:ssm:` and a parameter; AWS's GPU image if left out",
        restart=_CONNECTED_ONCE,
    )
    images: Mapping[str, str] = key(
        MapOf(each=TEXT),
        default_factory=dict,
        doc="the AMI to boot, by region",
        restart=_CONNECTED_ONCE,
    )
    subnet: str | None = key(
        TEXT, default=None, doc="the subnet machines join", restart=_CONNECTED_ONCE
    )
    subnets: tuple[str, ...] = key(
        ListOf(each=TEXT), default=(), doc="subnets in several zones", restart=_CONNECTED_ONCE
    )
    security_groups: tuple[str, ...] = key(
        ListOf(each=TEXT),
        default=(),
        doc="the security groups of the machines",
        restart=_CONNECTED_ONCE,
    )
    instance_profile: str | None = key(
        TEXT, default=None, doc="the IAM instance profile of the machines", restart=_CONNECTED_ONCE
    )
    efa: bool | None = key(
        BOOLEAN,
        default=None,
        doc="attach every network card; only in pools with gangs if left out",
        restart=_CONNECTED_ONCE,
    )
    root_disk_gb: int = key(
        Integer(least=0, most=65536, example="500"),
        default=0,
        doc="the size of the root disk; the size of the image if left out",
        restart=_CONNECTED_ONCE,
    )
    event_queue: str | None = key(
        URL,
        default=None,
        doc="the SQS queue that receives EC2 events from EventBridge: interruptions, rebalancing",
        restart=_CONNECTED_ONCE,
    )
    endpoint: str | None = key(URL, default=None, doc="the URL of the API", restart=_CONNECTED_ONCE)


@block()
class DockerConfig:
    """Containers on one Docker engine, for tests."""

    type: ClassVar[str] = "docker"
    name: str
    host: str | None = key(
        TEXT,
        default=None,
        doc="the address of the engine; DOCKER_HOST if left out",
        restart=_CONNECTED_ONCE,
    )
    image: str = key(
        TEXT, default="navarch-agent", doc="the image of every machine", restart=_CONNECTED_ONCE
    )
    command: tuple[str, ...] = key(
        ListOf(each=TEXT),
        default=("navarch", "agent"),
        doc="the command that runs in it: the agent of the image",
        restart=_CONNECTED_ONCE,
    )
    network: str = key(
        TEXT, default="bridge", doc="the network machines join", restart=_CONNECTED_ONCE
    )
    ssh_public_key_path: str | None = key(
        PATH,
        default=None,
        doc="the public SSH key that can log in to machines",
        restart=_CONNECTED_ONCE,
    )
    gpu_count: int = key(
        Integer(least=0, most=1024),
        default=0,
        doc="simulated GPUs per machine",
        restart=_CONNECTED_ONCE,
    )
    real_gpus: bool = key(
        BOOLEAN,
        default=False,
        doc="give every machine all GPUs of the host, through the NVIDIA runtime",
        restart=_CONNECTED_ONCE,
    )


@block()
class HostConfig:
    """A machine of a bare-metal provider."""

    name: str = key(NAME, doc="the name of the machine")
    address: str = key(TEXT, doc="the address or host name for SSH")
    instance_type: str = key(
        TEXT, default="baremetal", doc="the `instance_type` that pools use for it"
    )
    gpus: int = key(GPUS, default=8, doc="the number of GPUs")
    gpu_type: str = key(TEXT, default="", doc="the model of the GPUs")
    host_key: str = key(
        TEXT, doc="its public SSH key, as printed by `ssh-keyscan -t ed25519 ADDRESS`; pinned"
    )
    private_address: str = key(TEXT, default="", doc="its address in the private network")
    region: str = key(
        TEXT, default="", doc="the `region` that pools use for its site; any if left out"
    )
    zone: str = key(
        TEXT, default="", doc="the `zone` that pools use for its part of the site; any if left out"
    )
    block: str = key(
        TEXT, default="", doc="the network block: machines in it reach each other at full speed"
    )
    rack: str = key(TEXT, default="", doc="the rack of the machine")
    ssh_user: str = key(TEXT, default="root", doc="the SSH user")
    ssh_port: int = key(PORT, default=22, doc="the SSH port")
    labels: Mapping[str, str] = key(MapOf(each=TEXT), default_factory=dict, doc="further labels")


def _hosts_are_unique(hosts: tuple[HostConfig, ...]) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, host in enumerate(hosts):
        if host.name in seen:
            yield Fault(
                at=("hosts", index, "name"),
                message=f'the host "{host.name}" is listed twice',
                remedy="keep one of the two",
            )
        seen.add(host.name)


@block(rules=(_hosts_are_unique,))
class InventoryConfig:
    """An inventory file."""

    hosts: tuple[HostConfig, ...] = key(
        ListOf(each=Nested(cls=HostConfig), empty=False), doc="the machines"
    )


def _hosts_or_inventory(hosts: tuple[HostConfig, ...], inventory: str | None) -> Iterator[Fault]:
    if bool(hosts) == bool(inventory):
        yield Fault(
            at=("hosts",),
            message="cannot specify both hosts and inventory"
            if hosts
            else "hosts or inventory is required",
            remedy="list the machines under hosts:, or write inventory: with a file that does",
        )


@block(rules=(_hosts_are_unique, _hosts_or_inventory))
class BareMetalConfig:
    """Machines that you own, lent to pools and cleaned up before the next use."""

    type: ClassVar[str] = "baremetal"
    name: str
    hosts: tuple[HostConfig, ...] = key(
        ListOf(each=Nested(cls=HostConfig), empty=False),
        default=(),
        doc="the machines",
        restart=_CONNECTED_ONCE,
    )
    inventory: str | None = key(
        PATH,
        default=None,
        doc="instead of `hosts`: a file with the key `hosts`",
        restart=_CONNECTED_ONCE,
    )
    ssh_private_key_path: str | None = key(
        PATH, default=None, doc="the private SSH key", restart=_CONNECTED_ONCE
    )
    clean_up_commands: tuple[str, ...] = key(
        ListOf(each=COMMAND),
        default=(),
        doc="commands to run on a returned machine before it is lent again",
        restart=_CONNECTED_ONCE,
    )
    claim_file: str = key(
        TEXT,
        default="/var/lib/navarch/claim",
        doc="the file on a machine that records which node uses it",
        restart=_CONNECTED_ONCE,
    )
    lease_dir: str | None = key(
        PATH,
        default=None,
        doc="the folder that records which machine is lent to which node; servers may share it",
        restart=_CONNECTED_ONCE,
    )


ProviderConfig: TypeAlias = (
    FakeConfig | LambdaConfig | GcpConfig | AwsConfig | DockerConfig | BareMetalConfig
)

PROVIDER_TYPES: Mapping[str, type] = {
    cls.type: cls
    for cls in (LambdaConfig, GcpConfig, AwsConfig, FakeConfig, DockerConfig, BareMetalConfig)
}

CLOUDS = (AwsConfig, GcpConfig, LambdaConfig)
"""The types of machines that start no agent unless something installs it.

Simulated machines and containers come with an agent; bare-metal machines may have one already.
"""


def _types(context: Mapping[str, object]) -> Mapping[str, type]:
    types = context.get("provider_types", PROVIDER_TYPES)
    assert isinstance(types, Mapping), types
    return types


PROVIDER: Tagged[ProviderConfig] = Tagged(options=_types, unknown="unknown provider type")

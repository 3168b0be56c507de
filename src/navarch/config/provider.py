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
from navarch.config.schema import Fault, block, key, repeated
from navarch.config.secret import Secret

GPUS = Integer(least=1, most=1024, example="8")
PORT = Integer(least=1, most=65535, example="22")
COUNT_OR_ZERO = Integer(least=0, most=1_000_000, example="8")
_CONNECTED_ONCE = "providers are connected once, when the server starts"


def _boot_times_in_order(boot_min: timedelta, boot_max: timedelta) -> Iterator[Fault]:
    if boot_min > boot_max:
        yield Fault(
            "boot_min cannot exceed boot_max",
            "make boot_max the longer of the two",
            at=("boot_min",),
        )


SIMULATED_GPU_HOUR = Decimal("2.99")
"""The price of a simulated GPU that `prices` does not list."""
ONE_GPU = "h100-1x"
"""The only type with one GPU instead of `gpu_count`."""


@block(rules=(_boot_times_in_order,), restart=_CONNECTED_ONCE)
class FakeConfig:
    """A simulated cloud: machines that cost nothing and run the real agent."""

    type: ClassVar[str] = "fake"
    name: str
    gpu_count: int = key(GPUS, "GPUs per machine", default=8)
    gpu_type: str = key(TEXT, "the model that the GPUs report", default="NVIDIA H100 80GB HBM3")
    boot_min: timedelta = key(
        DURATION_OR_ZERO, "the shortest boot time", default=timedelta(seconds=3)
    )
    boot_max: timedelta = key(
        DURATION_OR_ZERO, "the longest boot time", default=timedelta(seconds=10)
    )
    bad_boot_share: float = key(
        Real(least=0, most=1, example="0.1"),
        "the share of machines that fail to boot and have to be replaced",
        default=0.1,
    )
    prices: Mapping[str, Decimal] = key(
        MapOf(each=MONEY),
        f"price per hour by instance type; ${SIMULATED_GPU_HOUR} for each GPU if left out",
        default_factory=dict,
    )
    spot_prices: Mapping[str, Decimal] = key(
        MapOf(each=MONEY), "price per hour of spot machines by instance type", default_factory=dict
    )
    stock: Mapping[str, int] | None = key(
        MapOf(each=COUNT_OR_ZERO),
        "how many machines of each type can run at once, spot machines under `TYPE spot`; "
        "none of a type that is not listed, any number if left out",
        default=None,
    )
    reservations: Mapping[str, int] = key(
        MapOf(each=COUNT_OR_ZERO),
        "how many machines each capacity reservation holds, by name",
        default_factory=dict,
    )
    blocks: Mapping[str, int] | None = key(
        MapOf(each=COUNT_OR_ZERO),
        "how many machines fit into each network block; `ZONE/NAME` is in that zone. "
        "Four large blocks if left out",
        default=None,
    )
    seed: int | None = key(
        Integer(least=0), "the random seed that makes its failures repeatable", default=None
    )

    def price(self, instance_type: str) -> Decimal:
        """Return the hourly price of an instance type."""
        gpus = 1 if instance_type == ONE_GPU else self.gpu_count
        return self.prices.get(instance_type, SIMULATED_GPU_HOUR * gpus)


def _api_key_is_set(api_key: Secret | None, api_key_env: str) -> Iterator[Fault]:
    if api_key is None:
        yield Fault(
            f"{api_key_env} environment variable is required",
            f"set {api_key_env} where the server runs, or write api_key_file",
            at=("api_key_env",),
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
        "the environment variable that holds the API key if the file does not",
        default="LAMBDA_API_KEY",
    )
    api_key: Secret | None = key(
        SECRET, "the API key", default=None, file=True, environment_key="api_key_env"
    )
    ssh_key: str | None = key(
        TEXT,
        "the name of an SSH key at Lambda, or a public key, for pools without `ssh_keys`",
        default=None,
        restart=_CONNECTED_ONCE,
    )
    endpoint: str = key(
        URL, "the URL of the API", default="https://cloud.lambda.ai/api/v1", restart=_CONNECTED_ONCE
    )


FLEX_START_MAX = timedelta(days=7)


def _flex_start_needs_max_run(flex_start: bool, max_run: timedelta | None) -> Iterator[Fault]:
    if flex_start and max_run is None:
        yield Fault(
            "flex_start needs max_run",
            "add max_run: with how long a machine runs, at most 168h",
            at=("flex_start",),
        )
    if flex_start and max_run is not None and max_run > FLEX_START_MAX:
        yield Fault(
            "flex-start machines run for at most 7 days", "write max_run: 168h", at=("max_run",)
        )


@block(rules=(_flex_start_needs_max_run,), restart=_CONNECTED_ONCE)
class GcpConfig:
    """A project at Google Cloud."""

    type: ClassVar[str] = "gcp"
    name: str
    project: str = key(TEXT, "the project that owns the machines")
    zone: str = key(TEXT, "the zone to buy in if a pool names none", default="us-central1-a")
    region: str | None = key(TEXT, "the region to buy in if a pool names none", default=None)
    credentials_file: str | None = key(
        PATH,
        "the key file of a service account; the server's default credentials if left out",
        default=None,
    )
    network: str | None = key(TEXT, "the network machines join", default=None)
    subnetwork: str | None = key(TEXT, "the subnetwork machines join", default=None)
    public_address: bool = key(BOOLEAN, "give machines a public address", default=True)
    service_account: str | None = key(
        TEXT, "the service account of the machines; none if left out", default=None
    )
    image: str | None = key(
        TEXT, "the image or image family to boot; Ubuntu 24.04 if left out", default=None
    )
    disk_gb: int = key(
        Integer(least=10, most=65536, example="200"), "the size of the boot disk", default=200
    )
    flex_start: bool = key(
        BOOLEAN,
        "queue for machines that run for at most `max_run`, instead of being refused",
        default=False,
    )
    max_run: timedelta | None = key(
        DURATION, "how long a machine runs before the provider terminates it", default=None
    )
    machines_per_call: int = key(
        Integer(least=1, most=64, example="1"),
        "the most machines of one call, in any zone that the pool lists in the region",
        default=32,
    )
    endpoint: str | None = key(URL, "the URL of the API", default=None)
    billing_endpoint: str | None = key(
        URL, "the URL of the billing API; Google's unless `endpoint` is set", default=None
    )


def _region_is_among_regions(region: str | None, regions: tuple[str, ...]) -> Iterator[Fault]:
    if region is not None and regions and region not in regions:
        yield Fault(
            f'"{region}" is not listed under regions',
            f"add it to regions, or write region: {regions[0]}",
            at=("region",),
        )


@block(rules=(_region_is_among_regions,), restart=_CONNECTED_ONCE)
class AwsConfig:
    """An account at AWS, with credentials from the same sources as the AWS command line."""

    type: ClassVar[str] = "aws"
    name: str
    region: str | None = key(TEXT, "the region to buy in if a pool names none", default=None)
    regions: tuple[str, ...] = key(
        ListOf(each=TEXT),
        "the regions to buy and list machines in; all regions of the account if left out",
        default=(),
    )
    profile: str | None = key(TEXT, "the profile of the shared credentials file", default=None)
    credentials_file: str | None = key(
        PATH, "a shared credentials file at another path", default=None
    )
    image: str | None = key(
        TEXT,
        "the AMI to boot, or `resolve:ssm:` and a parameter; AWS's GPU image if left out",
        default=None,
    )
    images: Mapping[str, str] = key(
        MapOf(each=TEXT), "the AMI to boot, by region", default_factory=dict
    )
    subnet: str | None = key(TEXT, "the subnet machines join", default=None)
    subnets: tuple[str, ...] = key(ListOf(each=TEXT), "subnets in several zones", default=())
    security_groups: tuple[str, ...] = key(
        ListOf(each=TEXT), "the security groups of the machines", default=()
    )
    instance_profile: str | None = key(
        TEXT, "the IAM instance profile of the machines", default=None
    )
    efa: bool | None = key(
        BOOLEAN, "attach every network card; only in pools with gangs if left out", default=None
    )
    root_disk_gb: int = key(
        Integer(least=0, most=65536, example="500"),
        "the size of the root disk; the size of the image if left out",
        default=0,
    )
    machines_per_call: int = key(
        Integer(least=1, most=40, example="1"),
        "the most machines of one call, in any zone that the pool lists in the region; "
        "they share tags and user data",
        default=32,
    )
    event_queue: str | None = key(
        URL,
        "the SQS queue that receives EC2 events from EventBridge: interruptions, rebalancing",
        default=None,
    )
    endpoint: str | None = key(URL, "the URL of the API", default=None)


@block(restart=_CONNECTED_ONCE)
class DockerConfig:
    """Containers on one Docker engine, for tests."""

    type: ClassVar[str] = "docker"
    name: str
    host: str | None = key(TEXT, "the address of the engine; DOCKER_HOST if left out", default=None)
    image: str = key(TEXT, "the image of every machine", default="navarch-agent")
    command: tuple[str, ...] = key(
        ListOf(each=TEXT),
        "the command that runs in it: the agent of the image",
        default=("navarch", "agent"),
    )
    network: str = key(TEXT, "the network machines join", default="bridge")
    ssh_public_key_path: str | None = key(
        PATH, "the public SSH key that can log in to machines", default=None
    )
    gpu_count: int = key(Integer(least=0, most=1024), "simulated GPUs per machine", default=0)
    real_gpus: bool = key(
        BOOLEAN,
        "give every machine all GPUs of the host, through the NVIDIA runtime",
        default=False,
    )


@block()
class BmcConfig:
    """The management controller of a machine, read over Redfish while the machine is silent."""

    address: str = key(URL, "its URL, such as `https://10.2.0.11`")
    user: str | None = key(TEXT, "its user; `bmc_user` of the provider if left out", default=None)
    password: Secret | None = key(
        SECRET, "its password; `bmc_password` of the provider if left out", default=None, file=True
    )
    system: str = key(
        TEXT,
        "the name of the machine at the controller, if it manages several",
        default="",
    )
    serial: str = key(
        TEXT,
        "the serial number or UUID of the machine: a controller that reports another is ignored",
        default="",
    )


@block()
class HostConfig:
    """A machine of a bare-metal provider."""

    name: str = key(NAME, "the name of the machine")
    address: str = key(TEXT, "the address or host name for SSH")
    instance_type: str = key(TEXT, "the `instance_type` that pools use for it", default="baremetal")
    gpus: int = key(GPUS, "the number of GPUs", default=8)
    gpu_type: str = key(TEXT, "the model of the GPUs", default="")
    host_key: str = key(
        TEXT, "its public SSH key, as printed by `ssh-keyscan -t ed25519 ADDRESS`; pinned"
    )
    private_address: str = key(TEXT, "its address in the private network", default="")
    region: str = key(TEXT, "the `region` that pools use for its site; any if left out", default="")
    zone: str = key(
        TEXT, "the `zone` that pools use for its part of the site; any if left out", default=""
    )
    block: str = key(
        TEXT, "the network block: machines in it reach each other at full speed", default=""
    )
    rack: str = key(TEXT, "the rack of the machine", default="")
    ssh_user: str = key(TEXT, "the SSH user", default="root")
    ssh_port: int = key(PORT, "the SSH port", default=22)
    labels: Mapping[str, str] = key(MapOf(each=TEXT), "further labels", default_factory=dict)
    bmc: BmcConfig | None = key(Nested(cls=BmcConfig), "its management controller", default=None)


def _controllers_are_unique(hosts: tuple[HostConfig, ...]) -> Iterator[Fault]:
    managed = [
        (host.bmc.address.rstrip("/"), host.bmc.system) if host.bmc else index
        for index, host in enumerate(hosts)
    ]
    for index in repeated(managed):
        yield Fault(
            f'the host "{hosts[index].name}" has the management controller of another host',
            "write the address of its own, and system: if a controller manages several",
            at=("hosts", index, "bmc"),
        )


def _hosts_are_unique(hosts: tuple[HostConfig, ...]) -> Iterator[Fault]:
    for index in repeated([host.name for host in hosts]):
        message = f'the host "{hosts[index].name}" is listed twice'
        yield Fault(message, "keep one of the two", at=("hosts", index, "name"))


def _logins_are_encrypted(hosts: tuple[HostConfig, ...]) -> Iterator[Fault]:
    for index, host in enumerate(hosts):
        if host.bmc is not None and host.bmc.address.startswith("http://"):
            yield Fault(
                f'the login for the management controller of "{host.name}" is sent as clear text',
                "write https://",
                at=("hosts", index, "bmc", "address"),
                warning=True,
            )


@block(rules=(_hosts_are_unique, _controllers_are_unique, _logins_are_encrypted))
class InventoryConfig:
    """An inventory file."""

    hosts: tuple[HostConfig, ...] = key(
        ListOf(each=Nested(cls=HostConfig), empty=False), "the machines"
    )


def _hosts_or_inventory(hosts: tuple[HostConfig, ...], inventory: str | None) -> Iterator[Fault]:
    if bool(hosts) == bool(inventory):
        yield Fault(
            "cannot specify both hosts and inventory"
            if hosts
            else "hosts or inventory is required",
            "list the machines under hosts:, or write inventory: with a file that does",
            at=("hosts",),
        )


@block(
    rules=(_hosts_are_unique, _controllers_are_unique, _hosts_or_inventory, _logins_are_encrypted),
    restart=_CONNECTED_ONCE,
)
class BareMetalConfig:
    """Machines that you own, lent to pools and cleaned up before the next use."""

    type: ClassVar[str] = "baremetal"
    name: str
    hosts: tuple[HostConfig, ...] = key(
        ListOf(each=Nested(cls=HostConfig), empty=False), "the machines", default=()
    )
    inventory: str | None = key(
        PATH, "instead of `hosts`: a file with the key `hosts`", default=None
    )
    ssh_private_key_path: str | None = key(PATH, "the private SSH key", default=None)
    clean_up_commands: tuple[str, ...] = key(
        ListOf(each=COMMAND),
        "commands to run on a returned machine before it is lent again",
        default=(),
    )
    claim_file: str = key(
        TEXT,
        "the file on a machine that records which node uses it",
        default="/var/lib/navarch/claim",
    )
    lease_dir: str | None = key(
        PATH,
        "the folder that records which machine is lent to which node; servers may share it",
        default=None,
    )
    bmc_user: str = key(TEXT, "the user for management controllers", default="")
    bmc_password: Secret | None = key(
        SECRET,
        "the password for management controllers",
        default=None,
        file=True,
        environment="NAVARCH_BMC_PASSWORD",
    )
    bmc_ca_file: str | None = key(
        PATH,
        "the certificates that management controllers may have; those of the system if left out",
        default=None,
    )
    bmc_verify: bool = key(
        BOOLEAN, "whether management controllers must prove who they are", default=True
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

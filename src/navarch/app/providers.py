"""Builds a provider from its block in the configuration.

Each builder imports its adapter when it is called, so a server needs the libraries of those clouds
only that its configuration names.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from navarch.app.bringup import AgentEnvironment, open_shells
from navarch.app.servers import StartError
from navarch.catalogue.images import GCP_IMAGE
from navarch.clock import ThreadOffload
from navarch.config.provider import (
    AwsConfig,
    BareMetalConfig,
    BmcConfig,
    DockerConfig,
    GcpConfig,
    HostConfig,
    LambdaConfig,
    ProviderConfig,
)
from navarch.core.errors import InvalidError
from navarch.ports.bmc import Bmc, BmcReader
from navarch.ports.clock import Clock, Entropy
from navarch.ports.provider import Provider

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

    from navarch.providers.baremetal import Host
    from navarch.providers.gcp.prices import PriceList
    from navarch.providers.gcp.translation import GcpSettings
    from navarch.providers.lambdalabs.account import RateLimits

GCP_CALLS_AT_ONCE = 8
"""A launch is a handful of short calls; more of them at once would only exceed the rate limit."""

LAMBDA_CALLS_AT_ONCE = 4
"""The rate limit is one call per second, and the slowest calls take a few seconds."""

EXTRAS: Mapping[str, str] = {"aws": "aws", "gcp": "gcp", "baremetal": "ssh"}
"""The optional install that a type of provider needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContext:
    """What a builder receives from the process in which the provider runs."""

    clock: Clock
    entropy: Entropy
    data_dir: Path
    """A provider may keep files in `<data_dir>/<type>/<name>`."""
    closing: ExitStack
    """Callbacks that the server runs when it stops, in reverse order."""
    agents: AgentEnvironment = field(default_factory=AgentEnvironment)

    def threads(self, name: str, *, at_once: int = 1) -> ThreadOffload:
        """Return threads for blocking calls, which end with the server."""
        threads = ThreadOffload(f"navarch-{name}", at_once=at_once)
        self.closing.callback(threads.close)
        return threads


def build_provider(config: ProviderConfig, context: ProviderContext) -> Provider:
    """Return the provider that `config` describes, or raise StartError.

    Builders open no connections: the server starts even if a cloud is down.
    """
    build = _BUILDERS.get(config.type)
    if build is None:
        raise StartError(
            f"provider {config.name!r}: this version has no provider of type "
            f"{config.type}; register one with ControlPlane(providers=...)"
        )
    try:
        return build(config, context)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(config.type, config.type)
        raise StartError(
            f"provider {config.name!r} needs the Python package {error.name!r}, which is not "
            f"installed; run: pip install 'navarch[{extra}]'"
        ) from error


def renew_provider(provider: Provider, config: ProviderConfig) -> None:
    """Pass on what a reloaded configuration may change of a running provider: Lambda's API key."""
    if isinstance(config, LambdaConfig) and config.api_key is not None:
        from navarch.providers.lambdalabs.provider import LambdaCloud

        assert isinstance(provider, LambdaCloud), provider
        provider.account.use_key(config.api_key.reveal())


def _aws(config: ProviderConfig, context: ProviderContext) -> Provider:
    from navarch.providers.aws.account import AwsAccount
    from navarch.providers.aws.ec2 import CALLS_AT_ONCE, AwsSettings

    assert isinstance(config, AwsConfig), config
    settings = AwsSettings(
        name=config.name,
        region=config.region or "",
        regions=config.regions,
        profile=config.profile or "",
        credentials_file=config.credentials_file or "",
        image=config.image or "",
        images=config.images,
        subnets=(*((config.subnet,) if config.subnet else ()), *config.subnets),
        security_groups=config.security_groups,
        instance_profile=config.instance_profile or "",
        efa=config.efa,
        root_gb=config.root_disk_gb,
        machines_per_call=config.machines_per_call,
        event_queue=config.event_queue or "",
        endpoint=config.endpoint or "",
    )
    threads = context.threads(f"aws-{config.name}", at_once=CALLS_AT_ONCE)
    return AwsAccount(context.clock, threads, settings)


def _gcp(config: ProviderConfig, context: ProviderContext) -> Provider:
    from navarch.providers.gcp.client import COMPUTE, ComputeClient
    from navarch.providers.gcp.provider import GcpCloud

    assert isinstance(config, GcpConfig), config
    threads = context.threads(f"gcp-{config.name}", at_once=GCP_CALLS_AT_ONCE)
    client = ComputeClient(
        threads,
        project=config.project,
        credentials=_gcp_credentials(COMPUTE, config.endpoint, config),
        endpoint=config.endpoint,
    )
    prices = _gcp_prices(config, context, threads)
    return GcpCloud(context.clock, client, gcp_settings(config), prices=prices)


def _gcp_prices(
    config: GcpConfig, context: ProviderContext, threads: ThreadOffload
) -> "PriceList | None":
    """Return the price list; None if the compute API has an endpoint of its own and prices none."""
    from navarch.providers.gcp.client import PRICES
    from navarch.providers.gcp.prices import ENDPOINT, PriceList

    endpoint = config.billing_endpoint or (ENDPOINT if config.endpoint is None else None)
    if endpoint is None:
        return None
    credentials = _gcp_credentials(PRICES, endpoint, config)
    prices = PriceList(context.clock, threads, credentials, endpoint=endpoint)
    context.closing.callback(prices.close)
    return prices


def _gcp_credentials(
    scope: str, endpoint: str | None, config: GcpConfig
) -> "Callable[[], Credentials]":
    from navarch.providers.gcp.client import anonymous, credentials_for

    # An endpoint without TLS is a local one, for tests: never send it a key.
    if endpoint is not None and endpoint.startswith("http://"):
        return anonymous
    return credentials_for(scope, file=config.credentials_file)


def gcp_settings(config: GcpConfig) -> "GcpSettings":
    """Return the settings of the GCP adapter."""
    from navarch.providers.gcp.translation import NETWORK, GcpSettings

    return GcpSettings(
        name=config.name,
        project=config.project,
        zone=config.zone,
        image=config.image or GCP_IMAGE,
        network=config.network or NETWORK,
        subnetwork=config.subnetwork or "",
        service_account=config.service_account or "",
        public_address=config.public_address,
        disk_gb=config.disk_gb,
        flex_start=config.flex_start,
        max_run=config.max_run,
        machines_per_call=config.machines_per_call,
    )


_limits: "WeakValueDictionary[bytes, RateLimits]" = WeakValueDictionary()
"""By account: two providers with one key share one limit."""


def _lambda(config: ProviderConfig, context: ProviderContext) -> Provider:
    from navarch.providers.lambdalabs.account import LambdaAccount
    from navarch.providers.lambdalabs.provider import LambdaCloud

    assert isinstance(config, LambdaConfig), config
    if config.api_key is None:
        raise StartError(
            f"provider {config.name!r}: {config.api_key_env} environment variable is required; "
            "set it where the server runs, or write api_key_file"
        )
    key = config.api_key.reveal()
    account = LambdaAccount(
        context.clock,
        context.threads(f"lambda-{config.name}", at_once=LAMBDA_CALLS_AT_ONCE),
        lambda_limits_of(config.endpoint, key, context.clock.monotonic()),
        api_key=key,
        endpoint=config.endpoint,
    )
    return LambdaCloud(context.clock, account, name=config.name, ssh_key=config.ssh_key or "")


def lambda_limits_of(endpoint: str, key: str, now_s: float) -> "RateLimits":
    """Return the rate limits of an account, shared by all providers of this process."""
    from navarch.providers.lambdalabs.account import lambda_rate_limits

    account = hashlib.sha256(f"{endpoint}\0{key}".encode()).digest()
    return _limits.setdefault(account, lambda_rate_limits(now_s))


def _docker(config: ProviderConfig, context: ProviderContext) -> Provider:
    from navarch.providers.docker import Containers, Docker, engine_at
    from navarch.providers.docker.provider import DEFAULT_HOST

    assert isinstance(config, DockerConfig), config
    host = config.host or os.environ.get("DOCKER_HOST") or DEFAULT_HOST
    try:
        engine = engine_at(host)
    except InvalidError as error:
        raise StartError(f"provider {config.name!r}: {error}") from error
    key: dict[str, str] = {}
    if config.ssh_public_key_path:
        try:
            text = Path(config.ssh_public_key_path).expanduser().read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise StartError(f"provider {config.name!r}: ssh_public_key_path: {error}") from error
        key = {"PUBLIC_KEY": text.strip()}
    containers = Containers(
        image=config.image,
        network=config.network,
        command=config.command,
        simulated_gpus=config.gpu_count,
        real_gpus=config.real_gpus,
        environment=lambda request: {**context.agents.variables(request, config.name), **key},
    )
    return Docker(engine, containers, name=config.name)


def _baremetal(config: ProviderConfig, context: ProviderContext) -> Provider:
    from navarch.providers.baremetal import BareMetal, FolderLeases, Inventory

    assert isinstance(config, BareMetalConfig), config
    folder = context.data_dir / "baremetal" / config.name
    return BareMetal(
        context.clock,
        context.threads(f"leases-{config.name}"),
        open_shells(),
        name=config.name,
        inventory=Inventory(hosts={host.name: _host(host, config) for host in config.hosts}),
        leases=FolderLeases(Path(config.lease_dir) if config.lease_dir else folder),
        bmcs=_bmcs(config),
        clean_up=config.clean_up_commands,
        claim_path=config.claim_file,
    )


def _host(host: HostConfig, config: BareMetalConfig) -> "Host":
    from navarch.providers.baremetal import Host

    given = {field.name: getattr(host, field.name) for field in fields(host)}
    given["bmc"] = None if host.bmc is None else _bmc(host.bmc, config)
    return Host(**given, ssh_key_file=config.ssh_private_key_path or "")


def _bmc(bmc: BmcConfig, config: BareMetalConfig) -> Bmc:
    password = bmc.password or config.bmc_password
    return Bmc(
        address=bmc.address,
        user=config.bmc_user if bmc.user is None else bmc.user,
        password=password.reveal() if password else "",
        system=bmc.system,
        serial=bmc.serial,
    )


def _bmcs(config: BareMetalConfig) -> BmcReader | None:
    """Return what reads management controllers; None if no machine has one."""
    from navarch.providers.baremetal.redfish import RedfishReader

    if not any(host.bmc for host in config.hosts):
        return None
    try:
        return RedfishReader(ca_file=config.bmc_ca_file or "", verify=config.bmc_verify)
    except InvalidError as error:
        raise StartError(f"provider {config.name!r}: {error}") from error


_BUILDERS: Mapping[str, Callable[[ProviderConfig, ProviderContext], Provider]] = {
    "aws": _aws,
    "baremetal": _baremetal,
    "docker": _docker,
    "gcp": _gcp,
    "lambda": _lambda,
}
"""By the `type` in the configuration."""

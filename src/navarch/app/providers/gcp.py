"""`type: gcp`."""

from collections.abc import Callable

from google.auth.credentials import Credentials

from navarch.app.providers.building import Surroundings
from navarch.clock.system import ThreadOffload
from navarch.config.provider import GcpConfig, ProviderConfig
from navarch.ports.provider import Provider
from navarch.providers.gcp.client import ComputeClient
from navarch.providers.gcp.credentials import COMPUTE, PRICES, anonymous, credentials_for
from navarch.providers.gcp.pricelist import ENDPOINT, PriceList
from navarch.providers.gcp.provider import GcpCloud
from navarch.providers.gcp.translation import IMAGE, NETWORK, GcpSettings

CALLS_AT_ONCE = 8
"""A launch is a handful of short calls; more of them at once would only meet the rate limit."""


def build(config: ProviderConfig, surroundings: Surroundings) -> Provider:
    """Return the project that `config` describes."""
    assert isinstance(config, GcpConfig), config
    threads = surroundings.threads(f"gcp-{config.name}", at_once=CALLS_AT_ONCE)
    client = ComputeClient(
        threads,
        project=config.project,
        credentials=_credentials(COMPUTE, config.endpoint, config),
        endpoint=config.endpoint,
    )
    prices = _prices(config, surroundings, threads)
    return GcpCloud(surroundings.clock, client, to_settings(config), prices=prices)


def _prices(
    config: GcpConfig, surroundings: Surroundings, threads: ThreadOffload
) -> PriceList | None:
    """Return where prices are read; nowhere for a project whose API is not where Google has it."""
    where = config.billing_endpoint or (ENDPOINT if config.endpoint is None else None)
    if where is None:
        return None
    credentials = _credentials(PRICES, where, config)
    prices = PriceList(surroundings.clock, threads, credentials, endpoint=where)
    surroundings.closing.callback(prices.close)
    return prices


def _credentials(scope: str, endpoint: str | None, config: GcpConfig) -> Callable[[], Credentials]:
    # No key of anybody's is sent in the clear: such an endpoint is a local one, for tests.
    if endpoint is not None and endpoint.startswith("http://"):
        return anonymous
    return credentials_for(scope, file=config.credentials_file)


def to_settings(config: GcpConfig) -> GcpSettings:
    """Return what the adapter is told."""
    return GcpSettings(
        name=config.name,
        project=config.project,
        zone=config.zone,
        image=config.image or IMAGE,
        network=config.network or NETWORK,
        subnetwork=config.subnetwork or "",
        service_account=config.service_account or "",
        public_address=config.public_address,
        disk_gb=config.disk_gb,
        flex_start=config.flex_start,
        max_run=config.max_run,
    )

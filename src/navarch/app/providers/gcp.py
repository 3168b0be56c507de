"""`type: gcp`."""

from navarch.app.providers.building import Surroundings
from navarch.config.provider import GcpConfig, ProviderConfig
from navarch.ports.provider import Provider
from navarch.providers.gcp.client import ComputeClient
from navarch.providers.gcp.provider import GcpCloud
from navarch.providers.gcp.translation import IMAGE, NETWORK, GcpSettings

CALLS_AT_ONCE = 8
"""A launch is a handful of short calls; more of them at once would only meet the rate limit."""


def build(config: ProviderConfig, surroundings: Surroundings) -> Provider:
    """Return the project that `config` describes."""
    assert isinstance(config, GcpConfig), config
    client = ComputeClient(
        surroundings.threads(f"gcp-{config.name}", at_once=CALLS_AT_ONCE),
        project=config.project,
        endpoint=config.endpoint,
        credentials_file=config.credentials_file,
        # No key of anybody's is sent in the clear: such an endpoint is a local one, for tests.
        anonymous=(config.endpoint or "").startswith("http://"),
    )
    return GcpCloud(surroundings.clock, client, to_settings(config))


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

"""`type: aws`."""

from navarch.app.providers.building import Surroundings
from navarch.config.provider import AwsConfig, ProviderConfig
from navarch.ports.provider import Provider
from navarch.providers.aws.account import AwsAccount
from navarch.providers.aws.ec2 import CALLS_AT_ONCE
from navarch.providers.aws.settings import AwsSettings


def build(config: ProviderConfig, surroundings: Surroundings) -> Provider:
    """Return the account that `config` describes."""
    assert isinstance(config, AwsConfig), config
    threads = surroundings.threads(f"aws-{config.name}", at_once=CALLS_AT_ONCE)
    return AwsAccount(surroundings.clock, threads, to_settings(config))


def to_settings(config: AwsConfig) -> AwsSettings:
    """Return what the adapter is told."""
    return AwsSettings(
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
        event_queue=config.event_queue or "",
        endpoint=config.endpoint or "",
    )

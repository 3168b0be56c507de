"""The bare-metal provider, as a configuration describes it."""

from pathlib import Path

from navarch.app.bringup import open_shells
from navarch.app.providers.building import Surroundings
from navarch.config.provider import BareMetalConfig, HostConfig, ProviderConfig
from navarch.ports.provider import Provider
from navarch.providers.baremetal import BareMetal, FolderLeases, Host, Inventory


def build(config: ProviderConfig, surroundings: Surroundings) -> Provider:
    """Return the provider; nothing is connected to before a machine is asked for."""
    assert isinstance(config, BareMetalConfig), config
    folder = surroundings.data_dir / "baremetal" / config.name
    return BareMetal(
        surroundings.clock,
        surroundings.threads(f"leases-{config.name}"),
        open_shells(),
        name=config.name,
        inventory=Inventory(hosts={host.name: _host(host, config) for host in config.hosts}),
        leases=FolderLeases(Path(config.lease_dir) if config.lease_dir else folder),
        clean_up=config.clean_up_commands,
        claim_path=config.claim_file,
    )


def _host(host: HostConfig, config: BareMetalConfig) -> Host:
    return Host(
        name=host.name,
        address=host.address,
        instance_type=host.instance_type,
        host_key=host.host_key,
        private_address=host.private_address,
        region=host.region,
        zone=host.zone,
        block=host.block,
        rack=host.rack,
        gpus=host.gpus,
        gpu_type=host.gpu_type,
        ssh_user=host.ssh_user,
        ssh_port=host.ssh_port,
        ssh_key_file=config.ssh_private_key_path or "",
        labels=host.labels,
    )

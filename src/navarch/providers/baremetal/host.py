"""The inventory: the machines, and how to log in to them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from navarch.ports.shell import Login


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine of the inventory."""

    name: str
    address: str
    instance_type: str
    host_key: str
    """Its pinned public key. Nothing is sent to a machine that cannot prove to hold it."""
    private_address: str = ""
    region: str = ""
    zone: str = ""
    block: str = ""
    """Machines of one block are connected at full bandwidth."""
    rack: str = ""
    gpus: int = 8
    gpu_type: str = ""
    ssh_user: str = "root"
    ssh_port: int = 22
    ssh_key_file: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def login(self) -> Login:
        """The SSH login."""
        return Login(
            address=self.address,
            port=self.ssh_port,
            user=self.ssh_user,
            key_file=self.ssh_key_file,
            host_key=self.host_key,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Every machine, by name."""

    hosts: Mapping[str, Host]

    def fitting(self, instance_type: str, region: str, zone: str) -> list[Host]:
        """Return the machines of a type in a region and zone, in the order of the inventory."""
        return [
            host
            for host in self.hosts.values()
            if host.instance_type == instance_type
            and (not region or not host.region or host.region == region)
            and (not zone or not host.zone or host.zone == zone)
        ]

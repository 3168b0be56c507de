"""The inventory: which machines there are, and how to get into them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from navarch.ports.shell import Login


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine that is there already."""

    name: str
    address: str
    instance_type: str
    host_key: str
    """Its public key, pinned. A machine that cannot prove to have it is told nothing."""
    private_address: str = ""
    region: str = ""
    zone: str = ""
    block: str = ""
    """Machines of one block can talk to each other at full speed."""
    rack: str = ""
    gpus: int = 8
    gpu_type: str = ""
    ssh_user: str = "root"
    ssh_port: int = 22
    ssh_key_file: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def login(self) -> Login:
        """How to get in."""
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
        """Return the machines of a kind at a place, in the order of the inventory."""
        return [
            host
            for host in self.hosts.values()
            if host.instance_type == instance_type
            and (not region or not host.region or host.region == region)
            and (not zone or not host.zone or host.zone == zone)
        ]

"""The bare metal provider: leases machines of an inventory, and cleans them on return."""

from navarch.providers.baremetal.leases import FolderLeases, Host, Inventory, Lease, LeaseState
from navarch.providers.baremetal.provider import BareMetal

__all__ = ["BareMetal", "FolderLeases", "Host", "Inventory", "Lease", "LeaseState"]

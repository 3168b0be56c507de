"""Machines of one's own: lent to nodes from an inventory, and taken back clean."""

from navarch.providers.baremetal.host import Host, Inventory
from navarch.providers.baremetal.leases import FolderLeases, Lease, LeaseState
from navarch.providers.baremetal.provider import BareMetal

__all__ = ["BareMetal", "FolderLeases", "Host", "Inventory", "Lease", "LeaseState"]

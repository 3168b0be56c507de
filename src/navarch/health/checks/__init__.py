"""The agent's health checks, one class per check."""

from navarch.health.checks.boot import BootCheck
from navarch.health.checks.devices import NvmlCheck
from navarch.health.checks.xid import XidCheck

__all__ = ["BootCheck", "NvmlCheck", "XidCheck"]

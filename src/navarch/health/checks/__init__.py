"""The agent's health checks, one file per check."""

from navarch.health.checks.boot import BootCheck
from navarch.health.checks.nvml import NvmlCheck
from navarch.health.checks.xid import XidCheck

__all__ = ["BootCheck", "NvmlCheck", "XidCheck"]

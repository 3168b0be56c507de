"""The checks an agent makes unless told otherwise."""

from navarch.health.checks.boot import BootCheck
from navarch.health.checks.gpu import GpuCheck
from navarch.health.checks.xid import XidCheck
from navarch.ports.checks import HealthCheck


def standard_checks() -> tuple[HealthCheck, ...]:
    """Return one of each."""
    return BootCheck(), GpuCheck(), XidCheck()

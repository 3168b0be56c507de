"""The checks an agent makes unless told otherwise."""

from navarch.health.checks.boot import BootCheck
from navarch.health.checks.count import CountCheck
from navarch.health.checks.disk import DiskCheck
from navarch.health.checks.drift import DriftCheck
from navarch.health.checks.ecc import EccCheck
from navarch.health.checks.edac import EdacCheck
from navarch.health.checks.fabric import FabricCheck
from navarch.health.checks.holders import HoldersCheck
from navarch.health.checks.infiniband import InfinibandCheck
from navarch.health.checks.mounts import MountsCheck
from navarch.health.checks.nvlink import NvlinkCheck
from navarch.health.checks.nvml import NvmlCheck
from navarch.health.checks.oom import OomCheck
from navarch.health.checks.pcie import PcieCheck
from navarch.health.checks.power import PowerCheck
from navarch.health.checks.recovery import RecoveryCheck
from navarch.health.checks.rows import RowsCheck
from navarch.health.checks.settings import SettingsCheck
from navarch.health.checks.throttle import ThrottleCheck
from navarch.health.checks.work import WorkCheck
from navarch.health.checks.xid import XidCheck
from navarch.ports.checks import HealthCheck


def standard_checks() -> tuple[HealthCheck, ...]:
    """Return one of each: after a start, of the GPUs, of the machine around them."""
    return (
        BootCheck(),
        NvmlCheck(),
        XidCheck(),
        *gpu_checks(),
        *host_checks(),
    )


def gpu_checks() -> tuple[HealthCheck, ...]:
    """Return the checks of single aspects of GPUs."""
    return (
        RecoveryCheck(),
        EccCheck(),
        RowsCheck(),
        ThrottleCheck(),
        PowerCheck(),
        PcieCheck(),
        NvlinkCheck(),
        FabricCheck(),
        CountCheck(),
        HoldersCheck(),
        SettingsCheck(),
        WorkCheck(),
    )


def host_checks() -> tuple[HealthCheck, ...]:
    """Return the checks of the machine around the GPUs."""
    return (
        InfinibandCheck(),
        DiskCheck(),
        MountsCheck(),
        EdacCheck(),
        DriftCheck(),
        OomCheck(),
    )

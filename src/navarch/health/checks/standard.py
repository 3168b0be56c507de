"""The checks that an agent runs by default, and the tests that it runs on idle machines."""

from collections.abc import Iterable, Sequence

from navarch.core.errors import InvalidError
from navarch.health.checks.bandwidth import BandwidthCheck
from navarch.health.checks.boot import BootCheck
from navarch.health.checks.burn import BurnCheck
from navarch.health.checks.clock import ClockCheck
from navarch.health.checks.count import CountCheck
from navarch.health.checks.dcgm import DcgmCheck
from navarch.health.checks.disk import DiskCheck
from navarch.health.checks.ecc import EccCheck
from navarch.health.checks.edac import EdacCheck
from navarch.health.checks.fabric import FabricCheck
from navarch.health.checks.holders import HoldersCheck
from navarch.health.checks.infiniband import InfinibandCheck
from navarch.health.checks.mounts import MountsCheck
from navarch.health.checks.nccl import NcclCheck
from navarch.health.checks.nvlink import NvlinkCheck
from navarch.health.checks.nvml import NvmlCheck
from navarch.health.checks.oom import OomCheck
from navarch.health.checks.patterns import PatternsCheck
from navarch.health.checks.pcie import PcieCheck
from navarch.health.checks.power import PowerCheck
from navarch.health.checks.recovery import RecoveryCheck
from navarch.health.checks.rows import RowsCheck
from navarch.health.checks.settings import SettingsCheck
from navarch.health.checks.throttle import ThrottleCheck
from navarch.health.checks.work import WorkCheck
from navarch.health.checks.xid import XidCheck
from navarch.ports.checks import HealthCheck

ALL = "all"


def standard_checks() -> tuple[HealthCheck, ...]:
    """Return the passive checks, in the order in which an agent runs them."""
    return (
        BootCheck(),
        NvmlCheck(),
        XidCheck(),
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
        InfinibandCheck(),
        DiskCheck(),
        MountsCheck(),
        EdacCheck(),
        ClockCheck(),
        OomCheck(),
    )


def active_checks(peers: Iterable[str] = ()) -> tuple[HealthCheck, ...]:
    """Return the tests that use the GPUs: weekly on idle machines, and on request.

    The first three need no other software.
    """
    nccl = NcclCheck(peers=tuple(peers))
    return BurnCheck(), PatternsCheck(), BandwidthCheck(), DcgmCheck(), nccl


def choose_active(names: Iterable[str], *, peers: Iterable[str] = ()) -> Sequence[HealthCheck]:
    """Return the active checks called `names`; raise InvalidError for an unknown name.

    The order is that of `active_checks`. `peers` are passed to `NcclCheck`.
    """
    wanted = {name.strip() for name in names if name.strip()}
    known = active_checks(peers)
    unknown = sorted(wanted - {check.name for check in known} - {ALL})
    if unknown:
        there = ", ".join(check.name for check in known)
        raise InvalidError(f"there is no test called {unknown[0]}; there are {there} and {ALL}")
    return [check for check in known if ALL in wanted or check.name in wanted]

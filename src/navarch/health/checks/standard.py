"""The checks that an agent runs by default, and the tests that it runs on idle machines."""

from collections.abc import Iterable, Sequence

from navarch.core.errors import InvalidError
from navarch.health.checks.boot import BootCheck
from navarch.health.checks.devices import CountCheck, HoldersCheck, NvmlCheck, RecoveryCheck
from navarch.health.checks.diagnostics import (
    BandwidthCheck,
    BurnCheck,
    DcgmCheck,
    NcclCheck,
    PatternsCheck,
)
from navarch.health.checks.fabric_manager import FabricManagerCheck
from navarch.health.checks.host import (
    ClockCheck,
    DiskCheck,
    EdacCheck,
    InfinibandCheck,
    MountsCheck,
    OomCheck,
)
from navarch.health.checks.links import FabricCheck, NvlinkCheck, PcieCheck
from navarch.health.checks.memory import EccCheck, RowsCheck
from navarch.health.checks.power import PowerCheck, SettingsCheck, ThrottleCheck
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
        FabricManagerCheck(),
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

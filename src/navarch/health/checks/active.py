"""The tests that use the GPUs: weekly on idle machines, and when somebody asks."""

from collections.abc import Iterable, Sequence

from navarch.core.errors import InvalidError
from navarch.health.checks.bandwidth import BandwidthCheck
from navarch.health.checks.burn import BurnCheck
from navarch.health.checks.dcgm import DcgmCheck
from navarch.health.checks.nccl import NcclCheck
from navarch.health.checks.patterns import PatternsCheck
from navarch.ports.checks import HealthCheck

ALL = "all"


def active_checks(peers: Iterable[str] = ()) -> tuple[HealthCheck, ...]:
    """Return one of each: our own first, which need nothing installed."""
    nccl = NcclCheck(peers=tuple(peers))
    return BurnCheck(), PatternsCheck(), BandwidthCheck(), DcgmCheck(), nccl


def choose_active(names: Iterable[str], *, peers: Iterable[str] = ()) -> Sequence[HealthCheck]:
    """Return the tests of those names, in our order; InvalidError for a name that is none.

    `peers` are the nodes with which those that span nodes are made; see `NcclCheck`.
    """
    wanted = {name.strip() for name in names if name.strip()}
    known = active_checks(peers)
    unknown = sorted(wanted - {check.name for check in known} - {ALL})
    if unknown:
        there = ", ".join(check.name for check in known)
        raise InvalidError(f"there is no test called {unknown[0]}; there are {there} and {ALL}")
    return [check for check in known if ALL in wanted or check.name in wanted]

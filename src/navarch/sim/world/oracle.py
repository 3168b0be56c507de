"""The oracle: what is truly wrong with a machine, independent of the product's own judgement.

A figure that asked the product's catalogue whether a machine is broken would repeat each of its
mistakes. The oracle takes the causes that NVIDIA documents for the codes that occur in clusters; a
scenario states the truth of anything else with `true_health`.
"""

from navarch.core.health import Health
from navarch.sim.scenario.kinds import FailureType

PROGRAM_XIDS = frozenset({13, 31, 43, 45, 66, 67, 69})
"""Errors of a program, or the traces of one that was ended: the machine is sound."""

BROKEN_XIDS = frozenset(
    {
        # The driver or its processors stop: no work until a reset or a reboot.
        *(18, 46, 51, 57, 58, 59, 62, 109, 110, 119, 120, 136, 143, 151, 155, 158, 166, 167),
        *(169, 171, 172, 173, 175, 179),
        # Memory that cannot be contained or remapped.
        *(48, 64, 95, 140),
        # A link, the bus or the power supply.
        *(54, 74, 79),
    }
)
"""The GPU cannot be used until it is reset, or its machine restarted or replaced."""

QUIET_XIDS = frozenset({63, 92})
"""Records of corrected errors: no program ends with them."""

_DEGRADED_KINDS = frozenset({FailureType.NVLINK_ERROR, FailureType.STRAGGLER})
_MONITORED_ONLY = frozenset({FailureType.NVML_FAILURE, FailureType.BACKEND_ERROR})


def true_health(kind: FailureType, xid: int | None) -> Health:
    """Return the true health of a machine with this failure."""
    if kind is FailureType.XID_ERROR:
        if xid in PROGRAM_XIDS:
            return Health.HEALTHY
        return Health.UNHEALTHY if xid in BROKEN_XIDS else Health.DEGRADED
    return Health.DEGRADED if kind in _DEGRADED_KINDS else Health.UNHEALTHY


def ends_programs(kind: FailureType, xid: int | None) -> bool:
    """Return whether programs on the machine end with this failure."""
    if kind is FailureType.XID_ERROR:
        return xid not in QUIET_XIDS
    # Hot GPUs and degraded links are slow, and a broken monitor does not stop the work.
    slow = kind in _DEGRADED_KINDS or kind is FailureType.TEMPERATURE
    return not slow and kind not in _MONITORED_ONLY

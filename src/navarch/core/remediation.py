"""Remediation: the configured response of a pool to unhealthy nodes."""

from dataclasses import dataclass
from datetime import timedelta

from navarch.core.recovery import RecoveryStep

CORDON_AND_REPLACE = "cordon_and_replace"
LADDER_STRATEGY = "ladder"
ALERT_ONLY = "alert_only"
BUILT_IN_STRATEGIES = (CORDON_AND_REPLACE, LADDER_STRATEGY, ALERT_ONLY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remediation:
    """The remediation of one pool's nodes."""

    strategy: str = ""
    """`cordon_and_replace`, `ladder`, `alert_only`, or the name of an extension; empty for the
    default of the control plane."""
    dry_run: bool = False
    """Whether to record all decisions without carrying them out."""
    steps: tuple[RecoveryStep, ...] = ()
    """The steps that a ladder may take; empty for all."""
    reboot_deadline: timedelta = timedelta(minutes=15)
    """How long a machine may take to reboot. Bare metal may need half an hour."""

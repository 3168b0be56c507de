"""Remediation: what a pool wants done about nodes whose hardware is not well."""

from dataclasses import dataclass
from datetime import timedelta

from navarch.core.recovery import RecoveryStep

CORDON_AND_REPLACE = "cordon_and_replace"
LADDER_STRATEGY = "ladder"
ALERT_ONLY = "alert_only"
BUILT_IN_STRATEGIES = (CORDON_AND_REPLACE, LADDER_STRATEGY, ALERT_ONLY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remediation:
    """How the nodes of one pool are remedied."""

    strategy: str = ""
    """`cordon_and_replace`, `ladder`, `alert_only`, or the name of one's own; empty for what the
    control plane does by default."""
    dry_run: bool = False
    """Decide everything, write it down, and do nothing."""
    steps: tuple[RecoveryStep, ...] = ()
    """The steps that a ladder may take; empty for all."""
    reboot_deadline: timedelta = timedelta(minutes=15)
    """How long a machine may take to come back. Bare metal may need half an hour."""

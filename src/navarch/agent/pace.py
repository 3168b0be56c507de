"""How fast an agent lives."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Intervals and limits. The control plane's wishes replace the two intervals."""

    heartbeat: timedelta = timedelta(seconds=30)
    health_check: timedelta = timedelta(seconds=60)
    metrics_s: float = 2.0
    """How long a heartbeat waits for readings before it goes without them."""
    inventory_s: float = 5.0
    """How long an introduction waits for the list of GPUs. A machine that comes up without one is
    introduced again as soon as its driver has answered; one that does not come up is given up."""
    first_report_s: float = 2.0
    """For how long after the start an introduction waits for the first round of checks, so that
    both go in one message. A round that takes longer is told of when it is over."""
    check_s: float = 30.0
    """How long a check may take before the driver counts as hung."""
    stop_s: float = 8.0
    """How long a stop may take."""

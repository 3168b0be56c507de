"""Recovery: failures that pass, and machines that are exchanged."""

from datetime import timedelta

from navarch.config.kinds import BOOLEAN, DURATION, DURATION_OR_ZERO
from navarch.config.schema import block, key
from navarch.sim.scenario.words import SHARE

SOONEST = timedelta(seconds=10)


@block()
class Recovery:
    """What becomes of failed machines outside of the control plane's care."""

    enabled: bool = key(BOOLEAN, default=False, doc="whether failures pass by themselves")
    probability: float = key(
        SHARE, default=0.0, doc="how likely one does that is not a fatal XID and not a cascade's"
    )
    mean_time: timedelta = key(DURATION, default=timedelta(minutes=5), doc="after how long")
    std_dev: timedelta | None = key(
        DURATION_OR_ZERO, default=None, doc="how widely that is spread; a quarter if left out"
    )
    replace_fatal: bool = key(
        BOOLEAN,
        default=False,
        doc="whether the owner exchanges a machine once the control plane calls it unhealthy",
    )
    replace_cold_start: timedelta | None = key(
        DURATION_OR_ZERO,
        default=None,
        doc="how long the new one takes; as in `startup`, or 30s to 60s, if left out",
    )

    @property
    def spread(self) -> timedelta:
        """How widely the time to recover is spread."""
        return self.mean_time / 4 if self.std_dev is None else self.std_dev

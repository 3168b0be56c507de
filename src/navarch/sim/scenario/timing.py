"""Timing: how often agents speak."""

from collections.abc import Iterator
from datetime import timedelta

from navarch.config.kinds import DURATION
from navarch.config.schema import Fault, block, key
from navarch.service.agents import Timing


def _patience(
    heartbeat_interval: timedelta, heartbeat_timeout: timedelta | None
) -> Iterator[Fault]:
    if heartbeat_timeout is not None and heartbeat_timeout <= heartbeat_interval:
        yield Fault(
            at=("heartbeat_timeout",),
            message="heartbeat_timeout must be longer than heartbeat_interval",
            remedy="three times as long is usual",
        )


@block(rules=(_patience,))
class TimingConfig:
    """As `server` has it in a configuration, with the short intervals that simulations use."""

    heartbeat_interval: timedelta = key(
        DURATION, default=timedelta(seconds=3), doc="how often an agent says that it is there"
    )
    heartbeat_timeout: timedelta | None = key(
        DURATION, default=None, doc="how long it may be silent; three intervals if left out"
    )
    health_check_interval: timedelta = key(
        DURATION, default=timedelta(seconds=5), doc="how often it checks its machine"
    )

    @property
    def timing(self) -> Timing:
        """What the control plane is told."""
        return Timing(
            heartbeat_interval=self.heartbeat_interval,
            heartbeat_timeout=self.heartbeat_timeout,
            health_check_interval=self.health_check_interval,
        )

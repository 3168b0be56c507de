"""The control plane of a scenario: how many of them, and when they die."""

from datetime import timedelta

from navarch.config.block import Nested
from navarch.config.kinds import DURATION, DURATION_OR_ZERO, Integer, ListOf
from navarch.config.schema import block, key
from navarch.sim.scenario.words import SHARE


@block()
class CrashConfig:
    """The process that leads dies where it stands, and is started again."""

    at: timedelta = key(DURATION_OR_ZERO, doc="when")
    down_for: timedelta = key(DURATION, default=timedelta(seconds=5), doc="for how long")


@block()
class PlaneConfig:
    """What may happen to the control plane itself."""

    replicas: int = key(
        Integer(least=1, most=9),
        default=1,
        doc="how many there are: one leads, and when it dies, another takes over that stands by",
    )
    takeover: timedelta = key(DURATION, default=timedelta(seconds=1), doc="how long that takes")
    crashes: tuple[CrashConfig, ...] = key(
        ListOf(each=Nested(cls=CrashConfig)), default=(), doc="when it dies"
    )
    conflicts: float = key(
        SHARE,
        default=0.0,
        doc="the share of its commits that come too late, somebody being quicker",
    )

"""Stress: a generated fleet under chaos."""

from datetime import timedelta

from navarch.config.block import Nested
from navarch.config.kinds import DURATION, TEXT, Integer, Real
from navarch.config.schema import block, key
from navarch.sim.scenario.chaos import Chaos
from navarch.sim.scenario.fleet_gen import FleetGen


@block()
class Stress:
    """How long, how large and how bad."""

    duration: timedelta = key(
        DURATION,
        default=timedelta(minutes=10),
        doc="how long, counted from the end of the start-up",
    )
    metrics_interval: timedelta = key(
        DURATION, default=timedelta(seconds=5), doc="how often the fleet is looked at"
    )
    seed: int = key(
        Integer(least=0, most=(1 << 63) - 1), default=0, doc="which chance; `--seed` goes before"
    )
    time_scale: float = key(
        Real(least=0.001, most=100_000.0),
        default=1.0,
        doc="how much faster than life, for `--real-time`; virtual time waits for nobody",
    )
    log_file: str | None = key(TEXT, default=None, doc="where to write what happened, line by line")
    report_file: str | None = key(TEXT, default=None, doc="where to write the outcome, as JSON")
    html_report_file: str | None = key(
        TEXT, default=None, doc="where to write the report, as a page"
    )
    fleet_gen: FleetGen | None = key(Nested(cls=FleetGen), default=None, doc="the fleet")
    chaos: Chaos = key(Nested(cls=Chaos), default=Chaos(), doc="what goes wrong")

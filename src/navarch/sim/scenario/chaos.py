"""Stress: a generated fleet and chaos, which is random, cascading and scheduled failures."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum

from navarch.config.block import Nested
from navarch.config.kinds import (
    BOOLEAN,
    DURATION,
    DURATION_OR_ZERO,
    TEXT,
    Choice,
    Integer,
    ListOf,
    Real,
)
from navarch.config.schema import Fault, block, key
from navarch.sim.scenario.fleet import FleetGen
from navarch.sim.scenario.kinds import (
    ANY_NUMBER,
    SHARE,
    WEIGHTS,
    FailureType,
    RandomFailureType,
    check_percentage,
)

DEFAULT_XIDS = {str(code): 1.0 for code in (13, 31, 32, 43, 45, 48, 63, 64, 74, 79, 92, 94, 95)}
"""The XIDs drawn without an `xid_distribution`, with equal weights."""
DEFAULT_DEPTH = 3
RECOVERY_MIN = timedelta(seconds=10)
"""The shortest time after which a failure clears by itself."""


class CascadeScope(StrEnum):
    """The machines to which a failure can spread: those in the same place as the failed one."""

    RACK = "rack"
    ZONE = "zone"
    REGION = "region"
    PROVIDER = "provider"
    RANDOM = "random"


def _check_probability(probability: float) -> Iterator[Fault]:
    if not 0 <= probability <= 1:
        yield Fault(
            at=("probability",),
            message="cascading.probability must be between 0 and 1",
            remedy="write 0.15 for 15 of 100",
        )


def _check_delays(min_delay: timedelta, max_delay: timedelta) -> Iterator[Fault]:
    if min_delay > max_delay:
        yield Fault(
            at=("min_delay",), message="min_delay is above max_delay", remedy="swap the two"
        )


@block(rules=(_check_probability, _check_delays))
class Cascading:
    """Whether failures spread, how far and how fast."""

    enabled: bool = key(BOOLEAN, default=False, doc="whether failures spread")
    probability: float = key(ANY_NUMBER, default=0.0, doc="the probability that a failure spreads")
    max_depth: int = key(
        Integer(least=-1, most=1000),
        default=DEFAULT_DEPTH,
        doc="the longest chain of failures; 3 if not positive",
    )
    min_delay: timedelta = key(
        DURATION_OR_ZERO, default=timedelta(0), doc="the shortest time until it spreads"
    )
    max_delay: timedelta = key(
        DURATION_OR_ZERO, default=timedelta(0), doc="the longest time until it spreads"
    )
    scope: CascadeScope = key(
        Choice(options=CascadeScope),
        default=CascadeScope.RANDOM,
        doc="the place within which it spreads",
    )
    max_affected_percent: float = key(
        SHARE,
        default=1.0,
        doc="the largest share of the machines of that place that cascades may have failed at "
        "the same time; 0.1 is 10 %",
    )

    @property
    def depth(self) -> int:
        """The longest chain of failures."""
        return self.max_depth if self.max_depth > 0 else DEFAULT_DEPTH


@block()
class Recovery:
    """The fate of failed machines apart from what the control plane does."""

    enabled: bool = key(BOOLEAN, default=False, doc="whether failures clear by themselves")
    probability: float = key(
        SHARE,
        default=0.0,
        doc="the probability that a failure clears; fatal XIDs and cascades never do",
    )
    mean_time: timedelta = key(
        DURATION, default=timedelta(minutes=5), doc="the mean time until it clears"
    )
    std_dev: timedelta | None = key(
        DURATION_OR_ZERO,
        default=None,
        doc="the standard deviation of that time; a quarter of the mean if left out",
    )
    replace_fatal: bool = key(
        BOOLEAN,
        default=False,
        doc="whether the owner replaces a machine once the control plane calls it unhealthy",
    )
    replace_cold_start: timedelta | None = key(
        DURATION_OR_ZERO,
        default=None,
        doc="how long the new machine takes to start; as in `startup`, or 30s to 60s, if left out",
    )

    @property
    def deviation(self) -> timedelta:
        """The standard deviation of the time until a failure clears."""
        return self.mean_time / 4 if self.std_dev is None else self.std_dev


class OutageScope(StrEnum):
    """The group of machines that an outage fails."""

    ZONE = "zone"
    REGION = "region"
    PROVIDER = "provider"
    PERCENTAGE = "percentage"


def _check_target(scope: OutageScope, target: str) -> Iterator[Fault]:
    if scope is OutageScope.PERCENTAGE:
        yield from check_percentage(target)


@block(rules=(_check_target,))
class Outage:
    """A failure of many machines at once. They are sound again when it ends."""

    name: str = key(TEXT, doc="the name of the outage")
    start_time: timedelta = key(
        DURATION_OR_ZERO,
        default=timedelta(0),
        doc="when it begins, counted from the end of the start-up",
    )
    duration: timedelta = key(DURATION, doc="how long it lasts")
    scope: OutageScope = key(Choice(options=OutageScope), doc="what `target` names")
    target: str = key(TEXT, doc="the zone, region or provider, or a percentage of the fleet")
    failure_type: FailureType = key(
        RandomFailureType(options=FailureType),
        default=FailureType.XID_ERROR,
        doc="how the machines fail; `xid_error` is XID 79",
    )


class CorrelationScope(StrEnum):
    """The place, relative to the first failure, in which the second occurs."""

    SAME_NODE = "same_node"
    SAME_RACK = "same_rack"
    SAME_ZONE = "same_zone"
    RANDOM = "random"


def _check_trigger(trigger: str) -> Iterator[Fault]:
    if trigger not in list(FailureType) and not trigger.isdecimal():
        yield Fault(
            at=("trigger",),
            message=f'trigger must be a failure type or the number of an XID, not "{trigger}"',
            remedy=f'write "74", or one of {", ".join(FailureType)}',
        )


@block(rules=(_check_trigger,))
class Correlation:
    """A failure that is likely to follow another."""

    name: str = key(TEXT, doc="the name of the correlation")
    trigger: str = key(TEXT, doc="the first failure: a type, or the number of an XID in quotes")
    response: FailureType = key(
        RandomFailureType(options=FailureType), doc="the failure that follows"
    )
    probability: float = key(SHARE, doc="the probability that it follows")
    delay: timedelta = key(
        DURATION_OR_ZERO, default=timedelta(0), doc="the time between the two failures"
    )
    scope: CorrelationScope = key(
        Choice(options=CorrelationScope),
        default=CorrelationScope.SAME_NODE,
        doc="the machines on which it can occur",
    )


@block()
class FailureShare:
    """The weight of one type of failure among the others."""

    type: FailureType = key(RandomFailureType(options=FailureType), doc="the type of failure")
    weight: float = key(ANY_NUMBER, doc="its weight")


def _check_rate(failure_rate: float) -> Iterator[Fault]:
    if failure_rate < 0:
        yield Fault(
            at=("failure_rate",),
            message="chaos.failure_rate must be non-negative",
            remedy="write how many fail per minute among 1000 nodes",
        )


def _check_xids(xid_distribution: Mapping[str, float]) -> Iterator[Fault]:
    for code in xid_distribution:
        if not code.isdecimal() or not 0 < int(code) < 100_000:
            yield Fault(
                at=("xid_distribution", code),
                message=f'"{code}" is not the number of an XID',
                remedy="write 79: 10, for example",
            )
    if xid_distribution and not any(xid_distribution.values()):
        yield Fault(
            at=("xid_distribution",), message="no XID has any weight", remedy="write 79: 10"
        )


def _check_weights(failure_types: tuple[FailureShare, ...]) -> Iterator[Fault]:
    for index, each in enumerate(failure_types):
        if each.weight <= 0:
            yield Fault(
                at=("failure_types", index, "weight"),
                message=f"the weight of {each.type} must be positive",
                remedy="leave the type out if it is not to occur",
            )


@block(rules=(_check_rate, _check_xids, _check_weights))
class Chaos:
    """Failures that occur without an event."""

    enabled: bool = key(BOOLEAN, default=False, doc="whether chaos is injected")
    failure_rate: float = key(
        ANY_NUMBER,
        default=0.0,
        doc="the exact number of failures per minute and 1000 machines",
    )
    xid_distribution: Mapping[str, float] = key(
        WEIGHTS,
        default_factory=dict,
        doc="XIDs, by weight; thirteen with equal weights if left out",
    )
    failure_types: tuple[FailureShare, ...] = key(
        ListOf(each=Nested(cls=FailureShare)),
        default=(),
        doc="types of failure, by weight; only XIDs if left out",
    )
    cascading: Cascading = key(
        Nested(cls=Cascading), default=Cascading(), doc="how failures spread"
    )
    recovery: Recovery = key(Nested(cls=Recovery), default=Recovery(), doc="how failures clear")
    scheduled_outages: tuple[Outage, ...] = key(
        ListOf(each=Nested(cls=Outage)), default=(), doc="failures of many machines at once"
    )
    correlated_failures: tuple[Correlation, ...] = key(
        ListOf(each=Nested(cls=Correlation)), default=(), doc="failures that follow others"
    )


@block()
class Stress:
    """The length, the fleet and the chaos of a stress test."""

    duration: timedelta = key(
        DURATION,
        default=timedelta(minutes=10),
        doc="how long it lasts, counted from the end of the start-up",
    )
    metrics_interval: timedelta = key(
        DURATION, default=timedelta(seconds=5), doc="how often the state of the fleet is sampled"
    )
    seed: int = key(
        Integer(least=0, most=(1 << 63) - 1),
        default=0,
        doc="the seed of everything random; `--seed` takes precedence",
    )
    time_scale: float = key(
        Real(least=0.001, most=100_000.0),
        default=1.0,
        doc="the speed-up with `--real-time`; virtual time runs as fast as it can",
    )
    log_file: str | None = key(TEXT, default=None, doc="where to write the log, one event per line")
    report_file: str | None = key(TEXT, default=None, doc="where to write the outcome, as JSON")
    html_report_file: str | None = key(
        TEXT, default=None, doc="where to write the report, as an HTML page"
    )
    fleet_gen: FleetGen | None = key(Nested(cls=FleetGen), default=None, doc="the fleet")
    chaos: Chaos = key(Nested(cls=Chaos), default=Chaos(), doc="the failures")

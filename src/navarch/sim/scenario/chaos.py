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
            "cascading.probability must be between 0 and 1",
            "write 0.15 for 15 of 100",
            at=("probability",),
        )


def _check_delays(min_delay: timedelta, max_delay: timedelta) -> Iterator[Fault]:
    if min_delay > max_delay:
        yield Fault("min_delay is above max_delay", "swap the two", at=("min_delay",))


@block(rules=(_check_probability, _check_delays))
class Cascading:
    """Whether failures spread, how far and how fast."""

    enabled: bool = key(BOOLEAN, "whether failures spread", default=False)
    probability: float = key(ANY_NUMBER, "the probability that a failure spreads", default=0.0)
    max_depth: int = key(
        Integer(least=-1, most=1000),
        "the longest chain of failures; 3 if not positive",
        default=DEFAULT_DEPTH,
    )
    min_delay: timedelta = key(
        DURATION_OR_ZERO, "the shortest time until it spreads", default=timedelta(0)
    )
    max_delay: timedelta = key(
        DURATION_OR_ZERO, "the longest time until it spreads", default=timedelta(0)
    )
    scope: CascadeScope = key(
        Choice(options=CascadeScope),
        "the place within which it spreads",
        default=CascadeScope.RANDOM,
    )
    max_affected_percent: float = key(
        SHARE,
        "the largest share of the machines of that place that cascades may have failed at "
        "the same time; 0.1 is 10 %",
        default=1.0,
    )

    @property
    def depth(self) -> int:
        """The longest chain of failures."""
        return self.max_depth if self.max_depth > 0 else DEFAULT_DEPTH


@block()
class Recovery:
    """The fate of failed machines apart from what the control plane does."""

    enabled: bool = key(BOOLEAN, "whether failures clear by themselves", default=False)
    probability: float = key(
        SHARE,
        "the probability that a failure clears; fatal XIDs and cascades never do",
        default=0.0,
    )
    mean_time: timedelta = key(
        DURATION, "the mean time until it clears", default=timedelta(minutes=5)
    )
    std_dev: timedelta | None = key(
        DURATION_OR_ZERO,
        "the standard deviation of that time; a quarter of the mean if left out",
        default=None,
    )
    replace_fatal: bool = key(
        BOOLEAN,
        "whether the owner replaces a machine once the control plane calls it unhealthy",
        default=False,
    )
    replace_cold_start: timedelta | None = key(
        DURATION_OR_ZERO,
        "how long the new machine takes to start; as in `startup`, or 30s to 60s, if left out",
        default=None,
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

    name: str = key(TEXT, "the name of the outage")
    start_time: timedelta = key(
        DURATION_OR_ZERO,
        "when it begins, counted from the end of the start-up",
        default=timedelta(0),
    )
    duration: timedelta = key(DURATION, "how long it lasts")
    scope: OutageScope = key(Choice(options=OutageScope), "what `target` names")
    target: str = key(TEXT, "the zone, region or provider, or a percentage of the fleet")
    failure_type: FailureType = key(
        RandomFailureType(options=FailureType),
        "how the machines fail; `xid_error` is XID 79",
        default=FailureType.XID_ERROR,
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
            f'trigger must be a failure type or the number of an XID, not "{trigger}"',
            f'write "74", or one of {", ".join(FailureType)}',
            at=("trigger",),
        )


@block(rules=(_check_trigger,))
class Correlation:
    """A failure that is likely to follow another."""

    name: str = key(TEXT, "the name of the correlation")
    trigger: str = key(TEXT, "the first failure: a type, or the number of an XID in quotes")
    response: FailureType = key(RandomFailureType(options=FailureType), "the failure that follows")
    probability: float = key(SHARE, "the probability that it follows")
    delay: timedelta = key(
        DURATION_OR_ZERO, "the time between the two failures", default=timedelta(0)
    )
    scope: CorrelationScope = key(
        Choice(options=CorrelationScope),
        "the machines on which it can occur",
        default=CorrelationScope.SAME_NODE,
    )


@block()
class FailureShare:
    """The weight of one type of failure among the others."""

    type: FailureType = key(RandomFailureType(options=FailureType), "the type of failure")
    weight: float = key(ANY_NUMBER, "its weight")


def _check_rate(failure_rate: float) -> Iterator[Fault]:
    if failure_rate < 0:
        yield Fault(
            "chaos.failure_rate must be non-negative",
            "write how many fail per minute among 1000 nodes",
            at=("failure_rate",),
        )


def _check_xids(xid_distribution: Mapping[str, float]) -> Iterator[Fault]:
    for code in xid_distribution:
        if not code.isdecimal() or not 0 < int(code) < 100_000:
            yield Fault(
                f'"{code}" is not the number of an XID',
                "write 79: 10, for example",
                at=("xid_distribution", code),
            )
    if xid_distribution and not any(xid_distribution.values()):
        yield Fault("no XID has any weight", "write 79: 10", at=("xid_distribution",))


def _check_weights(failure_types: tuple[FailureShare, ...]) -> Iterator[Fault]:
    for index, each in enumerate(failure_types):
        if each.weight <= 0:
            yield Fault(
                f"the weight of {each.type} must be positive",
                "leave the type out if it is not to occur",
                at=("failure_types", index, "weight"),
            )


@block(rules=(_check_rate, _check_xids, _check_weights))
class Chaos:
    """Failures that occur without an event."""

    enabled: bool = key(BOOLEAN, "whether chaos is injected", default=False)
    failure_rate: float = key(
        ANY_NUMBER, "the exact number of failures per minute and 1000 machines", default=0.0
    )
    xid_distribution: Mapping[str, float] = key(
        WEIGHTS, "XIDs, by weight; thirteen with equal weights if left out", default_factory=dict
    )
    failure_types: tuple[FailureShare, ...] = key(
        ListOf(each=Nested(cls=FailureShare)),
        "types of failure, by weight; only XIDs if left out",
        default=(),
    )
    cascading: Cascading = key(Nested(cls=Cascading), "how failures spread", default=Cascading())
    recovery: Recovery = key(Nested(cls=Recovery), "how failures clear", default=Recovery())
    scheduled_outages: tuple[Outage, ...] = key(
        ListOf(each=Nested(cls=Outage)), "failures of many machines at once", default=()
    )
    correlated_failures: tuple[Correlation, ...] = key(
        ListOf(each=Nested(cls=Correlation)), "failures that follow others", default=()
    )


@block()
class Stress:
    """The length, the fleet and the chaos of a stress test."""

    duration: timedelta = key(
        DURATION,
        "how long it lasts, counted from the end of the start-up",
        default=timedelta(minutes=10),
    )
    metrics_interval: timedelta = key(
        DURATION, "how often the state of the fleet is sampled", default=timedelta(seconds=5)
    )
    seed: int = key(
        Integer(least=0, most=(1 << 63) - 1),
        "the seed of everything random; `--seed` takes precedence",
        default=0,
    )
    time_scale: float = key(
        Real(least=0.001, most=100_000.0),
        "the speed-up with `--real-time`; virtual time runs as fast as it can",
        default=1.0,
    )
    log_file: str | None = key(TEXT, "where to write the log, one event per line", default=None)
    report_file: str | None = key(TEXT, "where to write the outcome, as JSON", default=None)
    html_report_file: str | None = key(
        TEXT, "where to write the report, as an HTML page", default=None
    )
    fleet_gen: FleetGen | None = key(Nested(cls=FleetGen), "the fleet", default=None)
    chaos: Chaos = key(Nested(cls=Chaos), "the failures", default=Chaos())

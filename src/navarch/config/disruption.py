"""Disruption: why sound nodes are replaced, how many at once, and when."""

from collections.abc import Iterator
from datetime import timedelta

from navarch.config.autoscaling import TIME_ZONE, DayName, days_are_unique, values_are_unique
from navarch.config.block import Nested
from navarch.config.kinds import BOOLEAN, DURATION, Choice, Integer, ListOf, Real, Text
from navarch.config.schema import Fault, block, key
from navarch.core.disruption import Cause, Disruption, DisruptionBudget, window
from navarch.core.schedule import DAYS, Day

SHARE = Real(least=0, most=1, example="0.1")


def _hours_remedy(text: str) -> str | None:
    """Return what to write in place of a text that names no hours."""
    try:
        begin, end = window(text)
    except ValueError:
        return 'write two times of day with a dash between them, such as "09:00-17:30"'
    if begin == end:
        return "leave hours out for the whole day"
    return None


HOURS = Text(noun="hours of the day", example="09:00-17:30", check=_hours_remedy)


def _reasons_are_unique(reasons: tuple[Cause, ...]) -> Iterator[Fault]:
    yield from values_are_unique("reasons", reasons)


@block(rules=(days_are_unique, _reasons_are_unique))
class DisruptionBudgetConfig:
    """How many nodes may be out of use or on their way out at once, and when so few."""

    nodes_max: int = key(
        Integer(least=0, most=100_000, example="1"), default=1, doc="so many nodes, or"
    )
    share_max: float = key(
        SHARE,
        default=0.1,
        doc="this share of the pool's size, whichever is more; nobody if both are 0",
    )
    reasons: tuple[Cause, ...] = key(
        ListOf(each=Choice(options=Cause)),
        default=(),
        doc="what it limits; all but `unhealthy` and `spot_notice` if left out",
    )
    days: tuple[Day, ...] = key(
        ListOf(each=DayName()),
        default=(),
        doc="the days on which it applies; every day if left out",
    )
    hours: str | None = key(
        HOURS,
        default=None,
        doc='when it applies, as `"22:00-06:00"`; all day if left out',
    )
    time_zone: str = key(TIME_ZONE, default="UTC", doc="whose hours and days they are")


def _budgets_limit_enabled_reasons(
    lifetime_max: timedelta | None,
    replace_drifted: bool,
    savings_min: float | None,
    empty_after: timedelta | None,
    budgets: tuple[DisruptionBudgetConfig, ...],
) -> Iterator[Fault]:
    limited = {reason for budget in budgets for reason in budget.reasons}
    switches = {
        Cause.EXPIRED: ("lifetime_max", lifetime_max is not None),
        Cause.DRIFTED: ("replace_drifted", replace_drifted),
        Cause.COSTLY: ("savings_min", savings_min is not None),
        Cause.EMPTY: ("empty_after", empty_after is not None),
    }
    for cause, (name, on) in switches.items():
        if cause in limited and not on:
            yield Fault(
                at=("budgets",),
                message=f"a budget limits {cause.value}, which never happens here",
                remedy=f"set {name} as well, or leave {cause.value} out",
                warning=True,
            )


def _empty_after_is_long_enough(empty_after: timedelta | None) -> Iterator[Fault]:
    if empty_after is not None and empty_after < timedelta(minutes=1):
        yield Fault(
            at=("empty_after",),
            message="empty_after is too short to tell an empty node from one between two jobs",
            remedy="write a minute or more, such as 30m",
        )


@block(rules=(_budgets_limit_enabled_reasons, _empty_after_is_long_enough))
class DisruptionConfig:
    """Why and how fast sound nodes are replaced, each only once its successor serves."""

    lifetime_max: timedelta | None = key(
        DURATION, default=None, doc="nodes older than this are replaced; never if left out"
    )
    replace_drifted: bool = key(
        BOOLEAN,
        default=False,
        doc="replace nodes of a kind or place no longer listed, or with an older `user_data`",
    )
    savings_min: float | None = key(
        Real(least=0.01, most=0.99, example="0.3"),
        default=None,
        doc="replace nodes whose GPUs can be had for this share less; if left out, only those "
        "bought on demand because the spot machines listed before were sold out",
    )
    empty_after: timedelta | None = key(
        DURATION,
        default=None,
        doc="nodes nobody uses for so long, a minute or more, are given back; never if left out",
    )
    budgets: tuple[DisruptionBudgetConfig, ...] = key(
        ListOf(each=Nested(cls=DisruptionBudgetConfig)),
        default=(),
        doc="how many at once; one node or a tenth of the pool, at any time, if left out",
    )


def to_disruption(config: DisruptionConfig) -> Disruption:
    """Return what is configured as it is stored with its pool."""
    return Disruption(
        lifetime_max=config.lifetime_max,
        replace_drifted=config.replace_drifted,
        savings_min=config.savings_min,
        empty_after=config.empty_after,
        budgets=tuple(
            DisruptionBudget(
                nodes_max=budget.nodes_max,
                share_max=budget.share_max,
                causes=budget.reasons,
                days=tuple(DAYS.index(day) for day in budget.days),
                hours=budget.hours or "",
                time_zone=budget.time_zone,
            )
            for budget in config.budgets
        ),
    )

"""The `disruption` block of a pool: which healthy nodes are replaced, how many at once, when."""

from collections.abc import Iterator
from datetime import timedelta

from navarch.config.autoscaling import TIME_ZONE, DayName, days_are_unique, values_are_unique
from navarch.config.block import Nested
from navarch.config.kinds import BOOLEAN, DURATION, Choice, Integer, ListOf, Real, Text
from navarch.config.schema import Fault, block, copied, key
from navarch.core.disruption import Cause, Disruption, DisruptionBudget, window
from navarch.core.limits import NODES_PER_POOL_MAX
from navarch.core.schedule import DAYS, Day

SHARE = Real(least=0, most=1, example="0.1")


def _hours_remedy(text: str) -> str | None:
    """Return the remedy for a text that does not name hours, or None."""
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
    """How many nodes may be unavailable or draining at once, and at which times."""

    nodes_max: int = key(
        Integer(least=0, most=NODES_PER_POOL_MAX, example="1"), "this many nodes, or", default=1
    )
    share_max: float = key(
        SHARE,
        "this share of the pool's size, whichever is more; no node if both are 0",
        default=0.1,
    )
    reasons: tuple[Cause, ...] = key(
        ListOf(each=Choice(options=Cause)),
        "the reasons it limits; all but `unhealthy` and `spot_notice` if left out",
        default=(),
    )
    days: tuple[Day, ...] = key(
        ListOf(each=DayName()), "the days on which it applies; every day if left out", default=()
    )
    hours: str | None = key(
        HOURS,
        'the hours in which it applies, such as `"22:00-06:00"`; all day if left out',
        default=None,
    )
    time_zone: str = key(TIME_ZONE, "the time zone of hours and days", default="UTC")


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
                f"a budget limits {cause.value}, which is not enabled",
                f"set {name} as well, or leave {cause.value} out",
                at=("budgets",),
                warning=True,
            )


def _empty_after_is_long_enough(empty_after: timedelta | None) -> Iterator[Fault]:
    if empty_after is not None and empty_after < timedelta(minutes=1):
        yield Fault(
            "empty_after is too short: a node between two jobs would count as empty",
            "write a minute or more, such as 30m",
            at=("empty_after",),
        )


@block(rules=(_budgets_limit_enabled_reasons, _empty_after_is_long_enough))
class DisruptionConfig:
    """Which healthy nodes are replaced and how fast, each after its successor serves."""

    lifetime_max: timedelta | None = key(
        DURATION, "replace nodes older than this; never if left out", default=None
    )
    replace_drifted: bool = key(
        BOOLEAN,
        "replace nodes with a type or place that is no longer listed, or an older `user_data`",
        default=False,
    )
    savings_min: float | None = key(
        Real(least=0.01, most=0.99, example="0.3"),
        "replace nodes if their GPUs are now cheaper by this share; if left out, only nodes "
        "bought on demand because the preferred spot machines were sold out",
        default=None,
    )
    empty_after: timedelta | None = key(
        DURATION,
        "terminate nodes that are unused for this long, at least 1m; never if left out",
        default=None,
    )
    budgets: tuple[DisruptionBudgetConfig, ...] = key(
        ListOf(each=Nested(cls=DisruptionBudgetConfig)),
        "how many nodes at once; one node or a tenth of the pool if left out",
        default=(),
    )


def to_disruption(config: DisruptionConfig) -> Disruption:
    """Return the settings as they are stored with the pool."""
    budgets = tuple(
        copied(
            DisruptionBudget,
            budget,
            causes=budget.reasons,
            days=tuple(DAYS.index(day) for day in budget.days),
            hours=budget.hours or "",
        )
        for budget in config.budgets
    )
    return copied(Disruption, config, budgets=budgets)

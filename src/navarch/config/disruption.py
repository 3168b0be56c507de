"""The blocks `disruption`, `remediation`, `governor` and `budgets`: limits on automation."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import TypeVar

from navarch.config.autoscaling import TIME_ZONE, DayName, days_are_unique, values_are_unique
from navarch.config.block import Nested, NestedOrName, nested
from navarch.config.errors import did_you_mean
from navarch.config.kinds import (
    BOOLEAN,
    COUNT,
    DURATION,
    MONEY,
    TEXT,
    Choice,
    Integer,
    ListOf,
    Real,
    Text,
)
from navarch.config.schema import Fault, block, copied, key
from navarch.core.autoscaling import DAYS, Day
from navarch.core.budget import Budget, BudgetOf, OverBudget
from navarch.core.disruption import (
    Cause,
    Disruption,
    DisruptionBudget,
    Domain,
    DomainBudget,
    GovernorSettings,
    default_budgets,
    window,
)
from navarch.core.limits import NODES_PER_POOL_MAX
from navarch.core.recovery import BUILT_IN_STRATEGIES, CORDON_AND_REPLACE, RecoveryStep, Remediation

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


_CUSTOM = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)


def _strategy_remedy(text: str) -> str | None:
    if text in BUILT_IN_STRATEGIES or _CUSTOM.fullmatch(text):
        return None
    valid = f"valid: {', '.join(BUILT_IN_STRATEGIES)}, or package.module:Class for a custom one"
    return did_you_mean(text, BUILT_IN_STRATEGIES, valid)


STRATEGY = Text(noun="a strategy", example=CORDON_AND_REPLACE, check=_strategy_remedy)


@block()
class RemediationConfig:
    """What is done about unhealthy nodes. The file may hold just the name of a strategy."""

    strategy: str = key(
        STRATEGY,
        "`cordon_and_replace`, `ladder`, `alert_only`, or a custom one as `module:Class`",
        default=CORDON_AND_REPLACE,
    )
    dry_run: bool = key(
        BOOLEAN, "record every decision in the journal, but carry out none", default=False
    )
    steps: tuple[RecoveryStep, ...] = key(
        ListOf(each=Choice(options=RecoveryStep, unknown="unknown step")),
        "the steps of the ladder; all if left out",
        default=(),
    )
    reboot_deadline: timedelta = key(
        DURATION,
        "how long a machine may take to return from a reboot or a power cycle",
        default=timedelta(minutes=15),
    )


REMEDIATION = NestedOrName(
    cls=RemediationConfig, noun="a strategy, or a mapping", main="strategy", kind=STRATEGY
)


def to_remediation(config: RemediationConfig) -> Remediation:
    """Return the settings as they are stored with the pool."""
    # The default stays empty: a program that embeds Navarch may use a different one.
    named = config.strategy != CORDON_AND_REPLACE
    return copied(Remediation, config, strategy=config.strategy if named else "")


SHARE_OF_NODES = Real(least=0.0, most=1.0, example="0.05")


@block()
class DomainBudgetConfig:
    """How many nodes of one domain automation may act on within the window, and within a day."""

    nodes: int | None = key(COUNT, "at least this many, however small the domain", default=None)
    share: float | None = key(
        SHARE_OF_NODES, "the share of the domain's nodes, from 0 to 1", default=None
    )
    nodes_per_day: int | None = key(
        COUNT,
        "at least this many in 24 hours, except for a fault that unusually many nodes show",
        default=None,
    )
    share_per_day: float | None = key(
        SHARE_OF_NODES, "the share of the domain's nodes in 24 hours, from 0 to 1", default=None
    )


@block()
class GovernorConfig:
    """Limits on what automation may do without approval."""

    window: timedelta = key(
        DURATION, "the window in which actions are counted", default=timedelta(hours=1)
    )
    pool: DomainBudgetConfig = nested(DomainBudgetConfig, "for each pool; 1 node or 0.05 of it")
    zone: DomainBudgetConfig = nested(DomainBudgetConfig, "for each zone; 3 nodes or 0.05 of it")
    rack: DomainBudgetConfig = nested(
        DomainBudgetConfig, "for nodes with the same label `rack`; 1 node or 0.25 of it"
    )
    nvlink: DomainBudgetConfig = nested(
        DomainBudgetConfig, "for nodes with the same label `nvlink_domain`; 1 node or 0.25 of it"
    )
    driver: DomainBudgetConfig = nested(
        DomainBudgetConfig, "for nodes with the same driver; 3 nodes or 0.05 of them"
    )
    image: DomainBudgetConfig = nested(
        DomainBudgetConfig, "for nodes with the same image; 3 nodes or 0.05 of them"
    )
    fleet: DomainBudgetConfig = nested(DomainBudgetConfig, "for all nodes; 3 nodes or 0.05 of them")
    change_window: timedelta = key(
        DURATION,
        "how long a fault is evidence of a common cause, and a change a possible cause",
        default=timedelta(hours=24),
    )
    suspect_nodes: int = key(
        Integer(least=2, most=1_000_000),
        "the least number of nodes with the same fault that may have a common cause",
        default=3,
    )
    failed_replacements: int = key(
        Integer(least=1, most=NODES_PER_POOL_MAX, example="3"),
        "how many replacements that fail may be bought for a pool within an hour",
        default=3,
    )
    failed_replacements_share: float = key(
        SHARE, "the same as a share of the pool's size; the larger limit counts", default=0.0
    )


T = TypeVar("T")


def given(configured: T | None, usual: T) -> T:
    """Return what is configured, or the `usual` value if the key is left out."""
    return usual if configured is None else configured


def to_governor(config: GovernorConfig) -> GovernorSettings:
    """Return the settings, with defaults for keys that are left out."""
    budgets: dict[Domain, DomainBudget] = {}
    for domain, usual in default_budgets().items():
        configured: DomainBudgetConfig = getattr(config, str(domain))
        budgets[domain] = replace(
            usual,
            nodes_min=given(configured.nodes, usual.nodes_min),
            share_max=given(configured.share, usual.share_max),
            nodes_per_day=given(configured.nodes_per_day, usual.nodes_per_day),
            share_per_day=given(configured.share_per_day, usual.share_per_day),
        )
    return GovernorSettings(
        budgets=budgets,
        window=config.window,
        change_window=config.change_window,
        suspect_nodes=config.suspect_nodes,
        failed_replacements=config.failed_replacements,
        failed_replacements_share=config.failed_replacements_share,
    )


def _name_unless_fleet(of: BudgetOf, name: str | None) -> Iterator[Fault]:
    if of is BudgetOf.FLEET and name:
        yield Fault(
            "the budget of the fleet has no name",
            "leave name out, or write of: team or of: pool",
            at=("name",),
        )
    if of is not BudgetOf.FLEET and not name:
        yield Fault(
            f"name is required for the budget of a {of.value}",
            f"add name: with the name of the {of.value}",
        )


def _limit_above_zero(limit_per_month: Decimal) -> Iterator[Fault]:
    if limit_per_month <= 0:
        yield Fault(
            "limit_per_month must be above zero",
            "write the most to spend in a calendar month, such as 5000",
            at=("limit_per_month",),
        )


@block(rules=(_name_unless_fleet, _limit_above_zero))
class BudgetConfig:
    """A limit on the spending of one calendar month, in UTC and in the currency of the prices."""

    of: BudgetOf = key(Choice(options=BudgetOf), "the scope of the limit")
    name: str | None = key(
        TEXT, "the name of the pool, or of the team in the pools' label `team`", default=None
    )
    limit_per_month: Decimal = key(MONEY, "the most to spend in a calendar month")
    when_spent: OverBudget = key(
        Choice(options=OverBudget),
        "once the limit is reached: only warn, buy only spot or the cheapest, or buy nothing",
        default=OverBudget.WARN,
    )
    warn_at: float = key(
        Real(least=0.01, most=1, example="0.8"),
        "the share of the limit at which to warn",
        default=0.8,
    )


def to_budget(config: BudgetConfig) -> Budget:
    """Return a budget as the control plane stores it."""
    return copied(Budget, config, name=config.name or "")

"""The `remediation` block of a pool and the `governor` block of the server."""

import re
from dataclasses import replace
from datetime import timedelta

from navarch.config.block import Nested
from navarch.config.context import Scope
from navarch.config.document import Leaf, Tree, is_nothing
from navarch.config.kinds import BOOLEAN, COUNT, DURATION, Choice, Integer, ListOf, Real, Text
from navarch.config.schema import block, copied, key
from navarch.config.suggestion import suggest
from navarch.core.disruption import Domain, DomainBudget, GovernorSettings, default_budgets
from navarch.core.recovery import BUILT_IN_STRATEGIES, CORDON_AND_REPLACE, RecoveryStep, Remediation

STRATEGIES = BUILT_IN_STRATEGIES

_CUSTOM = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)


def _strategy_remedy(text: str) -> str | None:
    if text in STRATEGIES or _CUSTOM.fullmatch(text):
        return None
    close = suggest(text, STRATEGIES)
    if close:
        return f'did you mean "{close}"?'
    return f"valid: {', '.join(STRATEGIES)}, or package.module:Class for a custom one"


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


class RemediationKind(Nested[RemediationConfig]):
    """A block, or only the name of a strategy."""

    __slots__ = ()

    def read(self, node: Tree, scope: Scope) -> RemediationConfig:
        """Return the block."""
        if isinstance(node, Leaf) and not is_nothing(node):
            return RemediationConfig(strategy=STRATEGY.read(node, scope))
        return Nested.read(self, node, scope)


REMEDIATION = RemediationKind(cls=RemediationConfig, noun="a strategy, or a mapping")


def to_remediation(config: RemediationConfig) -> Remediation:
    """Return the settings as they are stored with the pool."""
    # The default stays empty: a program that embeds Navarch may use a different one.
    named = config.strategy != CORDON_AND_REPLACE
    return copied(Remediation, config, strategy=config.strategy if named else "")


SHARE = Real(least=0.0, most=1.0, example="0.05")


@block()
class DomainBudgetConfig:
    """How many nodes of one domain automation may act on within the window."""

    nodes: int | None = key(COUNT, "at least this many, however small the domain", default=None)
    share: float | None = key(SHARE, "the share of the domain's nodes, from 0 to 1", default=None)


_BUDGET = Nested(cls=DomainBudgetConfig)


@block()
class GovernorConfig:
    """Limits on what automation may do without approval."""

    window: timedelta = key(
        DURATION, "the window in which actions are counted", default=timedelta(hours=1)
    )
    pool: DomainBudgetConfig = key(
        _BUDGET, "for each pool; 1 node or 0.05 of it", default=DomainBudgetConfig()
    )
    zone: DomainBudgetConfig = key(
        _BUDGET, "for each zone; 3 nodes or 0.05 of it", default=DomainBudgetConfig()
    )
    rack: DomainBudgetConfig = key(
        _BUDGET,
        "for nodes with the same label `rack`; 1 node or 0.25 of it",
        default=DomainBudgetConfig(),
    )
    nvlink: DomainBudgetConfig = key(
        _BUDGET,
        "for nodes with the same label `nvlink_domain`; 1 node or 0.25 of it",
        default=DomainBudgetConfig(),
    )
    driver: DomainBudgetConfig = key(
        _BUDGET,
        "for nodes with the same driver; 3 nodes or 0.05 of them",
        default=DomainBudgetConfig(),
    )
    image: DomainBudgetConfig = key(
        _BUDGET,
        "for nodes with the same image; 3 nodes or 0.05 of them",
        default=DomainBudgetConfig(),
    )
    change_window: timedelta = key(
        DURATION, "how long a change is a possible cause of failures", default=timedelta(hours=24)
    )
    suspect_nodes: int = key(
        Integer(least=2, most=1_000_000),
        "how many nodes with the same fault after the same change make it suspect",
        default=5,
    )


def to_governor(config: GovernorConfig) -> GovernorSettings:
    """Return the settings, with defaults for keys that are left out."""
    budgets: dict[Domain, DomainBudget] = {}
    for domain, usual in default_budgets().items():
        configured: DomainBudgetConfig = getattr(config, str(domain))
        budgets[domain] = replace(
            usual,
            nodes_min=usual.nodes_min if configured.nodes is None else configured.nodes,
            share_max=usual.share_max if configured.share is None else configured.share,
        )
    return GovernorSettings(
        budgets=budgets,
        window=config.window,
        change_window=config.change_window,
        suspect_nodes=config.suspect_nodes,
    )

"""The governor: which proposed actions proceed now, which are deferred, and why."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain

import msgspec

from navarch.core.disruption import (
    DAY,
    NODES_IN_A_DAY_MIN,
    Deferred,
    DeferredBy,
    Domain,
    GovernorSettings,
)
from navarch.core.health import HEARTBEAT
from navarch.core.ids import PoolName
from navarch.core.node import Node
from navarch.fleet.disruption.governor.domain_stats import DomainStats, domains_of, fingerprints
from navarch.fleet.disruption.governor.outage import Outage, Scope, outage_of
from navarch.fleet.disruption.governor.suspicion import Suspicion
from navarch.fleet.launch_breaker import LaunchBreaker
from navarch.fleet.replacement_loop import fell_ill_at

WORDS = {
    Domain.POOL: "pool",
    Domain.ZONE: "zone",
    Domain.RACK: "rack",
    Domain.NVLINK: "NVLink domain",
    Domain.DRIVER: "driver",
    Domain.IMAGE: "image",
}

SILENCE_MAX = timedelta(minutes=30)
"""Silence of a node with a suspected change counts as a reboot to roll the change back for this
long. Large machines need up to half an hour to reboot."""


class ProposedAction(msgspec.Struct, frozen=True, kw_only=True):
    """The action that a remediator wants for one node."""

    node: Node
    action: str
    """cordon, replace or recover."""
    reason: str
    dry_run: bool = False
    for_silence: bool = False
    """Whether the node is acted on only because it does not report."""


class GovernorDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The decision about a proposed action."""

    proposal: ProposedAction
    held: Deferred | None
    """None: proceed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacles:
    """Reasons other than budgets why nodes are not acted on."""

    suspicions: Mapping[str, Suspicion] = field(default_factory=dict)
    """Changes that are suspected, by fault."""
    outages: Mapping[Scope, Outage] = field(default_factory=dict)
    """Where many nodes do not report."""
    loops: Mapping[PoolName, LaunchBreaker] = field(default_factory=dict)
    """Pools in a replacement loop, with the number that may be replaced now."""


NO_OBSTACLES = Obstacles()


def govern(
    proposals: Sequence[ProposedAction],
    stats: DomainStats,
    settings: GovernorSettings,
    obstacles: Obstacles = NO_OBSTACLES,
    *,
    is_missed: Callable[[Node], bool] = lambda _: True,
    now: datetime,
) -> list[GovernorDecision]:
    """Return the decision about each proposal, the most urgent first.

    A proposal passes if there is no obstacle and every domain of its node has room in its budget.
    Beyond the budget, nodes wait for the next window or for operators. `is_missed` returns whether
    the pool of a node is short of nodes.
    """
    budgets = _Budgets(stats, settings, is_missed, now)
    decisions: list[GovernorDecision] = []
    replaced: Counter[PoolName] = Counter()
    for proposal in sorted(proposals, key=_urgency):
        node, held = proposal.node, None
        if proposal.dry_run:
            held = _deferred(
                proposal, DeferredBy.DRY_RUN, "the pool's remediation is a dry run", now
            )
        elif node.held is None or not node.held.released:
            held = (
                _in_outage(proposal, obstacles.outages, now)
                or _blames_change(proposal, obstacles.suspicions, now)
                or budgets.hold(proposal, now)
                or _in_replacement_loop(proposal, obstacles.loops, replaced, now)
            )
        if held is None:
            budgets.spend(node)
            if node.pool is not None:
                replaced[node.pool] += 1
        decisions.append(GovernorDecision(proposal=proposal, held=held))
    return decisions


def _urgency(proposal: ProposedAction) -> tuple[bool, bool, datetime, str]:
    """Rank proposals: released by an operator, then fatal, then by waiting time."""
    conditions = fingerprints(proposal.node).values()
    fatal = any(condition.fatal for condition in conditions)
    since = min((condition.since for condition in conditions), default=proposal.node.since)
    held = proposal.node.held
    is_released = held is not None and bool(held.released)
    return not is_released, not fatal, since, proposal.node.id


def _blames_change(
    proposal: ProposedAction, suspicions: Mapping[str, Suspicion], now: datetime
) -> Deferred | None:
    """Defer a node if all of its faults come from suspected changes; one other fault is its own."""
    if not suspicions:
        return None
    found = []
    for fault, condition in fingerprints(proposal.node).items():
        may_boot = condition.check == HEARTBEAT and now < condition.since + SILENCE_MAX
        if not may_boot:
            found.append(suspicions.get(fault))
    blamed = [each for each in found if each is not None and proposal.node.id in each.nodes]
    if not blamed or len(blamed) < len(found):
        return None
    because = "; ".join([each.words for each in blamed])
    return _deferred(
        proposal, DeferredBy.CHANGE, because, now, faults=tuple([x.fault for x in blamed])
    )


def _in_outage(
    proposal: ProposedAction, outages: Mapping[Scope, Outage], now: datetime
) -> Deferred | None:
    """Defer a node that is only silent, while many others are silent too."""
    if not proposal.for_silence:
        return None
    outage = outage_of(proposal.node, outages)
    return None if outage is None else _deferred(proposal, DeferredBy.SILENCE, outage.words, now)


def _in_replacement_loop(
    proposal: ProposedAction,
    loops: Mapping[PoolName, LaunchBreaker],
    replaced: Mapping[PoolName, int],
    now: datetime,
) -> Deferred | None:
    """Defer a node of a pool in a replacement loop, unless a trial is allowed."""
    pool = proposal.node.pool
    loop = None if pool is None else loops.get(pool)
    if pool is None or loop is None or replaced[pool] < loop.allowance:
        return None
    # The pool shows the details, which change with each trial.
    because = f"replacements in pool {pool} fall ill soon after they register"
    return _deferred(proposal, DeferredBy.REPLACEMENT_LOOP, because, now)


class _Budgets:
    """The remaining budget of each domain while proposals are decided."""

    def __init__(
        self,
        stats: DomainStats,
        settings: GovernorSettings,
        is_missed: Callable[[Node], bool],
        now: datetime,
    ) -> None:
        self._stats = stats
        self._settings = settings
        self._recent = stats.acted_since(now - settings.window, is_missed)
        self._in_window = Counter(chain.from_iterable(self._recent.values()))
        in_a_day = stats.acted_since(now - DAY, is_missed)
        self._in_a_day = Counter(chain.from_iterable(in_a_day.values()))

    def hold(self, proposal: ProposedAction, now: datetime) -> Deferred | None:
        """Defer a node if the budget of one of its domains is spent."""
        if proposal.node.replaces in self._recent and fell_ill_at(proposal.node) is not None:
            # It replaces a node that is still counted, and never served for long, so that its place
            # is charged already. Repetitions of such a replacement are limited for the whole pool.
            return None
        for place in domains_of(proposal.node):
            kind, name = place
            budget = self._settings.budgets.get(kind)
            if budget is None:
                continue
            size = self._stats.sizes[place]
            if self._in_window[place] >= budget.allows(size):
                period = _duration(self._settings.window)
                least = budget.nodes_min
            elif self._in_a_day[place] >= max(NODES_IN_A_DAY_MIN, budget.allows(size)):
                period, least = _duration(DAY), max(budget.nodes_min, NODES_IN_A_DAY_MIN)
            else:
                continue
            words = (
                f"{WORDS[kind]} {name}: automation may act on {budget.share_max:.0%} of it, or "
                f"{least} node{'' if least == 1 else 's'}, in {period}"
            )
            return _deferred(proposal, DeferredBy.BUDGET, words, now)
        return None

    def spend(self, node: Node) -> None:
        """Charge every domain of `node` for one action."""
        places = domains_of(node)
        self._in_window.update(places)
        self._in_a_day.update(places)


def _deferred(
    proposal: ProposedAction,
    by: DeferredBy,
    because: str,
    now: datetime,
    *,
    faults: tuple[str, ...] = (),
) -> Deferred:
    before = proposal.node.held
    same = before is not None and before.by is by and before.action == proposal.action
    return Deferred(
        action=proposal.action,
        reason=proposal.reason,
        because=because,
        by=by,
        since=before.since if before is not None and same else now,
        faults=faults,
    )


def _duration(period: timedelta) -> str:
    minutes = period.total_seconds() / 60
    return f"{minutes / 60:g} h" if minutes >= 60 else f"{minutes:g} min"

"""The governor: which proposed actions proceed now, which are deferred, and why."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from navarch.core.disruption import DAY, Deferred, DeferredBy, Domain, GovernorSettings
from navarch.core.health import HEARTBEAT
from navarch.core.ids import PoolName
from navarch.core.node import Node
from navarch.fleet.disruption.governor.attributes import Attribute, describe, domains_of, words_of
from navarch.fleet.disruption.governor.burst import TOGETHER, WAIT, burst_wait_ends_at
from navarch.fleet.disruption.governor.common_cause import (
    COINCIDENCE_MAX,
    FAULTS_PER_NODE_DAY,
    CommonCause,
    chance_of,
    minutes,
)
from navarch.fleet.disruption.governor.domain_stats import DomainStats, fingerprints
from navarch.fleet.disruption.governor.outage import Outage, outage_of
from navarch.fleet.replacement_loop import ReplacementLoop, fell_ill_at
from navarch.fleet.silence import is_known_to_work, is_proven_dead, testified

SILENCE_MAX = timedelta(minutes=30)
"""Silence of a node with a suspected change counts as a reboot to roll the change back for this
long. Large machines need up to half an hour to reboot."""

MOST_FREQUENT = 0.35
"""The share of the most frequent kind among all faults: lost GPUs, in Llama 3's training."""

RESERVING = ("pool", "zone", "fleet")
RESERVED_FROM = 4
RESERVED_SHARE = 1 / 3
"""The share of such a budget, of at least that many nodes, that is kept for faults that few nodes
show: they are more likely to be true than a fault that many show. In a day it is kept where the
budget is a number of nodes: a false alarm costs a small pool four of five, and a third of the
budget of a large one is more than its machines need."""


class ProposedAction(msgspec.Struct, frozen=True, kw_only=True):
    """The action that a remediator wants for one node."""

    node: Node
    action: str
    """cordon, replace or recover."""
    reason: str
    dry_run: bool = False
    for_silence: bool = False
    """Whether the node is acted on only because it does not report."""
    uncertain: frozenset[str] = frozenset()
    """The faults of the node that would not be enough for the action if they were the only ones."""


class GovernorDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The decision about a proposed action."""

    proposal: ProposedAction
    held: Deferred | None
    """None: proceed."""
    evidence: str = ""
    """What the node shares with others that show the same fault, for the reason of the action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacles:
    """Reasons other than budgets why nodes are not acted on."""

    causes: Mapping[str, Sequence[CommonCause]] = field(default_factory=dict)
    """The common causes of each fault that has any."""
    bursts: frozenset[str] = frozenset()
    """The faults that have just appeared on several nodes."""
    outages: Mapping[Attribute, Outage] = field(default_factory=dict)
    """Where many nodes do not report."""
    loops: Mapping[PoolName, ReplacementLoop] = field(default_factory=dict)
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
    for proposal in sorted(proposals, key=lambda each: _urgency(each, stats, obstacles.causes)):
        node, held = proposal.node, None
        suspected = _causes_of(node, obstacles.causes)
        evidence = "; ".join(_evidence(proposal, suspected))
        if proposal.dry_run:
            held = _deferred(
                proposal, DeferredBy.DRY_RUN, "the pool's remediation is a dry run", now
            )
        elif node.held is None or not node.held.released:
            held = (
                _is_doubted(proposal, stats.attributes.get(node.id, ()), obstacles.outages, now)
                or _blames_cause(proposal, obstacles.causes, now)
                or (None if suspected else _awaits_cause(proposal, obstacles.bursts, now))
                or budgets.hold(proposal, evidence, now)
                or _in_replacement_loop(proposal, obstacles.loops, replaced, now)
            )
        if held is None:
            budgets.spend(node)
            if node.pool is not None:
                replaced[node.pool] += 1
        decisions.append(GovernorDecision(proposal=proposal, held=held, evidence=evidence))
    return decisions


def _urgency(
    proposal: ProposedAction, stats: DomainStats, causes: Mapping[str, Sequence[CommonCause]]
) -> tuple[bool, int, bool, datetime, str]:
    """Rank proposals: released by an operator, then faults that few nodes show, then fatal ones.

    The evidence against a node is the more specific, the fewer others show the same fault.
    """
    node, faults = proposal.node, fingerprints(proposal.node)
    others = min(_commonness(node, stats, causes), default=0)
    fatal = any(condition.fatal for condition in faults.values())
    since = min((condition.since for condition in faults.values()), default=node.since)
    is_released = node.held is not None and bool(node.held.released)
    return not is_released, others, not fatal, since, node.id


def _commonness(
    node: Node, stats: DomainStats, causes: Mapping[str, Sequence[CommonCause]]
) -> list[int]:
    """Return how many nodes show each fault of `node` that has no cause outside of machines."""
    if is_proven_dead(node):
        return [1]
    return [
        len(stats.showing.get(fault, ()))
        for fault in fingerprints(node)
        if not any(cause.excuses and node.id in cause.nodes for cause in causes.get(fault, ()))
    ]


def _causes_of(node: Node, causes: Mapping[str, Sequence[CommonCause]]) -> list[CommonCause]:
    """Return the common causes that `node` is affected by."""
    if not causes:
        return []
    found = (cause for fault in fingerprints(node) for cause in causes.get(fault, ()))
    return [cause for cause in found if node.id in cause.nodes]


def _evidence(proposal: ProposedAction, suspected: Sequence[CommonCause]) -> Iterable[str]:
    """Yield what the node shares with others, after the faults that are its own beside those."""
    excused = {cause.fault for cause in suspected if cause.excuses}
    if excused:
        own = [x for x in fingerprints(proposal.node) if x not in excused | proposal.uncertain]
        if own:
            words = "is a fault" if len(own) == 1 else "are faults"
            yield f"{' and '.join(own)} {words} of its own"
    yield from dict.fromkeys(cause.words for cause in suspected)


def _is_doubted(
    proposal: ProposedAction,
    attributes: Iterable[Attribute],
    outages: Mapping[Attribute, Outage],
    now: datetime,
) -> Deferred | None:
    """Defer a node that is only silent if it is known to work, or others are silent with it."""
    if not proposal.for_silence:
        return None
    if is_known_to_work(proposal.node):
        because = f"its agent does not report, but {testified(proposal.node, alive=True)}"
        return _deferred(proposal, DeferredBy.SILENCE, because, now)
    outage = outage_of(proposal.node, attributes, outages)
    return None if outage is None else _deferred(proposal, DeferredBy.SILENCE, outage.words, now)


def _blames_cause(
    proposal: ProposedAction, causes: Mapping[str, Sequence[CommonCause]], now: datetime
) -> Deferred | None:
    """Defer a node if no fault that is certain is its own: each has a cause outside of the node."""
    if not causes:
        return None
    node, blamed = proposal.node, list[CommonCause]()
    for fault, condition in fingerprints(node).items():
        may_boot = condition.check == HEARTBEAT and now < condition.since + SILENCE_MAX
        its = [x for x in causes.get(fault, ()) if x.excuses and node.id in x.nodes]
        if not its and not may_boot and fault not in proposal.uncertain:
            return None
        blamed += its[:1]
    if not blamed:
        return None
    return _deferred(
        proposal,
        DeferredBy.CHANGE,
        "; ".join(dict.fromkeys(cause.words for cause in blamed)),
        now,
        faults=tuple([cause.fault for cause in blamed]),
        suspects=tuple(dict.fromkeys(each for cause in blamed for each in cause.suspects)),
    )


def _awaits_cause(
    proposal: ProposedAction, bursts: frozenset[str], now: datetime
) -> Deferred | None:
    """Defer a node whose faults have just appeared on others too, until their cause may show."""
    ends_at = burst_wait_ends_at(proposal.node, bursts)
    if ends_at is None or now >= ends_at or is_proven_dead(proposal.node):
        return None
    because = (
        f"{', '.join(sorted(fingerprints(proposal.node)))} appeared on more nodes within "
        f"{minutes(TOGETHER)} than fail independently; each of them waits {minutes(WAIT)} for a "
        "common cause to show"
    )
    return _deferred(proposal, DeferredBy.BURST, because, now)


def _in_replacement_loop(
    proposal: ProposedAction,
    loops: Mapping[PoolName, ReplacementLoop],
    replaced: Mapping[PoolName, int],
    now: datetime,
) -> Deferred | None:
    """Defer a node of a pool in a replacement loop, unless a trial is allowed."""
    pool = proposal.node.pool
    loop = None if pool is None else loops.get(pool)
    if pool is None or loop is None or not loop.affects(proposal.node):
        return None
    if replaced[pool] < loop.allowance:
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
        self._spent = {settings.window: Counter[Attribute](), DAY: Counter[Attribute]()}
        self._spent_on = {
            settings.window: Counter[tuple[Attribute, str]](),
            DAY: Counter[tuple[Attribute, str]](),
        }
        """The same by the fault of the nodes."""
        self._lost: dict[timedelta, Counter[Attribute]] = {}
        """The nodes that each domain lacks: its budget does not shrink with what it lost."""
        for period in self._spent:
            acted = stats.acted_since(now - period, is_missed)
            self._lost[period] = stats.lost(acted)
            for name, places in acted.items():
                self._charge(period, places, stats.faults_of(name))

    def hold(self, proposal: ProposedAction, evidence: str, now: datetime) -> Deferred | None:
        """Defer a node if the budget of one of its domains is spent, for a day or for the window.

        `evidence` names what the node shares with others that show the same fault.
        """
        node, settings = proposal.node, self._settings
        faults = {fault: self._count(fault) for fault in fingerprints(node)}
        rarest = min(faults, key=lambda fault: (faults[fault], fault), default="")
        # It replaces a node that is still counted, and never served for long, so that its place is
        # charged already in the window. In a day, each attempt counts.
        is_charged = node.replaces in self._recent and fell_ill_at(node) is not None
        for place in domains_of(node):
            budget = settings.budgets.get(Domain(place[0]))
            if budget is None:
                continue
            present = self._stats.sizes[place]
            sizes = [present + self._lost[period][place] for period in (settings.window, DAY)]
            limits = [
                (settings.window, budget.allows(sizes[0]), budget.share_max, budget.nodes_min),
                (DAY, budget.allows_per_day(sizes[1]), budget.share_per_day, budget.nodes_per_day),
            ]
            for period, allowed, share, least in limits[is_charged:]:
                kept = self._kept_for_others(place, period, allowed, rarest)
                spent = spent_on = self._spent[period][place]
                if period != DAY or not self._is_unusual(rarest):
                    spent_on = self._spent_on[period][place, rarest]
                if spent >= allowed:
                    rest = ""
                elif kept and spent_on >= allowed - kept:
                    rest = f", less {kept} kept for other faults than {rarest}"
                else:
                    continue
                # Beside a suspect, another version or place would look like a second one.
                where = f"its {words_of(place[0])}" if evidence else describe(place)
                because = (
                    f"{where}: automation may act on {share:.0%} of it, or {least} "
                    f"node{'' if least == 1 else 's'}, in {minutes(period)}{rest}"
                )
                if evidence:
                    because += f"; {self._named(proposal, evidence)}"
                return _deferred(proposal, DeferredBy.BUDGET, because, now)
        return None

    def _kept_for_others(
        self, place: Attribute, period: timedelta, allowed: int, fault: str
    ) -> int:
        """Return how many of the `allowed` nodes are kept for other faults than `fault`.

        That is a third of a budget that is large enough, for a fault that several nodes show. In a
        day, that third is taken from the floor, which is for small pools in which several machines
        happen to fail; a fault that more nodes show than fail independently has no part of the
        floor, whatever used the rest.
        """
        if self._count(fault) < self._settings.suspect_nodes:
            return 0
        reserves = place[0] in RESERVING and allowed >= RESERVED_FROM
        if period != DAY:
            return int(allowed * RESERVED_SHARE) if reserves else 0
        budget = self._settings.budgets[Domain(place[0])]
        size = self._stats.sizes[place] + self._lost[DAY][place]
        beyond = allowed - max(budget.allows(size), int(size * budget.share_per_day))
        if self._is_unusual(fault):
            return beyond
        return min(beyond, int(allowed * RESERVED_SHARE)) if reserves else 0

    def _is_unusual(self, fault: str) -> bool:
        """Return whether more nodes show a fault than fail independently in a day."""
        shown, nodes = self._count(fault), len(self._stats.attributes)
        rate = FAULTS_PER_NODE_DAY * MOST_FREQUENT
        return chance_of(shown, nodes=nodes, within=DAY, per_node_day=rate) < COINCIDENCE_MAX

    def _count(self, fault: str) -> int:
        """Return how many nodes show a fault, or did when they left."""
        return len(self._stats.showing.get(fault, ()))

    def _named(self, proposal: ProposedAction, evidence: str) -> str:
        """Return the evidence as it was when the node was deferred: it grows with each node."""
        before = proposal.node.held
        if before is not None and before.by is DeferredBy.BUDGET and "; " in before.because:
            return before.because.partition("; ")[2]
        return evidence

    def spend(self, node: Node) -> None:
        """Charge every domain of `node` for one action."""
        for period in self._spent:
            self._charge(period, domains_of(node), fingerprints(node))

    def _charge(
        self, period: timedelta, places: Iterable[Attribute], faults: Iterable[str]
    ) -> None:
        self._spent[period].update(places)
        self._spent_on[period].update((place, fault) for place in places for fault in faults)


def _deferred(
    proposal: ProposedAction,
    by: DeferredBy,
    because: str,
    now: datetime,
    *,
    faults: tuple[str, ...] = (),
    suspects: tuple[str, ...] = (),
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
        suspects=suspects,
    )

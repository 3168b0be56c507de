"""The remediation reconciler: what is done about nodes that are not well, as far as it may be."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from navarch.control.agenda import LONG_AGO, Agenda
from navarch.control.failing_remediators import FailingRemediators
from navarch.control.following import Follow, by_itself
from navarch.control.providers import Providers
from navarch.core.errors import ConflictError
from navarch.core.evolve import evolve
from navarch.core.fleet import Fleet, pools_touched
from navarch.core.governor import DAY, GovernorSettings, default_settings
from navarch.core.held import DeferredBy
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.core.recovery import Recovery
from navarch.fleet.changes import changes
from navarch.fleet.disruption.governor.domain_stats import DomainStats
from navarch.fleet.disruption.governor.governor import (
    SILENCE_MAX,
    GovernorDecision,
    Obstacles,
    ProposedAction,
    govern,
)
from navarch.fleet.disruption.governor.outage import Outage, Scope, find_outages, outage_of
from navarch.fleet.disruption.governor.suspicion import PolicyChange, find_suspicions
from navarch.fleet.disruption.spot_notice import plan_notices
from navarch.fleet.disruption.unhealthy import (
    AUTOMATIC,
    is_only_silent,
    plan_returns,
    replaced,
    silence_due_at,
)
from navarch.fleet.invariants import check_plans
from navarch.fleet.launch_breaker import LaunchBreaker
from navarch.fleet.plan import Action, Cordon, Defer, PauseAutomation, Plan, Recover
from navarch.fleet.recovery.ladder import begin
from navarch.fleet.recovery.rules import RecoveryContext
from navarch.fleet.replacement_loop import find_replacement_loop
from navarch.fleet.silence import heartbeat_condition
from navarch.ports.clock import Clock
from navarch.ports.remediator import Remediator, Remedy, Treatment
from navarch.ports.store import Committed, Store

BREATH = timedelta(seconds=0.05)
"""Between two rounds. In a storm of reports the next round then answers many of them."""

BREATH_MAX = timedelta(seconds=0.25)
"""A fault that comes right after a round waits no longer than this for the next one."""

HOLDS_AT_ONCE = 200
"""How many nodes are noted as held back in one commit: any of them may be changing."""


class RemediationReconciler:
    """Asks each pool's remediator what it wants, and the governor how much of that may be.

    It carries nothing out. What is written down is picked up by the reconcilers that talk to
    agents, providers and workload systems, also after a crash.
    """

    name = "remediation"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        providers: Providers,
        *,
        remediator: Callable[[Pool], Remediator],
        settings: Callable[[], GovernorSettings] = default_settings,
        policy: Callable[[], PolicyChange | None] = lambda: None,
        follow: Follow = by_itself,
        strict: bool = False,
    ) -> None:
        """`follow` adds to a change what it comes to for incidents and for broken machines."""
        self._clock = clock
        self._store = store
        self._providers = providers
        self._remediator = remediator
        self._settings = settings
        self._policy = policy
        self._follow = follow
        fleet = store.fleet()
        self._census = DomainStats(fleet.nodes.values(), fleet.recoveries.values())
        self.agenda: Agenda[PoolName] = Agenda()
        for pool in fleet.pools:
            self.agenda.note(pool)
        self._not_before = clock.now()
        self._held: set[PoolName] = {name for name, pool in fleet.pools.items() if pool.held}
        """Pools that were held back, which may end by what happens in other pools."""
        self._wakes: dict[PoolName, datetime] = {}
        """When the next decision about a pool is due that only waits for time to pass."""
        self._governed_by: GovernorSettings | None = None
        """The settings by which the nodes that wait were last given a date."""
        self._failing = FailingRemediators(strict=strict)
        store.subscribe(self._changed)

    async def reconcile(self) -> datetime | None:
        """Decide about every pool that changed, and about every node that waits."""
        now = self._clock.now()
        if now < self._not_before:
            return self._not_before
        due = self.agenda.due(now)
        if due:
            began = self._clock.monotonic()
            fleet = self._store.fleet()
            plans = self._plan(fleet, {*due, *self._waiting(), *self._held}, now)
            check_plans(plans, fleet)
            # What deciding took, not what the disk took: others work while we wait for that.
            thought = timedelta(seconds=self._clock.monotonic() - began)
            self.agenda.done(due)
            try:
                await self._write_down(plans, fleet, now)
            except BaseException:
                for name in due:
                    self.agenda.note(name)
                raise
            self._not_before = self._clock.now() + max(BREATH, min(3 * thought, BREATH_MAX))
        self._wake()
        for pool, retry_at in self._failing.retries():
            self.agenda.wake_by(pool, retry_at)
        return self.agenda.next_at()

    def due_at(self) -> datetime | None:
        """Return from when on there is something to do: not before it has caught its breath."""
        settings = self._settings()
        same = settings is self._governed_by or settings == self._governed_by
        due_at = self.agenda.due_at() if same else LONG_AGO
        return None if due_at is None else max(due_at, self._not_before)

    def _waiting(self) -> Iterator[PoolName]:
        """Yield the pools with nodes that are held back: room may have been made elsewhere."""
        for pool, nodes in self._census.pools.items():
            if any(node.held is not None for node in nodes.values()):
                yield pool

    def _wake(self) -> None:
        self._governed_by = self._settings()
        for pool, at in self._wakes.items():
            self.agenda.wake_by(pool, at)
        if not self._census.waiting:
            return
        now = self._clock.now()
        next_expiry = self._census.next_expiry(now, [self._governed_by.window, DAY])
        moments = [] if next_expiry is None else [next_expiry]
        ends = (since + SILENCE_MAX for since in self._census.silent.values())
        moments += [end for end in ends if end > now]
        for pool in self._waiting():
            mine = [*moments, self._wakes[pool]] if pool in self._wakes else moments
            self.agenda.wake(pool, min(mine, default=None))

    def _plan(self, fleet: Fleet, names: Iterable[PoolName], now: datetime) -> list[Plan]:
        pools: list[Pool] = []
        actions: dict[PoolName, list[Action]] = {}
        wanted: dict[NodeId, Treatment] = {}
        wishes: list[ProposedAction] = []
        outages = self._find_outages(fleet)
        for name in sorted(names):
            self._wakes.pop(name, None)
            pool = fleet.pools.get(name)
            if pool is None:
                continue
            pools.append(pool)
            nodes = _newest(fleet, self._census.pools.get(name, ()))
            notices = plan_notices(nodes)
            here = actions[name] = [*notices, *plan_returns(nodes)]
            if notices:
                leaving = {notice.node for notice in notices}
                nodes = [node for node in nodes if node.id not in leaving]
            unreachable = _unreachable(nodes, outages)
            reached = pool
            if pool.unreachable and not unreachable:
                # The outage ends with this plan, which is not written down yet.
                reached = evolve(pool, reachable_since=now)
            self._wake_for_silence(reached, nodes, now)
            treatments = self._failing.ask(reached, nodes, self._remediator(pool), now)
            if treatments is None:
                here += self._failing.hold_nodes(name, nodes, now)
                continue
            for node, treatment in treatments:
                wanted[node.id] = treatment
                wish = ProposedAction(
                    node=node,
                    action=str(treatment.remedy),
                    reason=treatment.reason,
                    dry_run=pool.remediation.dry_run,
                    for_silence=is_only_silent(pool, node),
                )
                wishes.append(wish)
            if self._census.waiting:
                here += _let_go(nodes, wanted)
        held: list[GovernorDecision] = []
        loops = self._find_loops(fleet, wishes, now)
        for verdict in self._govern(fleet, wishes, outages, loops, now):
            node = verdict.proposal.node
            assert node.pool is not None, node.id
            action = self._action(fleet, node, wanted[node.id], verdict, now)
            if action is not None:
                actions[node.pool].append(action)
            if verdict.held is not None:
                held.append(verdict)
        plans: list[Plan] = []
        for pool in pools:
            here = actions[pool.name]
            here += self._pool_hold(fleet, pool, held, outages, loops)
            plans.append(Plan(pool=pool.name, actions=tuple(here)))
        return plans

    def _govern(
        self,
        fleet: Fleet,
        wishes: Sequence[ProposedAction],
        outages: Mapping[Scope, Outage],
        loops: Mapping[PoolName, LaunchBreaker],
        now: datetime,
    ) -> Sequence[GovernorDecision]:
        if not wishes:
            return ()
        settings = self._settings()
        suspicions = find_suspicions(self._census, settings, policy=self._policy())
        obstacles = Obstacles(suspicions=suspicions, outages=outages, loops=loops)
        return govern(
            wishes,
            self._census,
            settings,
            obstacles,
            is_missed=lambda node: _is_missed(fleet, node),
            now=now,
        )

    def _find_outages(self, fleet: Fleet) -> Mapping[Scope, Outage]:
        """Return where many nodes are silent; most of the time none is."""
        if not any(heartbeat_condition(node) for node in self._census.unwell.values()):
            return {}
        return find_outages(fleet.nodes.values())

    def _find_loops(
        self, fleet: Fleet, wishes: Iterable[ProposedAction], now: datetime
    ) -> Mapping[PoolName, LaunchBreaker]:
        """Return the pools with wishes that must pause, and decide about them when that ends."""
        loops: dict[PoolName, LaunchBreaker] = {}
        for name in dict.fromkeys(wish.node.pool for wish in wishes):
            if name is None:
                continue
            nodes = fleet.in_pool(name).values()
            loop = find_replacement_loop(fleet.pools[name], nodes, now=now)
            if loop is None:
                continue
            missing = max(fleet.pools[name].target - sum(node.counts for node in nodes), 0)
            # A machine that is missing already is the one to try.
            loops[name] = replace(loop, allowance=max(loop.allowance - missing, 0))
            if loop.until > now:
                self._wake_at(name, loop.until)
        return loops

    def _wake_for_silence(self, pool: Pool, nodes: Iterable[Node], now: datetime) -> None:
        for node in nodes:
            due_at = silence_due_at(pool, node)
            if due_at is not None and due_at > now:
                self._wake_at(pool.name, due_at)

    def _wake_at(self, pool: PoolName, at: datetime) -> None:
        self._wakes[pool] = min(at, self._wakes.get(pool, at))

    def _pool_hold(
        self,
        fleet: Fleet,
        pool: Pool,
        verdicts: Iterable[GovernorDecision],
        outages: Mapping[Scope, Outage],
        loops: Mapping[PoolName, LaunchBreaker],
    ) -> Iterator[PauseAutomation]:
        """Yield the pool's new reason to hold back, the one that says most, if it is another."""
        held = [
            verdict.held.because
            for verdict in verdicts
            if verdict.held is not None
            and verdict.held.by not in (DeferredBy.DRY_RUN, DeferredBy.REPLACEMENT_LOOP)
            and verdict.proposal.node.pool == pool.name
        ]
        if pool.name in loops:
            held.append(loops[pool.name].reason)
        nodes = _newest(fleet, self._census.pools.get(pool.name, ())) if outages else []
        unreachable = _unreachable(nodes, outages)
        held += [outage.words for outage in unreachable]
        # A change that is suspected says more than a budget that is spent.
        reason = self._failing.reason_for(pool.name) or min(
            held, key=lambda words: ("suspected" not in words, words), default=None
        )
        if reason is None:
            self._held.discard(pool.name)
        else:
            self._held.add(pool.name)
        if reason != pool.held or bool(unreachable) is not pool.unreachable:
            yield PauseAutomation(reason=reason, unreachable=bool(unreachable))

    def _action(
        self,
        fleet: Fleet,
        node: Node,
        treatment: Treatment,
        verdict: GovernorDecision,
        now: datetime,
    ) -> Action | None:
        if verdict.held is not None:
            before = node.held
            same = before is not None and (
                (before.action, before.by, before.because)
                == (verdict.held.action, verdict.held.by, verdict.held.because)
            )
            return None if same else Defer(node=node.id, held=verdict.held)
        if treatment.remedy is Remedy.REPLACE:
            return replaced(node, treatment)
        if treatment.remedy is Remedy.CORDON:
            return Cordon(node=node.id, reason=AUTOMATIC + treatment.reason, automatic=True)
        return Recover(recovery=begin(node, treatment, self._ground(fleet, node, now)))

    def _ground(self, fleet: Fleet, node: Node, now: datetime) -> RecoveryContext:
        return ground_of(fleet, node, self._providers, now=now)

    async def _write_down(self, plans: Sequence[Plan], fleet: Fleet, now: datetime) -> None:
        """Write actions first, all or none; then, as far as they have not moved, who waits."""
        acting, holding = _apart(plans)
        # Nothing is counted here but what only we do: a node that changes is conflict enough.
        change = changes(acting, fleet, now=now, guarded=False)
        if not change.empty:
            change = await self._follow(change, fleet)
            await self._store.commit(change, based_on=fleet.revision)
        for pool, holds in holding:
            for first in range(0, len(holds), HOLDS_AT_ONCE):
                some = Plan(pool=pool, actions=tuple(holds[first : first + HOLDS_AT_ONCE]))
                change = changes([some], fleet, now=now, guarded=False)
                try:
                    await self._store.commit(change, based_on=fleet.revision)
                except ConflictError:
                    self.agenda.note(pool)

    def _changed(self, committed: Committed) -> None:
        change = committed.change
        for recovery in change.recoveries:
            self._census.note_recovery(recovery)
        for before, node in committed.moved:
            if self._census.note(node) and not _is_decided(before, node):
                assert node.pool is not None, node.id
                self.agenda.note(node.pool)
        for name in change.forget_nodes:
            self._census.drop(name)
        for pool in self._held:
            self.agenda.note(pool)
        if self._census.waiting:
            # Any node that moves may make room, and so may whoever sets other bounds.
            for pool in pools_touched(committed.before, change):
                self.agenda.note(pool)
            if self._settings() != self._governed_by:
                for pool in self._waiting():
                    self.agenda.note(pool)
        for each in committed.reshaped:
            self.agenda.note(each.name)


def _is_decided(before: Node | None, node: Node) -> bool:
    """Return whether `node` is on its way out, and nothing was held back before it was."""
    if node.retiring is None or node.held is not None:
        return False
    return before is None or before.held is None


def ground_of(fleet: Fleet, node: Node, providers: Providers, *, now: datetime) -> RecoveryContext:
    """Return what is known around the recoveries of `node`."""
    pool = fleet.pools.get(node.pool) if node.pool is not None else None
    provider = providers.find(node.provider)
    return RecoveryContext(
        pool=pool,
        now=now,
        can_reboot=provider is not None and provider.can_reboot,
        can_power_cycle=provider is not None and provider.can_power_cycle,
        others=recoveries_of(fleet, node.id),
    )


def recoveries_of(fleet: Fleet, node: NodeId) -> list[Recovery]:
    """Return every recovery of a node that is remembered."""
    return [recovery for recovery in fleet.recoveries.values() if recovery.node == node]


def _newest(fleet: Fleet, names: Iterable[NodeId]) -> list[Node]:
    nodes: list[Node] = []
    for name in names:
        node = fleet.nodes.get(name)
        if node is not None:
            nodes.append(node)
    return nodes


def _let_go(nodes: Iterable[Node], wanted: Mapping[NodeId, Treatment]) -> Iterator[Action]:
    """Yield the nodes about which nothing is to be done any more that could be held back."""
    for node in nodes:
        if node.held is not None and node.id not in wanted:
            reason = f"to {node.held.action} it is no longer called for"
            if node.held.by is DeferredBy.REMEDIATOR:
                reason = "the remediator works again, and asks for nothing"
            yield Defer(node=node.id, held=None, reason=reason)


def _unreachable(nodes: Iterable[Node], outages: Mapping[Scope, Outage]) -> list[Outage]:
    """Return the outages that silent nodes among `nodes` are part of."""
    if not outages:
        return []
    found = [outage_of(node, outages) for node in nodes if heartbeat_condition(node) is not None]
    return [outage for outage in found if outage is not None]


def _is_missed(fleet: Fleet, node: Node) -> bool:
    """Return whether the pool of `node` has fewer nodes that serve than it should."""
    pool = fleet.pools.get(node.pool) if node.pool is not None else None
    if pool is None:
        return False
    return sum(each.serving for each in fleet.in_pool(pool.name).values()) < pool.target


def _apart(plans: Iterable[Plan]) -> tuple[list[Plan], list[tuple[PoolName, list[Action]]]]:
    """Return the plans without the nodes that are held back, and those by pool."""
    acting: list[Plan] = []
    holding: list[tuple[PoolName, list[Action]]] = []
    for plan in plans:
        holds: list[Action] = [x for x in plan.actions if isinstance(x, Defer)]
        if holds:
            holding.append((plan.pool, holds))
            rest = tuple([x for x in plan.actions if not isinstance(x, Defer)])
            acting.append(evolve(plan, actions=rest))
        else:
            acting.append(plan)
    return acting, holding

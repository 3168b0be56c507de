"""Remediation: decides what is done about unhealthy nodes, within the limits of the governor."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from navarch.control.health.failing_remediators import GuardedRemediators, hold_nodes
from navarch.control.providers.guard import Providers
from navarch.control.runtime.controller import CommitHook, Controller, no_hook
from navarch.control.runtime.extensions import ExtensionGuard
from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.disruption import DAY, DeferredBy, GovernorSettings, default_settings
from navarch.core.errors import ConflictError
from navarch.core.fleet import Fleet, pools_touched
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.changes import changes
from navarch.fleet.disruption.governor.attributes import Attribute
from navarch.fleet.disruption.governor.burst import burst_wait_ends_at, find_bursts
from navarch.fleet.disruption.governor.common_cause import PolicyChange, find_causes
from navarch.fleet.disruption.governor.domain_stats import needs_attention
from navarch.fleet.disruption.governor.governor import (
    SILENCE_MAX,
    GovernorDecision,
    Obstacles,
    ProposedAction,
    govern,
)
from navarch.fleet.disruption.governor.outage import PAIR_MAX, Outage, find_outages, outage_of
from navarch.fleet.disruption.spot_notice import plan_notices
from navarch.fleet.disruption.unhealthy import (
    AUTOMATIC,
    is_only_silent,
    plan_returns,
    replaced,
    treatment_due_at,
    uncertain_faults,
)
from navarch.fleet.plan import (
    Action,
    Cordon,
    Defer,
    PauseAutomation,
    Plan,
    Recover,
    check_plans,
)
from navarch.fleet.recovery.ladder import begin
from navarch.fleet.recovery.rules import RecoveryContext
from navarch.fleet.replacement_bound import find_replacement_bound
from navarch.fleet.replacement_loop import ReplacementLoop, find_replacement_loop
from navarch.fleet.silence import heartbeat_condition, is_proven_dead, testified
from navarch.ports.clock import Clock
from navarch.ports.remediator import Remediator, Remedy, Treatment
from navarch.ports.store import Committed, Store
from navarch.state.index import Index

PAUSE = timedelta(seconds=0.05)
"""Between two rounds. In a storm of reports the next round then decides about many of them."""

PAUSE_MAX = timedelta(seconds=0.25)
"""The longest delay of a fault that is reported right after a round."""

PASSING = (DeferredBy.BURST, DeferredBy.DRY_RUN, DeferredBy.REPLACEMENT_LOOP)
"""The limits that do not pause a pool by themselves."""

DEFERRALS_AT_ONCE = 200
"""How many deferrals one commit holds: a change of any of their nodes is a conflict."""


class RemediationController(Controller):
    """Collects what each pool's remediator proposes, and commits what the governor permits.

    It carries nothing out. The controllers that call agents, providers and workload systems act on
    what is committed, also after a crash.
    """

    name = "remediation"
    queue: WorkQueue[PoolName]

    def __init__(
        self,
        clock: Clock,
        store: Store,
        index: Index,
        providers: Providers,
        *,
        remediator: Callable[[Pool], Remediator],
        settings: Callable[[], GovernorSettings] = default_settings,
        policy: Callable[[], PolicyChange | None] = lambda: None,
        hook: CommitHook = no_hook,
        guard: ExtensionGuard | None = None,
        strict: bool = False,
    ) -> None:
        """`hook` adds to a change what follows from it for incidents and for bad hosts."""
        pools = store.fleet().pools
        super().__init__(clock, store, pools)
        self._providers = providers
        self._remediator = remediator
        self._settings = settings
        self._policy = policy
        self._hook = hook
        self._index = index
        self._paused: set[PoolName] = {name for name, pool in pools.items() if pool.held}
        """Pools with paused automation; a change in another pool may end the pause."""
        self._due: dict[PoolName, datetime] = {}
        """When the next decision about a pool is due that only depends on time."""
        self._governed_by: GovernorSettings | None = None
        """The settings that the dates of deferred nodes depend on."""
        self._remediators = GuardedRemediators(guard or ExtensionGuard(clock.now), strict=strict)

    def on_commit(self, committed: Committed) -> None:
        """Queue the pools that a commit concerns."""
        for before, node in committed.moved:
            versions = [node] if before is None else [before, node]
            is_deferred = any(each.held is not None for each in versions)
            if node.retiring is not None and not is_deferred:
                continue  # It is decided about already.
            for version in versions:
                if needs_attention(version):
                    assert version.pool is not None, version.id
                    self.queue.add(version.pool)
        for pool in self._paused:
            self.queue.add(pool)
        if self._index.domains.waiting:
            # Any node that changes may make room, and so may other limits.
            for pool in pools_touched(committed.before, committed.change):
                self.queue.add(pool)
            if self._settings() != self._governed_by:
                for pool in self._pools_with_deferred_nodes():
                    self.queue.add(pool)
        for each in committed.reshaped:
            self.queue.add(each.name)

    async def reconcile(self, keys: Sequence[PoolName]) -> None:
        """Decide about these pools, and about every pool with deferred nodes."""
        now, fleet = self._clock.now(), self._store.fleet()
        began = self._clock.monotonic()
        names = {*keys, *self._pools_with_deferred_nodes(), *self._paused}
        plans = self._plan(fleet, names, now)
        check_plans(plans, fleet)
        # Only the time to decide counts: other controllers run while the store writes.
        decided_in = timedelta(seconds=self._clock.monotonic() - began)
        await self._commit(plans, fleet, now)
        self.queue.pause_until(self._clock.now() + max(PAUSE, min(3 * decided_in, PAUSE_MAX)))
        self._governed_by = self._settings()
        for pool, due in self._due.items():
            self.queue.add_by(pool, due)
        for pool, retry_at in self._remediators.failures():
            self.queue.add_by(pool, retry_at)
        if self._index.domains.waiting:
            self._schedule_deferred(self._governed_by)

    def _pools_with_deferred_nodes(self) -> Iterator[PoolName]:
        """Yield the pools with deferred nodes: room for them may have been made elsewhere."""
        for pool, nodes in self._index.domains.pools.items():
            if any(node.held is not None for node in nodes.values()):
                yield pool

    def _schedule_deferred(self, settings: GovernorSettings) -> None:
        """Queue the pools with deferred nodes for the time when a limit may let an action pass."""
        now = self._clock.now()
        next_expiry = self._index.domains.next_expiry(now, [settings.window, DAY])
        moments = [] if next_expiry is None else [next_expiry]
        silent = self._index.domains.silent.values()
        ends = [since + limit for since in silent for limit in (SILENCE_MAX, PAIR_MAX)]
        moments += [end for end in ends if end > now]
        if moments:
            for pool in self._pools_with_deferred_nodes():
                self.queue.add_by(pool, min(moments))

    def _plan(self, fleet: Fleet, names: Iterable[PoolName], now: datetime) -> list[Plan]:
        pools = [fleet.pools[name] for name in sorted(names) if name in fleet.pools]
        actions: dict[PoolName, list[Action]] = {}
        wanted: dict[NodeId, Treatment] = {}
        proposals: list[ProposedAction] = []
        outages = find_outages(self._index.domains, now=now)
        for name in names:
            self._due.pop(name, None)
        for pool in pools:
            actions[pool.name], treatments = self._propose(pool, outages, now)
            for node, treatment in treatments:
                is_dead = is_proven_dead(node)
                proof = f"; {testified(node, alive=False)}" if is_dead else ""
                uncertain = uncertain_faults(pool, node, now)
                for due_at in filter(None, uncertain.values()):
                    self._add_due(pool.name, due_at)
                wanted[node.id] = evolve(treatment, reason=treatment.reason + proof)
                proposal = ProposedAction(
                    node=node,
                    action=str(treatment.remedy),
                    reason=wanted[node.id].reason,
                    dry_run=pool.remediation.dry_run,
                    for_silence=is_only_silent(pool, node) and not is_dead,
                    uncertain=frozenset(uncertain),
                )
                proposals.append(proposal)
        loops = self._find_loops(fleet, proposals, now)
        verdicts = self._govern(fleet, proposals, outages, loops, now) if proposals else ()
        for verdict in verdicts:
            node = verdict.proposal.node
            assert node.pool is not None, node.id
            action = self._action(fleet, node, wanted[node.id], verdict, now)
            if action is not None:
                actions[node.pool].append(action)
        held = [verdict for verdict in verdicts if verdict.held is not None]
        for pool in pools:
            actions[pool.name] += self._pool_hold(pool, held, outages, loops)
        return [Plan(pool=pool.name, actions=tuple(actions[pool.name])) for pool in pools]

    def _propose(
        self, pool: Pool, outages: Mapping[Attribute, Outage], now: datetime
    ) -> tuple[list[Action], Sequence[tuple[Node, Treatment]]]:
        """Return the actions that need no permission, and what the pool's remediator proposes."""
        nodes = list(self._index.domains.pools.get(pool.name, {}).values())
        notices = plan_notices(nodes)
        actions: list[Action] = [*notices, *plan_returns(nodes)]
        leaving = {notice.node for notice in notices}
        nodes = [node for node in nodes if node.id not in leaving]
        reached = pool
        if pool.unreachable and next(self._unreachable(nodes, outages), None) is None:
            # The outage ends with this plan, which is not committed yet.
            reached = evolve(pool, reachable_since=now)
        for node in nodes:
            due_at = treatment_due_at(reached, node)
            if due_at is not None and due_at > now:
                self._add_due(pool.name, due_at)
        treatments = self._remediators.call(reached, nodes, self._remediator(pool), now)
        if treatments is None:
            failure = self._remediators.failure(pool.name)
            assert failure is not None, pool.name
            actions += hold_nodes(failure.because, nodes, now)
            return actions, ()
        treated = {node.id for node, _ in treatments}
        for node in nodes:
            if node.held is not None and node.id not in treated:
                reason = f"the reason to {node.held.action} it is gone"
                if node.held.by is DeferredBy.REMEDIATOR:
                    reason = "the remediator works again and proposes nothing"
                actions.append(Defer(node=node.id, held=None, reason=reason))
        return actions, treatments

    def _govern(
        self,
        fleet: Fleet,
        proposals: Sequence[ProposedAction],
        outages: Mapping[Attribute, Outage],
        loops: Mapping[PoolName, ReplacementLoop],
        now: datetime,
    ) -> Sequence[GovernorDecision]:
        settings = self._settings()
        causes = find_causes(self._index.domains, settings, policy=self._policy(), now=now)
        bursts = find_bursts(self._index.domains, settings, now=now)
        obstacles = Obstacles(causes=causes, bursts=bursts, outages=outages, loops=loops)
        for proposal in proposals:
            ends_at = burst_wait_ends_at(proposal.node, bursts)
            if ends_at is not None and ends_at > now and proposal.node.pool is not None:
                self._add_due(proposal.node.pool, ends_at)

        def is_missed(node: Node) -> bool:
            """Return whether the pool of `node` has fewer nodes that serve than it should."""
            pool = fleet.pools.get(node.pool) if node.pool is not None else None
            if pool is None:
                return False
            members = (*fleet.in_pool(pool.name).values(), *fleet.hosts_of(pool.name))
            return sum(each.serving for each in members) < pool.target

        return govern(
            proposals, self._index.domains, settings, obstacles, is_missed=is_missed, now=now
        )

    def _find_loops(
        self, fleet: Fleet, proposals: Iterable[ProposedAction], now: datetime
    ) -> Mapping[PoolName, ReplacementLoop]:
        """Return the replacement loops of pools with proposals, and schedule their ends."""
        loops: dict[PoolName, ReplacementLoop] = {}
        for name in dict.fromkeys(each.node.pool for each in proposals):
            if name is None:
                continue
            nodes = fleet.in_pool(name).values()
            pool = fleet.pools[name]
            failed_max = self._settings().failed_replacements_max(pool.size)
            bound = find_replacement_bound(pool, nodes, failed_max=failed_max, now=now)
            loop = find_replacement_loop(pool, nodes, now=now)
            found = [x for x in (loop, bound) if x is not None and x.pauses]
            if not found:
                continue
            loop = max(found, key=lambda each: each.until)
            missing = max(pool.target - sum(node.counts for node in nodes), 0)
            # A machine that is missing already counts as the one on trial.
            loops[name] = replace(loop, allowance=max(loop.allowance - missing, 0))
            if loop.until > now:
                self._add_due(name, loop.until)
        return loops

    def _unreachable(
        self, nodes: Iterable[Node], outages: Mapping[Attribute, Outage]
    ) -> Iterator[Outage]:
        """Yield the outage of each silent node among `nodes` that is part of one."""
        attributes = self._index.domains.attributes
        for node in nodes if outages else ():
            if heartbeat_condition(node) is not None:
                outage = outage_of(node, attributes.get(node.id, ()), outages)
                if outage is not None:
                    yield outage

    def _add_due(self, pool: PoolName, due: datetime) -> None:
        self._due[pool] = min(due, self._due.get(pool, due))

    def _pool_hold(
        self,
        pool: Pool,
        verdicts: Iterable[GovernorDecision],
        outages: Mapping[Attribute, Outage],
        loops: Mapping[PoolName, ReplacementLoop],
    ) -> Iterator[PauseAutomation]:
        """Yield the pool's new reason to pause, the most specific one, if it has changed."""
        held = [
            verdict.held.because
            for verdict in verdicts
            if verdict.held is not None
            and verdict.held.by not in PASSING
            and verdict.proposal.node.pool == pool.name
        ]
        if pool.name in loops:
            held.append(loops[pool.name].reason)
        nodes = self._index.domains.pools.get(pool.name, {}).values()
        unreachable = {outage.words for outage in self._unreachable(nodes, outages)}
        held += unreachable
        # A suspected change explains more than a spent budget.
        reason = min(held, key=lambda words: ("suspected" not in words, words), default=None)
        if (failure := self._remediators.failure(pool.name)) is not None:
            reason = f"{failure.because}; no node of the pool is remediated until it works again"
        if reason is None:
            self._paused.discard(pool.name)
        else:
            self._paused.add(pool.name)
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
        if verdict.evidence:
            treatment = evolve(treatment, reason=f"{treatment.reason}; {verdict.evidence}")
        if treatment.remedy is Remedy.REPLACE:
            return replaced(node, treatment)
        if treatment.remedy is Remedy.CORDON:
            return Cordon(node=node.id, reason=AUTOMATIC + treatment.reason, automatic=True)
        return Recover(
            recovery=begin(node, treatment, recovery_context(fleet, node, self._providers, now=now))
        )

    async def _commit(self, plans: Sequence[Plan], fleet: Fleet, now: datetime) -> None:
        """Commit the actions, all or none; then the deferrals of nodes that have not changed."""
        acting: list[Plan] = []
        deferring: list[Plan] = []
        for plan in plans:
            deferrals = [each for each in plan.actions if isinstance(each, Defer)]
            rest = [each for each in plan.actions if not isinstance(each, Defer)]
            acting.append(Plan(pool=plan.pool, actions=tuple(rest)))
            for first in range(0, len(deferrals), DEFERRALS_AT_ONCE):
                some = tuple(deferrals[first : first + DEFERRALS_AT_ONCE])
                deferring.append(Plan(pool=plan.pool, actions=some))
        # Only this controller changes what is counted, so a changed node is the only conflict.
        change = changes(acting, fleet, now=now, guarded=False)
        if not change.empty:
            change = await self._hook(change, fleet)
            await self._store.commit(change, based_on=fleet.revision)
        for plan in deferring:
            change = changes([plan], fleet, now=now, guarded=False)
            try:
                await self._store.commit(change, based_on=fleet.revision)
            except ConflictError:
                self.queue.add(plan.pool)


def recovery_context(
    fleet: Fleet, node: Node, providers: Providers, *, now: datetime
) -> RecoveryContext:
    """Return the context of the recoveries of `node`."""
    pool = fleet.pools.get(node.pool) if node.pool is not None else None
    provider = providers.find(node.provider)
    return RecoveryContext(
        pool=pool,
        now=now,
        can_reboot=provider is not None and provider.can_reboot,
        can_power_cycle=provider is not None and provider.can_power_cycle,
        others=[each for each in fleet.recoveries.values() if each.node == node.id],
    )

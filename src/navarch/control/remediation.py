"""The remediation reconciler: what is done about nodes that are not well, as far as it may be."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from navarch.control.agenda import LONG_AGO, Agenda
from navarch.control.following import Follow, by_itself
from navarch.control.providers import Providers
from navarch.core.errors import ConflictError
from navarch.core.evolve import evolve
from navarch.core.fleet import Fleet, pools_touched
from navarch.core.governor import GovernorSettings, default_settings
from navarch.core.held import HeldBy
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.core.recovery import Recovery
from navarch.fleet.changes import changes
from navarch.fleet.disruption.governor.census import Census
from navarch.fleet.disruption.governor.governor import SILENCE_MAX, Verdict, Wish, govern
from navarch.fleet.disruption.governor.suspicion import PolicyChange, find_suspicions
from navarch.fleet.disruption.spot_notice import plan_notices
from navarch.fleet.disruption.unhealthy import AUTOMATIC, plan_returns, plan_treatments
from navarch.fleet.invariants import check_plans
from navarch.fleet.plan import Action, Cordon, Hold, HoldBack, Plan, Recover, Retire
from navarch.fleet.recovery.ladder import begin
from navarch.fleet.recovery.rules import Ground
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
        self._census = Census(fleet.nodes.values(), fleet.recoveries.values())
        self.agenda: Agenda[PoolName] = Agenda()
        for pool in fleet.pools:
            self.agenda.note(pool)
        self._not_before = clock.now()
        self._governed_by: GovernorSettings | None = None
        """The settings by which the nodes that wait were last given a date."""
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
            self._census.expire(now - self._settings().window)
            plans = self._plan(
                fleet, {*due, *self._waiting()} if self._census.waiting else due, now
            )
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
        if not self._census.waiting:
            return
        oldest = self._census.next_expiry()
        moments = [] if oldest is None else [oldest + self._governed_by.window]
        now = self._clock.now()
        ends = (since + SILENCE_MAX for since in self._census.silent.values())
        moments += [end for end in ends if end > now]
        for pool in self._waiting():
            self.agenda.wake(pool, min(moments, default=None))

    def _plan(self, fleet: Fleet, names: Iterable[PoolName], now: datetime) -> list[Plan]:
        pools: list[Pool] = []
        actions: dict[PoolName, list[Action]] = {}
        wanted: dict[NodeId, Treatment] = {}
        wishes: list[Wish] = []
        for name in sorted(names):
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
            for node, treatment in plan_treatments(pool, nodes, self._remediator(pool)):
                wanted[node.id] = treatment
                wish = Wish(
                    node=node,
                    action=str(treatment.remedy),
                    reason=treatment.reason,
                    dry_run=pool.remediation.dry_run,
                )
                wishes.append(wish)
            if self._census.waiting:
                here += _let_go(nodes, wanted)
        held: list[Verdict] = []
        for verdict in self._govern(wishes, now):
            node = verdict.wish.node
            assert node.pool is not None, node.id
            action = self._action(fleet, node, wanted[node.id], verdict, now)
            if action is not None:
                actions[node.pool].append(action)
            if verdict.held is not None:
                held.append(verdict)
        plans: list[Plan] = []
        for pool in pools:
            here = actions[pool.name]
            if held or pool.held is not None:
                here += _pool_hold(pool, held)
            plans.append(Plan(pool=pool.name, actions=tuple(here)))
        return plans

    def _govern(self, wishes: Sequence[Wish], now: datetime) -> Sequence[Verdict]:
        if not wishes:
            return ()
        settings = self._settings()
        suspicions = find_suspicions(self._census, settings, policy=self._policy())
        return govern(wishes, self._census, settings, suspicions, now=now)

    def _action(
        self, fleet: Fleet, node: Node, treatment: Treatment, verdict: Verdict, now: datetime
    ) -> Action | None:
        if verdict.held is not None:
            before = node.held
            same = before is not None and (
                (before.action, before.by, before.because)
                == (verdict.held.action, verdict.held.by, verdict.held.because)
            )
            return None if same else HoldBack(node=node.id, held=verdict.held)
        if treatment.remedy is Remedy.REPLACE:
            return Retire(node=node.id, reason=treatment.reason, automatic=True)
        if treatment.remedy is Remedy.CORDON:
            return Cordon(node=node.id, reason=AUTOMATIC + treatment.reason, automatic=True)
        return Recover(recovery=begin(node, treatment, self._ground(fleet, node, now)))

    def _ground(self, fleet: Fleet, node: Node, now: datetime) -> Ground:
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


def ground_of(fleet: Fleet, node: Node, providers: Providers, *, now: datetime) -> Ground:
    """Return what is known around the recoveries of `node`."""
    pool = fleet.pools.get(node.pool) if node.pool is not None else None
    provider = providers.find(node.provider)
    return Ground(
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
            yield HoldBack(node=node.id, held=None, reason=reason)


def _pool_hold(pool: Pool, verdicts: Iterable[Verdict]) -> Iterator[Hold]:
    held = [
        verdict.held.because
        for verdict in verdicts
        if verdict.held is not None
        and verdict.held.by is not HeldBy.DRY_RUN
        and verdict.wish.node.pool == pool.name
    ]
    # A change that is suspected says more than a budget that is spent.
    reason = min(held, key=lambda words: ("suspected" not in words, words), default=None)
    if reason != pool.held:
        yield Hold(reason=reason)


def _apart(plans: Iterable[Plan]) -> tuple[list[Plan], list[tuple[PoolName, list[Action]]]]:
    """Return the plans without the nodes that are held back, and those by pool."""
    acting: list[Plan] = []
    holding: list[tuple[PoolName, list[Action]]] = []
    for plan in plans:
        holds: list[Action] = [x for x in plan.actions if isinstance(x, HoldBack)]
        if holds:
            holding.append((plan.pool, holds))
            rest = tuple([x for x in plan.actions if not isinstance(x, HoldBack)])
            acting.append(evolve(plan, actions=rest))
        else:
            acting.append(plan)
    return acting, holding

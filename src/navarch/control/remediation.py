"""The remediation reconciler: what is done about nodes that are not well, as far as it may be."""

from collections.abc import Callable, Iterable, Iterator, Sequence
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
            plans = self._plan(fleet, {*due, *self._waiting()}, now)
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
        oldest = self._census.next_expiry()
        moments = [] if oldest is None else [oldest + self._governed_by.window]
        now = self._clock.now()
        ends = (since + SILENCE_MAX for since in self._census.silent.values())
        moments += [end for end in ends if end > now]
        for pool in self._waiting():
            self.agenda.wake(pool, min(moments, default=None))

    def _plan(self, fleet: Fleet, names: Iterable[PoolName], now: datetime) -> list[Plan]:
        pools = [fleet.pools[name] for name in sorted(names) if name in fleet.pools]
        settings = self._settings()
        actions: dict[PoolName, list[Action]] = {}
        wanted: dict[NodeId, tuple[Node, Treatment]] = {}
        wishes: list[Wish] = []
        for pool in pools:
            nodes = _newest(fleet, self._census.pools.get(pool.name, {}))
            notices = list(plan_notices(nodes))
            leaving = {notice.node for notice in notices}
            actions[pool.name] = [*notices, *plan_returns(nodes)]
            rest = [node for node in nodes if node.id not in leaving]
            for node, treatment in plan_treatments(pool, rest, self._remediator(pool)):
                wanted[node.id] = (node, treatment)
                wishes.append(
                    Wish(
                        node=node,
                        action=str(treatment.remedy),
                        reason=treatment.reason,
                        dry_run=pool.remediation.dry_run,
                    )
                )
            actions[pool.name] += _let_go(rest, wanted)
        suspicions = find_suspicions(self._census, settings, policy=self._policy())
        verdicts = list(govern(wishes, self._census, settings, suspicions, now=now))
        for verdict in verdicts:
            node, treatment = wanted[verdict.wish.node.id]
            assert node.pool is not None, node.id
            action = self._action(fleet, node, treatment, verdict, now)
            if action is not None:
                actions[node.pool].append(action)
        for pool in pools:
            actions[pool.name] += _pool_hold(pool, verdicts)
        return [Plan(pool=name, actions=tuple(found)) for name, found in actions.items()]

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
        change = changes([_without_holds(plan) for plan in plans], fleet, now=now)
        if not change.empty:
            # Nothing is counted here but what only we do: a node that changes is conflict enough.
            change = await self._follow(evolve(change, guards=()), fleet)
            await self._store.commit(change, based_on=fleet.revision)
        for plan in plans:
            holds = [action for action in plan.actions if isinstance(action, HoldBack)]
            for first in range(0, len(holds), HOLDS_AT_ONCE):
                some = tuple(holds[first : first + HOLDS_AT_ONCE])
                change = changes([Plan(pool=plan.pool, actions=some)], fleet, now=now)
                try:
                    await self._store.commit(evolve(change, guards=()), based_on=fleet.revision)
                except ConflictError:
                    self.agenda.note(plan.pool)

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
    was_held = before is not None and before.held is not None
    return node.retiring is not None and node.held is None and not was_held


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


def _newest(fleet: Fleet, nodes: Iterable[NodeId]) -> list[Node]:
    return [fleet.nodes[name] for name in nodes if name in fleet.nodes]


def _let_go(
    nodes: Iterable[Node], wanted: dict[NodeId, tuple[Node, Treatment]]
) -> Iterator[Action]:
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


def _without_holds(plan: Plan) -> Plan:
    acting = tuple([action for action in plan.actions if not isinstance(action, HoldBack)])
    return plan if acting == plan.actions else evolve(plan, actions=acting)

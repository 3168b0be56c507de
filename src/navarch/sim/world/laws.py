"""Laws of the fleet, watched at every revision of the store."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from navarch.core.event import BY_HAND, about
from navarch.core.fleet import Change, Fleet
from navarch.core.health import Health
from navarch.core.ids import InstanceId, NodeId, PoolName
from navarch.core.node import NEXT_PHASES, Node, Phase
from navarch.core.ownership import POOL
from navarch.core.pool import Pool
from navarch.ports.store import Committed
from navarch.providers.simulated import Machine


class Tally(msgspec.Struct, frozen=True):
    """The nodes of a pool, counted in several ways."""

    present: int = 0
    serving: int = 0
    counting: int = 0

    def with_change(self, was: "Tally", now: "Tally") -> "Tally":
        """Return the tally after the part of one node has changed."""
        return Tally(
            self.present + now.present - was.present,
            self.serving + now.serving - was.serving,
            self.counting + now.counting - was.counting,
        )


_NOTHING = Tally()


def _part_of(node: Node | None) -> Tally:
    """Return what one node adds to the tally of its pool."""
    if node is None or node.gone:
        return _NOTHING
    return Tally(1, node.phase is Phase.READY and node.serving, node.counts)


@dataclass(slots=True)
class Checkers:
    """Raises AssertionError at the first revision that breaks a law."""

    may_be_retired: set[NodeId] = field(default_factory=set)
    """Nodes that the story itself retires, or loses with their machines."""
    born: dict[NodeId, object] = field(default_factory=dict)
    _tallies: dict[PoolName, Tally] = field(default_factory=dict)
    """The tally of each pool at the last checked revision."""
    _watched: int | None = None

    def watch(self, committed: Committed) -> None:
        """Check one revision against the one before."""
        before, after, change = committed.before, committed.after, committed.change
        assert after.revision == before.revision + 1, "a revision was skipped"
        assert self._watched in (None, before.revision), "a revision was skipped"
        self._watched = after.revision
        had: dict[PoolName, Tally] = {}
        shrinks: set[PoolName] = set()
        for former, node in committed.moved:
            # The agent of a forgotten host registers a new node of the same name.
            forgotten = former is not None and former.gone and former.self_registered
            old = None if forgotten else former
            if forgotten:
                self.born.pop(node.id, None)
            if old is None or old.created_at is not node.created_at:
                self._check_birth(node)
            if old is not None:
                _check_move(old, node)
                if old.retiring is not node.retiring and not _is_by_hand(change, node):
                    self._check_disturbance(old, node, after)
            if old is not None and old.pool is not None and node.pool is None:
                self._count_in(old.pool, before, _part_of(old), _NOTHING)
            pool = node.pool
            if pool is not None:
                was = _part_of(old) if old is not None and old.pool == pool else _NOTHING
                now = _part_of(node)
                if was != now:
                    had.setdefault(pool, self._count_in(pool, before, was, now))
                begins = node.retiring if old is None or old.retiring is None else None
                if begins is not None and begins.surplus and not node.gone:
                    shrinks.add(pool)
        for node in committed.forgotten:
            self._check_birth(node)
            if node.pool is not None:
                self._count_in(node.pool, before, _part_of(node), _NOTHING)
        for pool, tally in had.items():
            _check_size(after.pools[pool], tally, self._tallies[pool], shrinks=pool in shrinks)
        assert change.events or not change.nodes, (
            f"{[node.id for node in change.nodes]} were changed without a reason"
        )

    def _count_in(self, pool: PoolName, before: Fleet, was: Tally, now: Tally) -> Tally:
        """Take one node of a pool into account; return the tally without that."""
        tally = self._tallies.get(pool)
        if tally is None:
            tally = Tally()
            for node in before.in_pool(pool).values():
                tally = tally.with_change(_NOTHING, _part_of(node))
        self._tallies[pool] = tally.with_change(was, now)
        return tally

    def _check_birth(self, node: Node) -> None:
        born = self.born.setdefault(node.id, node.created_at)
        assert born == node.created_at, f"the name {node.id} was used twice"

    def _check_disturbance(self, old: Node, new: Node, after: Fleet) -> None:
        if new.retiring is None or old.retiring is not None or new.retiring.surplus:
            return
        broken = old.health is Health.UNHEALTHY or old.phase in (Phase.REQUESTED, Phase.BOOTING)
        noticed = new.retiring.urgent
        if broken or noticed or new.id in self.may_be_retired:
            return
        others = after.in_pool(new.pool).values() if new.pool else ()
        assert any(other.replaces == new.id and other.serving for other in others), (
            f"{new.id} was {old.health} and {old.phase}, but is given back: {new.retiring.reason}"
        )


def _is_by_hand(change: Change, node: Node) -> bool:
    """Return whether an operator requested the change of `node`."""
    subject = about("node", node.id)
    return any(x.about == subject and x.facts.get("by") == BY_HAND for x in change.events)


def _check_move(old: Node, new: Node) -> None:
    moved = old.phase is not new.phase
    assert not moved or new.phase in NEXT_PHASES[old.phase], f"{new.id}: {old.phase}->{new.phase}"
    assert old.retiring is None or new.retiring is not None, f"{new.id} was given back and kept"
    if old.registered_at is not None:
        assert new.registered_at == old.registered_at, f"{new.id} was born again"


def _check_size(pool: Pool, had: Tally, has: Tally, *, shrinks: bool) -> None:
    name = pool.name
    machines_max = max(pool.nodes_max, had.present)
    assert has.present <= machines_max, f"{name}: {has.present} of {pool.nodes_max} nodes"
    if shrinks:
        enough = has.serving >= min(had.serving, pool.size)
        assert enough, f"{name} shrank to {has.serving} serving nodes"
    wanted_max = max(pool.nodes_max, had.counting)
    assert has.counting <= wanted_max, f"{name} wants {has.counting} of {pool.nodes_max}"


@dataclass(slots=True)
class Purchases:
    """The machines that clouds are paid for; raises AssertionError at one too many."""

    _running: dict[PoolName, dict[InstanceId, Machine]] = field(default_factory=dict)
    """By the pool that they were bought for."""
    _bought_for: dict[str, dict[InstanceId, Machine]] = field(default_factory=dict)
    """By the node that they were bought for."""

    def check(self, machine: Machine, fleet: Fleet) -> None:
        """Add a machine that was just bought, and check that it was wanted.

        Machines of a launch that the cloud denied do not count: the buyer cannot know them.
        """
        name = PoolName(machine.request.labels[POOL])
        running = self._running.setdefault(name, {})
        bought = self._bought_for.setdefault(machine.request.name, {})
        twins = [m for m in bought.values() if not m.denied]
        assert not twins, f"{machine.request.name} was bought twice"
        running[machine.id] = bought[machine.id] = machine
        limit = fleet.pools[name].nodes_max
        if len(running) > limit:
            machines = sum(not m.denied for m in running.values())
            assert machines <= limit, f"{machines} machines of {limit} in {name}"

    def ended(self, machine: Machine) -> None:
        """Drop a machine that has ended."""
        # A machine that was adopted was bought elsewhere.
        pool = PoolName(machine.request.labels.get(POOL, ""))
        self._running.get(pool, {}).pop(machine.id, None)
        self._bought_for.get(machine.request.name, {}).pop(machine.id, None)


@dataclass(slots=True)
class Laws:
    """The laws of one world. A broken law ends the world."""

    tasks: asyncio.TaskGroup
    seed: int
    checkers: Checkers = field(default_factory=Checkers)
    purchases: Purchases = field(default_factory=Purchases)
    over: bool = False
    """Whether the world has ended: what happens now is neither checked nor started."""

    @contextmanager
    def enforce(self) -> Iterator[None]:
        """End the world if a law is broken in the block.

        The control plane takes an error of a provider call for an unknown outcome and continues,
        and a store may commit in a task of its own. So the error is raised here and in the world.
        """
        try:
            yield
        except AssertionError as error:
            self._end(error)
            raise

    def _end(self, error: AssertionError) -> None:
        error.add_note(f"seed {self.seed}")
        if not self.over:
            self.over = True
            self.tasks.create_task(_raise(error), name="a broken law")

    def watch(self, committed: Committed) -> None:
        """Check one revision of the store."""
        try:
            self.checkers.watch(committed)
        except AssertionError as error:
            self._end(error)
            raise


async def _raise(error: AssertionError) -> None:
    raise error

"""Peers: has nodes that report probe those that are silent."""

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heappop, heappush

import msgspec

from navarch.core.health import HEARTBEAT
from navarch.core.ids import CommandId, NodeId
from navarch.core.node import Node
from navarch.core.recovery import Command, CommandKind
from navarch.core.witness import PeerProbes, Reach
from navarch.fleet.disruption.governor.attributes import Attribute, attributes_of
from navarch.fleet.peers import (
    NAME,
    Peers,
    Probe,
    ProbeResult,
    address_of,
    can_probe,
    judge,
    unexplained_silences,
    with_patience,
)
from navarch.fleet.silence import heartbeat_condition
from navarch.fleet.witnesses import PROOF_AFTER
from navarch.ports.agents import Liveness
from navarch.ports.clock import Clock, Entropy
from navarch.ports.store import Store
from navarch.ports.witness import Observation
from navarch.state.index import Index

PEERS_KEPT = timedelta(seconds=5)
"""How long the list of nodes that can probe is used."""

SILENT_AFTER = timedelta(minutes=10)
"""The patience with nodes that belong to no pool."""

RESULT_CHARS_MAX = 16_384


@dataclass(slots=True)
class _Round:
    """Probes of one silent node, and the results that have arrived."""

    probes: Sequence[Probe]
    ends_at: datetime
    results: dict[NodeId, ProbeResult] = field(default_factory=dict)

    def is_over(self, now: datetime) -> bool:
        return now >= self.ends_at or len(self.results) == len(self.probes)


@dataclass(slots=True)
class _Watch:
    """What is known about one silence of one node."""

    since: datetime
    round: _Round | None = None
    observed: Observation | None = None
    judged_at: datetime | None = None

    def is_over(self, now: datetime) -> bool:
        """Return whether a round was begun and is over."""
        return self.round is not None and self.round.is_over(now)


@dataclass(slots=True)
class _Order:
    """A command that has been issued, and the probes that it asks for."""

    command: Command
    probes: Sequence[Probe]
    is_over: bool = False


class PeerWitness:
    """Has nodes that report connect to silent ones, by commands to their agents.

    Nothing is stored. A command or a result that is lost costs one round, and a restart begins
    anew. Agents receive commands with their heartbeats, so that a round takes about an interval.
    """

    name = NAME

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        store: Store,
        index: Index,
        liveness: Liveness,
        *,
        settings: Callable[[], PeerProbes],
        heartbeat_interval: Callable[[], timedelta],
        on_issue: Callable[[NodeId], None] = lambda _: None,
    ) -> None:
        """`on_issue` is called with each node for which there is a new command."""
        self._clock = clock
        self._entropy = entropy
        self._store = store
        self._index = index
        self._liveness = liveness
        self._settings = settings
        self._heartbeat_interval = heartbeat_interval
        self._on_issue = on_issue
        self._watches: dict[NodeId, _Watch] = {}
        self._orders: dict[CommandId, _Order] = {}
        self._expiring: list[tuple[datetime, CommandId]] = []
        """A heap of when each order expires."""
        self._load = Counter[NodeId]()
        """How many targets each node has in orders that are not over."""
        self._pending: dict[NodeId, dict[CommandId, Command]] = {}
        self._unresponsive: set[NodeId] = set()
        """Nodes that have returned no result of their last command."""
        self._peers: Peers | None = None
        self._peers_at = clock.now()
        self._known: Mapping[NodeId, Node] | None = None
        """The nodes of the fleet when those that report again were last forgotten."""

    # As agents see it

    def pending(self, node: NodeId) -> Sequence[Command]:
        """Return the commands that `node` has not carried out yet."""
        commands = self._pending.get(node)
        return () if commands is None else list(commands.values())

    def finish(self, node: NodeId, command: CommandId, *, succeeded: bool, result: str) -> bool:
        """Record the result of a command; return whether it was issued here, for this node."""
        order = self._orders.get(command)
        if order is None or order.command.node != node:
            return False
        if order.is_over:
            return True  # Reported twice: the first result stands.
        self._close(order)
        self._unresponsive.discard(node)
        found = _read(result) if succeeded else {}
        for probe in order.probes:
            watch = self._watches.get(probe.target)
            if watch is None or watch.round is None or probe not in watch.round.probes:
                continue
            watch.round.results[node] = ProbeResult(
                probe=probe,
                target=found.get(probe.address, Reach.FAILED),
                control=found.get(probe.control, Reach.FAILED) if probe.control else Reach.FAILED,
            )
        return True

    # As the controller of witnesses sees it

    async def observe(self, nodes: Sequence[Node]) -> Mapping[NodeId, Observation]:
        """Return what the last round showed about each silent node, and begin the next one."""
        settings, now = self._settings(), self._clock.now()
        self._forget(now)
        if not settings.enabled:
            return {}
        over = [node for node in nodes if self._watch(node, now).is_over(now)]
        if over:
            silences: dict[Attribute, Set[NodeId]] = {}
            for node in over:
                watch = self._watches[node.id]
                silences |= self._silences_near(node, silences, now)
                observed = judge(node, self._results(watch), silences, port=settings.port)
                self._record(node, watch, observed, now)
        due = [node for node in nodes if self._watches[node.id].round is None]
        self._begin(due, settings, now)
        found = {node.id: self._watches[node.id].observed for node in nodes}
        return {name: each for name, each in found.items() if each is not None}

    def _watch(self, node: Node, now: datetime) -> _Watch:
        silence = heartbeat_condition(node)
        since = now if silence is None else silence.since
        watch = self._watches.get(node.id)
        if watch is None or watch.since != since:
            watch = self._watches[node.id] = _Watch(since)
        return watch

    def _silences_near(
        self, node: Node, known: Container[Attribute], now: datetime
    ) -> dict[Attribute, Set[NodeId]]:
        """Return the nodes that fell silent for no known reason, by the places of `node`.

        Places that are `known` already are left out.
        """
        domains = self._index.domains
        showing = domains.showing.get(HEARTBEAT, {})
        return {
            place: unexplained_silences(domains.stopped[place].values(), showing, now=now)
            for place in attributes_of(node)
            if place in domains.stopped and place not in known
        }

    def _results(self, watch: _Watch) -> Sequence[ProbeResult]:
        """Return the results of a round from nodes that still report."""
        assert watch.round is not None
        nodes, silent_since = self._store.fleet().nodes, self._liveness.silent_since
        return [
            result
            for name, result in watch.round.results.items()
            if name in nodes and can_probe(nodes[name]) and silent_since(name) is None
        ]

    def _record(self, node: Node, watch: _Watch, observed: Observation, now: datetime) -> None:
        pool = None if node.pool is None else self._store.fleet().pools.get(node.pool)
        patience = max(PROOF_AFTER, SILENT_AFTER if pool is None else pool.silent_after)
        before = next((each for each in node.testimonies if each.witness == NAME), None)
        # After a pause, rounds are missing between this one and the one before.
        if watch.judged_at is None or now > watch.judged_at + 2 * self._round_takes():
            before = None
        watch.observed = with_patience(observed, before, patience=patience, now=now)
        watch.judged_at, watch.round = now, None

    def _begin(self, nodes: Sequence[Node], settings: PeerProbes, now: datetime) -> None:
        """Begin a round for each node that other nodes can probe."""
        if not nodes:
            return
        probes = self._find_peers(now).plan(nodes, self._load, self._unresponsive)
        ends_at = now + self._round_takes()
        by_target: dict[NodeId, list[Probe]] = {}
        by_peer: dict[NodeId, list[Probe]] = {}
        for probe in probes:
            by_target.setdefault(probe.target, []).append(probe)
            by_peer.setdefault(probe.peer, []).append(probe)
        for node in nodes:
            watch = self._watches[node.id]
            if node.id in by_target:
                watch.round = _Round(by_target[node.id], ends_at)
            else:
                watch.observed = None
        for peer, tasks in by_peer.items():
            self._issue(peer, tasks, settings, now, ends_at)

    def _issue(
        self,
        peer: NodeId,
        probes: Sequence[Probe],
        settings: PeerProbes,
        now: datetime,
        ends_at: datetime,
    ) -> None:
        addresses = {each: None for x in probes for each in (x.address, x.control) if each}
        command = Command(
            id=CommandId(self._entropy.new_id("probe")),
            node=peer,
            kind=CommandKind.PROBE,
            issued_at=now,
            expires_at=ends_at,
            parameters={
                "addresses": " ".join(addresses),
                "port": str(settings.port),
                "within_s": f"{settings.within.total_seconds():g}",
            },
        )
        self._orders[command.id] = _Order(command, probes)
        heappush(self._expiring, (ends_at, command.id))
        self._load[peer] += len(probes)
        self._pending.setdefault(peer, {})[command.id] = command
        self._on_issue(peer)

    def _find_peers(self, now: datetime) -> Peers:
        if self._peers is not None and self._peers_at <= now < self._peers_at + PEERS_KEPT:
            return self._peers
        nodes = [node for node in self._store.fleet().nodes.values() if not node.gone]
        silent = self._liveness.silent()
        reporting = [
            node
            for node in nodes
            if can_probe(node) and node.id not in silent and self._liveness.has_reported(node.id)
        ]
        # Without peers, nothing is probed.
        addresses = Counter(address_of(node) for node in nodes if reporting)
        self._peers = Peers(reporting, self._index.domains.attributes, addresses)
        self._peers_at = now
        return self._peers

    def _round_takes(self) -> timedelta:
        """Return how long results are waited for: two heartbeats, of which one may be lost."""
        return 2 * self._heartbeat_interval() + timedelta(seconds=15)

    def _forget(self, now: datetime) -> None:
        """Drop what has expired, and nodes that are no longer silent."""
        while self._expiring and self._expiring[0][0] <= now:
            order = self._orders.pop(heappop(self._expiring)[1])
            if not order.is_over:
                self._unresponsive.add(order.command.node)
                self._close(order)
        fleet = self._store.fleet().nodes
        if fleet is self._known:
            return
        self._known = fleet
        for name in [name for name in self._watches if not _is_silent(fleet.get(name))]:
            del self._watches[name]
        self._unresponsive = {name for name in self._unresponsive if name in fleet}

    def _close(self, order: _Order) -> None:
        """Deliver a command no more."""
        order.is_over = True
        self._load[order.command.node] -= len(order.probes)
        commands = self._pending[order.command.node]
        del commands[order.command.id]
        if not commands:
            del self._pending[order.command.node]


def _is_silent(node: Node | None) -> bool:
    return node is not None and not node.gone and heartbeat_condition(node) is not None


def _read(result: str) -> Mapping[str, Reach]:
    """Return the results by address; none if an agent has sent anything else."""
    if len(result) > RESULT_CHARS_MAX:
        return {}
    try:
        return msgspec.json.decode(result, type=dict[str, Reach])
    except (msgspec.DecodeError, RecursionError):
        return {}

"""Witnesses: queries other sources than their agents about nodes that are silent."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Protocol

from navarch.control.providers.guard import GuardedProvider
from navarch.control.runtime.controller import Controller, retried
from navarch.control.runtime.extensions import Extension, ExtensionGuard, ExtensionKind
from navarch.control.runtime.operations import OperationRunner
from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.dead_man import is_idle
from navarch.core.errors import ExtensionFailedError
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import InstanceId, NodeId
from navarch.core.instance import InstanceCheck, NodeMetrics
from navarch.core.node import Node
from navarch.core.records import evolve
from navarch.core.witness import Testimony
from navarch.fleet.dead_man import expected_of
from navarch.fleet.witnesses import is_silent, observation_of, testify, with_testimony
from navarch.ports.agents import Liveness
from navarch.ports.clock import Clock
from navarch.ports.notifier import ReportsNodes
from navarch.ports.store import Committed, Store
from navarch.ports.witness import Observation, Witness

QUERY_EVERY = timedelta(seconds=30)
"""How often witnesses are queried about a node while it is silent."""

AT_ONCE = 100
"""How many nodes one call is about."""

CALLS_MAX = 8
"""How many calls to one witness may be in flight at once."""

ANSWER_WITHIN = timedelta(seconds=60)


class WitnessController(Controller):
    """Keeps what witnesses report about silent nodes on those nodes.

    Each witness is queried by an operation of its own, so that one that hangs delays no other. A
    witness that fails has no testimony: an earlier one may no longer be true. The testimonies are
    removed by the commit that ends the silence.
    """

    name = "witnesses"
    queue: WorkQueue[NodeId]

    def __init__(
        self,
        clock: Clock,
        store: Store,
        liveness: Liveness,
        operations: OperationRunner,
        witnesses: Iterable[Witness],
        *,
        guard: ExtensionGuard | None = None,
    ) -> None:
        nodes = store.fleet().nodes.values()
        super().__init__(clock, store, [node.id for node in nodes if is_silent(node)])
        self._liveness = liveness
        self._operations = operations
        self._due: dict[str, dict[NodeId, None]] = {}
        """The nodes about which each witness is yet to be queried."""
        self._witnesses = tuple(witnesses)
        self._guard = guard or ExtensionGuard(clock.now)

    def on_commit(self, committed: Committed) -> None:
        """Queue the nodes that have become silent."""
        for before, node in committed.moved:
            if not is_silent(node):
                self.queue.drop_date(node.id)
            elif before is None or not is_silent(before):
                self.queue.add(node.id)

    async def reconcile(self, keys: Sequence[NodeId]) -> None:
        """Query every witness about the nodes that are still silent."""
        fleet, now = self._store.fleet(), self._clock.now()
        silent = [name for name in keys if name in fleet.nodes and is_silent(fleet.nodes[name])]
        for name in silent:
            self.queue.add_at(name, now + QUERY_EVERY)
        for witness in self._witnesses:
            self._due.setdefault(witness.name, {}).update(dict.fromkeys(silent))
            self._query(witness)

    def _query(self, witness: Witness) -> None:
        """Query a witness, or do so once its present query has ended."""
        names, key = self._due[witness.name], f"witness/{witness.name}"
        if names and not self._operations.busy(key):
            self._due[witness.name] = {}
            operation = partial(self._query_about, witness, names)
            self._operations.send(key, operation, then=partial(self._query, witness), system=key)

    async def _query_about(self, witness: Witness, names: Iterable[NodeId]) -> None:
        fleet, calls = self._store.fleet(), asyncio.Semaphore(CALLS_MAX)
        nodes = [fleet.nodes[name] for name in names if name in fleet.nodes]
        # One query covers the nodes of a place.
        nodes.sort(key=lambda node: (node.place.region if node.place else "", node.id))

        async def observe(some: Sequence[Node]) -> None:
            async with calls:
                found = await self._observe(witness, some)
            await self._record(witness.name, some, found)

        starts = range(0, len(nodes), AT_ONCE)
        await asyncio.gather(*(observe(nodes[first : first + AT_ONCE]) for first in starts))

    async def _observe(
        self, witness: Witness, nodes: Sequence[Node]
    ) -> Mapping[NodeId, Observation]:
        """Return what a witness observes: nothing if it fails."""

        async def observe() -> Mapping[NodeId, Observation]:
            found: object = await witness.observe(nodes)
            if not isinstance(found, Mapping) or not all(map(_is_observation, found.values())):
                raise TypeError(f"{found!r} is no mapping of nodes to observations")
            return found

        subject = about("witness", witness.name)
        extension = Extension(kind=ExtensionKind.WITNESS, name=witness.name, subject=subject)
        try:
            return await self._guard.wait_for(extension, witness, observe, within=ANSWER_WITHIN)
        except ExtensionFailedError:
            return {}

    @retried
    async def _record(
        self, witness: str, queried: Sequence[Node], found: Mapping[NodeId, Observation]
    ) -> None:
        """Commit the testimonies that have changed."""
        fleet, now = self._store.fleet(), self._clock.now()
        nodes: list[Node] = []
        events: list[Event] = []
        for name in (node.id for node in queried):
            node = fleet.nodes.get(name)
            if node is None or not is_silent(node):
                continue  # It has reported meanwhile.
            before = next((x for x in node.testimonies if x.witness == witness), None)
            testimony = None
            if name in found:
                has_reported = self._liveness.has_reported(name)
                last_report = self._liveness.last_heartbeat(name) if has_reported else None
                testimony = testify(
                    witness, found[name], before=before, last_report=last_report, now=now
                )
            if testimony != before:
                nodes.append(evolve(node, testimonies=with_testimony(node, witness, testimony)))
                reason = _in_words(witness, testimony)
                kind, facts = "node.testimony", {"witness": witness}
                events.append(
                    Event(at=now, about=about("node", name), kind=kind, reason=reason, facts=facts)
                )
        if nodes:
            await self._store.commit(Change(nodes=nodes, events=events), based_on=fleet.revision)


def _is_observation(found: object) -> bool:
    return isinstance(found, Observation) and isinstance(found.alive, bool | None)


def _in_words(witness: str, testimony: Testimony | None) -> str:
    if testimony is None:
        return f"{witness}: no testimony any more"
    meaning = {True: "the machine works", False: "the machine is dead", None: "no proof"}
    return f"{witness}: {meaning[testimony.alive]}: {testimony.reason}"


class ProviderWitness:
    """A provider that reports the state and the status checks of its machines."""

    def __init__(self, provider: GuardedProvider) -> None:
        assert provider.checks_instances, provider.name
        self.name = f"provider/{provider.name}"
        self._provider = provider

    async def observe(self, nodes: Sequence[Node]) -> Mapping[NodeId, Observation]:
        """Return what the provider reports about its own machines among `nodes`."""
        machines: dict[InstanceId, NodeId] = {}
        for node in nodes:
            if node.instance is not None and node.provider == self._provider.name:
                machines[node.instance] = node.id
        if not machines:
            return {}
        checks: Mapping[InstanceId, InstanceCheck]
        checks = await self._provider.instance_checks(list(machines))
        return {
            machines[name]: observation_of(check)
            for name, check in checks.items()
            if name in machines
        }


class WorkloadWitness:
    """A workload system that observes the nodes on which it runs work."""

    def __init__(self, name: str, workloads: ReportsNodes) -> None:
        self.name = f"workloads/{name}"
        self._workloads = workloads

    async def observe(self, nodes: Sequence[Node]) -> Mapping[NodeId, Observation]:
        """Return which nodes the workload system has received reports from.

        That it has received none proves nothing: its agent is cut off by the same network.
        """
        answers = await asyncio.gather(*(self._workloads.node_alive(node.id) for node in nodes))
        says = {
            True: Observation(alive=True, reason="the node reports to the workload system"),
            False: Observation(alive=None, reason="the node does not report there either"),
        }
        pairs = zip(nodes, answers, strict=True)
        return {node.id: says[alive] for node, alive in pairs if alive is not None}


class LastReadings(Liveness, Protocol):
    """The heartbeats of all nodes, with their last readings."""

    def metrics(self, node: NodeId) -> NodeMetrics | None:
        """Return the last readings of `node`."""
        ...


class DeadManWitness:
    """The leases after which idle machines without a control plane shut themselves down."""

    name = "dead_man"

    def __init__(self, clock: Clock, store: Store, liveness: LastReadings) -> None:
        self._clock = clock
        self._store = store
        self._liveness = liveness

    async def observe(self, nodes: Sequence[Node]) -> Mapping[NodeId, Observation]:
        """Return what is to be expected of the nodes that had no work when they fell silent.

        Time in which this process did not run does not count.
        """
        now, found = self._clock.now(), dict[NodeId, Observation]()
        leased = [node for node in nodes if node.dead_man_s]
        jobs = self._store.fleet().jobs.values() if leased else ()
        busy = {name for job in jobs if not job.over for name in job.nodes}
        for node in leased:
            readings, since = self._liveness.metrics(node.id), self._liveness.silent_since(node.id)
            if since is None or readings is None or not is_idle(readings) or node.id in busy:
                continue
            expected = expected_of(node, alone_since=since, now=now)
            if expected is not None:
                found[node.id] = expected
        return found

"""Whoever has followed a store knows what somebody knows who begins with it as it is now.

Those who listen pass over whatever they take to be none of their business. Here little changes at a
time, and every fact does sometimes: what somebody passes over wrongly is missing in its memory.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from navarch.control.drains import DrainWatch
from navarch.control.heartbeats import HeartbeatReconciler
from navarch.control.observation import ObservationReconciler
from navarch.control.operations import OperationRunner
from navarch.control.pending_observations import PendingObservations
from navarch.control.pool_indexes import PoolIndexes
from navarch.control.providers import GuardedProvider
from navarch.control.stockouts import StockoutMemory
from navarch.core.event import Event, about
from navarch.core.evolve import evolve
from navarch.core.fleet import Change
from navarch.core.gang import Gang
from navarch.core.health import HEARTBEAT, Condition, Health
from navarch.core.held import Deferred, DeferredBy
from navarch.core.ids import IncidentId, InstanceId, NodeId, PoolName, RecoveryId
from navarch.core.incident import Incident, IncidentKind, IncidentState, Symptom
from navarch.core.node import Node, NotifiedState, Phase, Retirement, node_status
from navarch.core.ownership import Cluster
from navarch.core.records import record_fields
from navarch.core.topology import Topology
from navarch.core.trait import Trait
from navarch.ports.store import Store
from navarch.providers.simulated import Habits, SimulatedCloud
from navarch.service.agents import AgentService
from navarch.service.seen_symptoms import SeenSymptoms as Known
from navarch.service.weighing import OpenIncidents
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.sim.runner.node_counts import NodeCounter
from navarch.sim.world.claims import Claims
from navarch.sim.world.workloads import SimWorkloads
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import H100, NOW, a_node, a_pool

NAMES = [NodeId("training-0"), NodeId("training-1"), NodeId("alone")]
LATER = NOW + timedelta(minutes=1)
RESERVED = evolve(H100, reservation="r-1")


def a_fault(check: str, health: Health) -> Condition:
    return Condition(check=check, health=health, reason="x", since=NOW)


FACTS: dict[str, list[object]] = {
    "phase": list(Phase),
    "since": [NOW, LATER],
    "launch": ["none", "open", "sold", "sold again", "refused", "reserved"],
    "retiring": [None, Retirement(reason="x"), Retirement(reason="x", surplus=True)],
    "conditions": [(), (a_fault(HEARTBEAT, Health.UNHEALTHY),), (a_fault("gpu", Health.DEGRADED),)],
    "registered_at": [None, NOW],
    "health": list(Health),
    "cordoned": [None, "by hand"],
    "told": list(NotifiedState),
    "waiting": [False, True],
    "gang": [None, Gang(id="g", nodes=2, offering=H100)],
    "replaces": [None, NAMES[0]],
    "offering": [None, H100],
    "acted_at": [None, NOW],
    "attempts": [0, 1],
    "boot_id": ["", "b"],
    "booted_at": [None, NOW],
    "gpus": [None, 8],
    "held": [
        None,
        Deferred(action="replace", reason="r", because="b", by=DeferredBy.BUDGET, since=NOW),
    ],
    "labels": [{}, {"rack": "r1"}],
    "machine": ["", "key"],
    "recovery": [None, RecoveryId("r-1")],
    "report_number": [0, 1],
    "report_stream": ["", "s"],
    "retry_at": [None, NOW],
    "topology": [None, Topology(rack="r")],
    "traits": [{}, {"driver": Trait(value="550", since=NOW)}],
    "vouched_boot": ["", "b"],
}
NEVER_CHANGED = {"id", "pool", "created_at"}

OFTEN = ("phase", "launch", "retiring", "conditions")
"""What most of those who listen look at."""

facts = st.sampled_from(
    [(fact, value) for fact in (*FACTS, *OFTEN * 8) for value in FACTS[fact]],
)
moves = st.tuples(st.sampled_from(NAMES), st.lists(facts, min_size=1, max_size=2))


@st.composite
def incidents(draw: st.DrawFn) -> Incident:
    """Return an incident, of its own node and check, that has gone on or is over."""
    number = draw(st.integers(0, 2))
    node, check = NAMES[number], f"gpu/{number}"
    last_at = draw(st.sampled_from([NOW, LATER]))
    is_over = draw(st.booleans())
    return Incident(
        id=IncidentId(f"i-{number}"),
        kind=IncidentKind.HARDWARE,
        node=node,
        nodes=(node,),
        opened_at=NOW,
        last_at=last_at,
        title="x",
        check=check,
        state=IncidentState.RESOLVED if is_over else IncidentState.OPEN,
        closed_at=NOW if is_over else None,
        symptoms=(Symptom(check=check, reason="x", node=node, first_at=NOW, last_at=last_at),),
    )


steps = st.one_of(
    moves, moves, moves, incidents(), st.sampled_from(NAMES), st.sampled_from([IncidentId("i-0")])
)
"""A node moves; an incident is written; what is gone, or over, is forgotten."""


def test_every_fact_about_a_node_changes_here() -> None:
    assert {each.name for each in record_fields(Node)} == {*FACTS, *NEVER_CHANGED}


@given(st.lists(steps, min_size=30, max_size=50))
def test_who_has_followed_knows_what_one_knows_who_begins(
    history: list[tuple[NodeId, list[tuple[str, object]]] | Incident | NodeId | IncidentId],
) -> None:
    async def story() -> None:
        async with asyncio.TaskGroup() as tasks:
            store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
            await store.commit(Change(pools=[a_pool()]), based_on=0)
            made = memories(store, tasks)
            census = NodeCounter()
            store.subscribe(census.watch)
            for number, step in enumerate(history, start=1):
                change = _change(store, step)
                await store.commit(change, based_on=store.fleet().revision)
                if number % 5 == 0:
                    begun = memories(store, tasks)
                    assert {name: read() for name, read in made.items()} == {
                        name: read() for name, read in begun.items()
                    }
            nodes = [node for node in store.fleet().nodes.values() if not node.gone]
            words = [str(status) for node in nodes if (status := node_status(node)) is not None]
            assert +census.by_status == Counter(words)
            degraded = [x for x in nodes if x.registered_at and x.health is Health.DEGRADED]
            assert census.degraded == len(degraded)

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(story())


def memories(store: Store, tasks: asyncio.TaskGroup) -> dict[str, Callable[[], object]]:
    """Return what each of those who listen remembers of the store."""
    clock, entropy = SimClock(), SeededEntropy("1")
    errands = OperationRunner(clock, entropy, tasks, done=lambda: None, strict=True)
    columns = TelemetryTable(clock, timeout=timedelta(seconds=90))
    cloud = SimulatedCloud(clock, entropy, Habits())
    stockouts = StockoutMemory(clock, store)
    drains = DrainWatch(clock, store, SimWorkloads(clock, entropy), errands, PoolIndexes(store))
    heartbeats = HeartbeatReconciler(clock, store, columns)
    evidence = PendingObservations(started_at=clock.now())
    observation = ObservationReconciler(
        clock, store, GuardedProvider(cloud), columns, errands, evidence
    )
    agents = AgentService(clock, store, columns)
    claims, known, open_incidents = Claims(store), Known(store), OpenIncidents(store)
    return {
        "launches under way": lambda: dict(stockouts._under_way),
        "reserved": lambda: dict(stockouts._reserved),
        "about to leave": lambda: {pool: {*x} for pool, x in drains._leaving.items()},
        "held to be silent": lambda: {*heartbeats._marked},
        "awaited": lambda: {*observation._awaited},
        "whose machine is which": lambda: dict(agents._on_machine),
        "claims": lambda: {machine: {*x} for machine, x in claims._nodes.items()},
        "told of before": lambda: {node: {*x} for node, x in known._events.items()},
        "open incidents": lambda: {node: {*x} for node, x in open_incidents._by_node.items()},
    }


def _change(
    store: Store, step: tuple[NodeId, list[tuple[str, object]]] | Incident | NodeId | IncidentId
) -> Change:
    event = Event(at=NOW, about=about("test", "x"), kind="test", reason="x")
    fleet = store.fleet()
    if isinstance(step, Incident):
        return Change(incidents=[step], events=[event])
    if isinstance(step, tuple):
        name, news = step
        known = fleet.nodes.get(name) or _newcomer(name)
        changed = {
            fact: _launch(name, value) if fact == "launch" else value for fact, value in news
        }
        return Change(nodes=[evolve(known, **changed)], events=[event])  # type: ignore[arg-type]
    if step in NAMES:
        gone = [NodeId(step)] if step in fleet.nodes and fleet.nodes[NodeId(step)].gone else []
        return Change(forget_nodes=gone, events=[event])
    incident = fleet.incidents.get(IncidentId(step))
    over = [incident.id] if incident is not None and not incident.is_open else []
    return Change(forget_incidents=over, events=[event])


def _newcomer(name: NodeId) -> Node:
    return evolve(a_node(name), pool=None if name == "alone" else PoolName("training"))


def _launch(name: NodeId, value: object) -> object:
    """Return a launch for a node: its machine has a name that no other has."""
    launch = a_node(name, phase=Phase.REQUESTED).launch
    assert launch is not None
    sold = evolve(launch, instance=InstanceId(f"i-{name}"))
    return {
        "none": None,
        "open": launch,
        "sold": sold,
        "sold again": evolve(sold, instance=InstanceId(f"j-{name}")),
        "refused": evolve(launch, refused="no"),
        "reserved": evolve(sold, offering=RESERVED),
    }[str(value)]

"""An index that is advanced commit by commit equals the index of the fleet after those commits."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from navarch.core.disruption import Deferred, DeferredBy
from navarch.core.fleet import Change, Fleet, apply
from navarch.core.health import HEARTBEAT, Condition, Health
from navarch.core.ids import (
    CommandId,
    IncidentId,
    InstanceId,
    JobName,
    NodeId,
    PoolName,
    RecoveryId,
)
from navarch.core.incident import Incident, IncidentKind, Symptom
from navarch.core.job import Job, JobState, Reservation
from navarch.core.node import DRIVER, Node, Phase, Retirement, Silence, Trait
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.core.recovery import (
    Command,
    CommandKind,
    CommandStatus,
    Recovery,
    RecoveryState,
    RecoveryStep,
)
from navarch.fleet.jobs.placement import lost_jobs, plan_jobs
from navarch.fleet.jobs.scheduling import Scheduling
from navarch.fleet.jobs.swaps import SWAPPED
from navarch.health.learning.stragglers import STRAGGLER
from navarch.state.index import Index
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import NOW, a_job, a_node, a_pool, indexed

POOLS = [PoolName("training"), PoolName("serving")]
NAMES = [NodeId(f"{pool}-{number}") for pool in POOLS for number in range(3)]
LONER = NodeId("loner")
"""A node that registered by itself: it has no pool."""
NODES = [*NAMES, LONER]
MACHINES = [InstanceId(f"i-{number}") for number in range(4)]
MOMENTS = [NOW - timedelta(minutes=minutes) for minutes in (90, 30, 5, 0)]
CHECKS = ["xid/79/GPU-0", "thermal/GPU-1", HEARTBEAT, f"{STRAGGLER}/GPU-0"]
JOBS = [JobName(f"j-{number}") for number in range(4)]
DOMAINS = ["", "nv-1", "nv-2"]
HELD = Deferred(action="replace", reason="x", because="y", by=DeferredBy.BUDGET, since=NOW)

moments = st.sampled_from(MOMENTS)
node_names = st.sampled_from(NODES)
conditions = st.builds(
    Condition,
    check=st.sampled_from(CHECKS),
    health=st.sampled_from([Health.UNHEALTHY, Health.DEGRADED]),
    reason=st.just("x"),
    since=moments,
    facts=st.sampled_from([{}, {"shortfall_pct": "12"}]),
)


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    name = draw(node_names)
    phase = draw(st.sampled_from([*Phase, Phase.READY, Phase.READY]))
    found = draw(st.lists(conditions, max_size=2, unique_by=lambda each: each.check))
    unwell = any(each.health is Health.UNHEALTHY for each in found)
    leaving = phase in (Phase.TERMINATING, Phase.GONE) or draw(st.booleans())
    node = a_node(
        name,
        pool=name.partition("-")[0],
        phase=phase,
        since=draw(moments),
        health=Health.UNHEALTHY if unwell else draw(st.sampled_from(Health)),
        conditions=tuple(found),
        retiring=Retirement(reason="x", surplus=draw(st.booleans())) if leaving else None,
        replaces=draw(st.sampled_from([None, *NAMES])),
        registered_at=draw(st.sampled_from([None, *MOMENTS])),
        cordoned=draw(st.sampled_from([None, "by hand", f"{SWAPPED}slow"])),
        labels=draw(st.sampled_from([{}, {"rack": "r1"}, {"rack": "r2", "nvlink_domain": "nv-1"}])),
        traits=draw(traits()),
        past_silences=draw(st.sampled_from([(), (Silence(since=MOMENTS[0], until=NOW),)])),
        recovery=draw(st.sampled_from([None, RecoveryId("r-0")])),
        acted_at=draw(st.sampled_from([None, *MOMENTS])),
        held=draw(st.sampled_from([None, HELD])),
    )
    if name == LONER:
        return evolve(node, pool=None, launch=None)
    if node.launch is None or node.instance is None:
        return node
    machine = draw(st.sampled_from(MACHINES))
    return evolve(node, launch=evolve(node.launch, instance=machine))


@st.composite
def traits(draw: st.DrawFn) -> Mapping[str, Trait]:
    if draw(st.booleans()):
        return {}
    trait = Trait(value=draw(st.sampled_from(["550", "570"])), since=draw(moments))
    for _ in range(draw(st.integers(0, 3))):
        value = draw(st.sampled_from(["550", "570", "580"]))
        trait = trait.followed_by(value, at=max(trait.since, draw(moments)))
    return {DRIVER: trait}


symptoms = st.builds(
    Symptom,
    check=st.sampled_from(CHECKS),
    reason=st.just("x"),
    node=node_names,
    first_at=st.just(MOMENTS[0]),
    last_at=moments,
)


@st.composite
def incidents(draw: st.DrawFn) -> Incident:
    return Incident(
        id=IncidentId(f"i-{draw(st.integers(0, 4))}"),
        kind=draw(st.sampled_from([IncidentKind.HARDWARE, IncidentKind.FABRIC])),
        node=draw(node_names),
        nodes=tuple(draw(st.lists(node_names, max_size=3, unique=True))),
        domain=draw(st.sampled_from(DOMAINS)),
        opened_at=MOMENTS[0],
        last_at=draw(moments),
        title="x",
        check=CHECKS[0],
        symptoms=tuple(draw(st.lists(symptoms, max_size=3))),
        closed_at=draw(st.sampled_from([None, None, NOW])),
    )


@st.composite
def commands(draw: st.DrawFn) -> Command:
    number = draw(st.integers(0, 6))
    return Command(
        id=CommandId(f"c-{number}"),
        node=NODES[number % len(NODES)],
        kind=CommandKind.DRAIN,
        issued_at=MOMENTS[0],
        expires_at=NOW,
        status=draw(st.sampled_from(CommandStatus)),
    )


@st.composite
def recoveries(draw: st.DrawFn) -> Recovery:
    number = draw(st.integers(0, len(NODES) - 1))
    return Recovery(
        id=RecoveryId(f"r-{number}"),
        node=NODES[number],
        check=CHECKS[0],
        cause="x",
        boot_id="b",
        step=RecoveryStep.REBOOT,
        state=draw(st.sampled_from(RecoveryState)),
        since=MOMENTS[0],
        begun_at=MOMENTS[0],
    )


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    job = a_job(
        draw(st.sampled_from(JOBS)),
        on=tuple(draw(st.lists(node_names, max_size=2))),
        preemptible=draw(st.booleans()),
        checkpointed_at=draw(st.sampled_from([None, NOW])),
    )
    place = tuple(draw(st.lists(node_names, min_size=1, max_size=2, unique=True)))
    until = st.sampled_from([NOW, NOW + timedelta(minutes=10)])
    reservations = st.builds(Reservation, nodes=st.just(place), until=until)
    job = evolve(job, reservation=draw(st.one_of(st.none(), reservations)))
    if job.nodes:
        return job
    state = draw(st.sampled_from([JobState.WAITING, JobState.FINISHED]))
    return evolve(
        job, state=state, reservation=None if state is JobState.FINISHED else job.reservation
    )


@st.composite
def changes(draw: st.DrawFn) -> Change:
    """Return a change; what it may forget is decided when it is committed."""
    return Change(
        nodes=draw(st.lists(nodes(), max_size=3, unique_by=lambda node: node.id)),
        incidents=draw(st.lists(incidents(), max_size=2, unique_by=lambda each: each.id)),
        commands=draw(st.lists(commands(), max_size=2, unique_by=lambda each: each.id)),
        recoveries=draw(st.lists(recoveries(), max_size=2, unique_by=lambda each: each.id)),
        jobs=draw(st.lists(jobs(), max_size=2, unique_by=lambda job: job.name)),
        forget_jobs=draw(st.lists(st.sampled_from(JOBS), max_size=1)),
        forget_nodes=draw(st.lists(node_names, max_size=2, unique=True)),
        forget_incidents=[IncidentId(f"i-{x}") for x in draw(st.sets(st.integers(0, 4)))],
        forget_commands=[CommandId(f"c-{x}") for x in draw(st.sets(st.integers(0, 6)))],
        forget_recoveries=[RecoveryId(f"r-{x}") for x in draw(st.sets(st.integers(0, 6)))],
    )


class History:
    """The rules of the store's callers: what is over stays over, and only that is forgotten."""

    def __init__(self) -> None:
        self._over: set[str] = set()

    def legal(self, change: Change, fleet: Fleet) -> Change:
        """Return what of `change` may follow on `fleet`."""

        def has_ended(name: str, before: Node | Command | None) -> bool:
            ended = isinstance(before, Node) and before.gone
            ended = ended or (isinstance(before, Command) and before.over)
            return ended or name in self._over

        kept = evolve(
            change,
            nodes=[x for x in change.nodes if not has_ended(x.id, fleet.nodes.get(x.id))],
            commands=[x for x in change.commands if not has_ended(x.id, fleet.commands.get(x.id))],
            incidents=[x for x in change.incidents if self._may_follow(x, fleet)],
            recoveries=[x for x in change.recoveries if x.id not in self._over],
            forget_nodes=[
                x for x in change.forget_nodes if x in fleet.nodes and fleet.nodes[x].gone
            ],
            forget_commands=[
                x for x in change.forget_commands if x in fleet.commands and fleet.commands[x].over
            ],
            forget_incidents=[
                x
                for x in change.forget_incidents
                if x in fleet.incidents and not fleet.incidents[x].is_open
            ],
            forget_recoveries=[
                x
                for x in change.forget_recoveries
                if x in fleet.recoveries and fleet.recoveries[x].over
            ],
        )
        forgotten = {*kept.forget_nodes, *kept.forget_commands, *kept.forget_incidents}
        forgotten |= {*kept.forget_recoveries}
        self._over |= forgotten
        return evolve(
            kept,
            incidents=[x for x in kept.incidents if x.id not in forgotten],
            recoveries=[x for x in kept.recoveries if x.id not in forgotten],
        )

    def _may_follow(self, incident: Incident, fleet: Fleet) -> bool:
        """Return whether `incident` is new or grows: nodes are added to it, and none removed."""
        before = fleet.incidents.get(incident.id)
        if incident.id in self._over:
            return False
        if before is None:
            return True
        same_place = before.domain == incident.domain
        return before.is_open and same_place and {*before.nodes} <= {*incident.nodes}


def view(index: Index, fleet: Fleet) -> dict[str, Any]:
    """Return everything that the public methods of an index return about `fleet`."""
    return {
        **{f"{name}: {key}": x for name in POOLS for key, x in pool_view(index, name).items()},
        **{f"domains: {key}": x for key, x in domain_view(index).items()},
        "incidents": {name: sorted(index.incidents.on_node(name)) for name in NODES},
        "around": {
            (name, domain): sorted(x.id for x in index.incidents.around(fleet, name, [domain]))
            for name in NODES
            for domain in DOMAINS
        },
        "symptoms": {
            (name, check, at)
            for name in NODES
            for check in CHECKS
            for at in MOMENTS
            if index.symptoms.contains(name, check, at)
        },
        "commands": {name: index.commands.on_node(name) for name in NODES},
        "pending": {name: index.commands.pending(name) for name in NODES},
        "machines": {machine: index.node_of(machine) for machine in MACHINES},
        "jobs": {name: sorted(index.jobs.on_node(name)) for name in NODES},
        "reserved": sorted(index.jobs.reserved),
        "to plan": (index.jobs.is_quiet, index.jobs.is_complete),
        "waiting": sorted(index.jobs.waiting),
    }


def pool_view(index: Index, name: PoolName) -> dict[str, Any]:
    pool, settings = index.pool(name), a_pool(name, size=2, nodes_max=4)
    shown, steady = pool.shown_for(settings, NOW)
    return {"all": list(pool.nodes.values()), "shown": shown, "steady": steady}


def always(answer: bool) -> Callable[[Node], bool]:
    return lambda _: answer


def domain_view(index: Index) -> dict[str, Any]:
    domains = index.domains
    return {
        "sizes": +domains.sizes,
        "unwell": domains.unwell,
        "showing": {fault: shown for fault, shown in domains.showing.items() if shown},
        "pools": {pool: here for pool, here in domains.pools.items() if here},
        "waiting": domains.waiting,
        "silent": domains.silent,
        "stopped": {place: here for place, here in domains.stopped.items() if here},
        "exposed": +domains.exposed,
        "attributes": domains.attributes,
        "changed": domains.changed,
        "acted": {
            (since, missed): domains.acted_since(since, always(missed))
            for since in MOMENTS
            for missed in (False, True)
        },
        "expiry": domains.next_expiry(NOW, [timedelta(hours=1), timedelta(days=1)]),
    }


@given(st.lists(changes(), max_size=8))
def test_an_index_advanced_with_commits_equals_the_index_of_the_fleet(story: list[Change]) -> None:
    async def commit_all() -> None:
        store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        index, history = indexed(store), History()
        for change in story:
            fleet = store.fleet()
            await store.commit(history.legal(change, fleet), based_on=fleet.revision)
            fleet = store.fleet()
            anew = Index(fleet)
            kept, made = view(index, fleet), view(anew, fleet)
            assert [name for name, value in made.items() if kept[name] != value] == []

    asyncio.run(commit_all())


changes_of_jobs = st.builds(
    Change, jobs=st.lists(jobs(), min_size=1, max_size=2, unique_by=lambda job: job.name)
)


@given(st.lists(st.one_of(changes_of_jobs, changes()), max_size=4))
def test_a_plan_of_jobs_is_empty_while_the_index_is_quiet(story: list[Change]) -> None:
    history = History()
    sound = [a_node(name, pool=name.partition("-")[0]) for name in NAMES]
    fleet = apply(Fleet(), Change(nodes=sound))
    for change in story:
        fleet = apply(fleet, history.legal(change, fleet))
        plan = plan_jobs(fleet, Scheduling(), now=NOW)
        is_empty = plan.change.empty and plan.wake_at is None
        jobs = Index(fleet).jobs
        assert is_empty or not jobs.is_quiet
        assert not (jobs.is_complete and list(lost_jobs(fleet)))
        waiting = {job.name for job in fleet.jobs.values() if job.state is JobState.WAITING}
        assert set(jobs.waiting) == waiting


def test_a_ticket_reaches_the_index_with_its_commit() -> None:
    """An action on a node counts until it is made good; a node with a ticket is left to people."""

    async def commit_all() -> None:
        store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        index = indexed(store)
        node = a_node(NAMES[0], acted_at=MOMENTS[0], recovery=RecoveryId("r-0"))
        await store.commit(Change(nodes=[node]), based_on=0)
        assert [*index.domains.acted_since(NOW, always(answer=True))] == [node.id]
        ticket = Recovery(
            id=RecoveryId("r-0"),
            node=node.id,
            check=CHECKS[0],
            cause="x",
            boot_id="b",
            step=RecoveryStep.TICKET,
            state=RecoveryState.TICKET,
            since=NOW,
            begun_at=NOW,
        )
        await store.commit(Change(recoveries=[ticket]), based_on=1)
        assert index.domains.acted_since(NOW, always(answer=True)) == {}

    asyncio.run(commit_all())

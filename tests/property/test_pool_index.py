"""A plan made from the index of a pool is the plan made from all of its nodes."""

import itertools
from collections.abc import Iterable
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from navarch.core.disruption import Deferred, DeferredBy
from navarch.core.health import Condition, Health
from navarch.core.ids import InstanceId, NodeId, ProviderName, RecoveryId, Token
from navarch.core.instance import NoticeKind, Topology
from navarch.core.launch import Gang
from navarch.core.node import Mark, Node, NotifiedState, Phase, Retirement, Silence, Trait
from navarch.core.pool import Pool
from navarch.core.records import evolve, record_fields
from navarch.core.witness import Testimony
from navarch.fleet.disruption.replacement import look_again, plan_replacements
from navarch.fleet.drains import plan_drains, seen_by_drains
from navarch.fleet.launch_breaker import find_breaker, may_trip
from navarch.fleet.plan import Plan
from navarch.fleet.planner import plan_pool, seen_by_size, was_lost
from navarch.fleet.pool_index import NO_STEADY_NODES, PoolIndex, SteadyNodes
from navarch.testing.worlds import H100, NOW, a_node, a_pool

NAMES = [NodeId(f"training-{number}") for number in range(8)]
AGES = st.integers(0, 7200).map(lambda seconds: NOW - timedelta(seconds=seconds))


@st.composite
def conditions(draw: st.DrawFn, health: Health) -> tuple[Condition, ...]:
    if health is Health.HEALTHY and draw(st.integers(0, 3)):
        return ()
    check = "gpu" if health is Health.UNHEALTHY else NoticeKind.MAINTENANCE
    held = Health.UNHEALTHY if health is Health.UNHEALTHY else Health.DEGRADED
    return (Condition(check=check, health=held, reason="x", since=NOW),)


def replaceable(name: NodeId) -> list[NodeId | None]:
    """Return the nodes that a node may replace; chains of lost nodes are common."""
    before = NAMES[: NAMES.index(name)][-1:]
    return [None, None, None, *before * 6, *(x for x in NAMES if x != name)]


@st.composite
def retirements(draw: st.DrawFn) -> Retirement:
    failed_at = draw(st.sampled_from([None, NOW - timedelta(minutes=1), NOW]))
    return Retirement(reason="x", surplus=draw(st.booleans()), failed_at=failed_at)


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    # Ready nodes are the most common, and the ones that a plan does not see.
    phase = draw(
        st.sampled_from(
            [*Phase, *[Phase.READY] * 6, *[Phase.GONE] * 3, Phase.BOOTING, Phase.REQUESTED]
        )
    )
    leaving = phase in (Phase.TERMINATING, Phase.GONE) or not draw(st.integers(0, 4))
    health = draw(st.sampled_from([Health.HEALTHY] * 4 + [Health.UNHEALTHY, Health.UNKNOWN]))
    name = draw(st.sampled_from(NAMES))
    node = a_node(
        name,
        phase=phase,
        since=draw(AGES),
        health=health,
        conditions=draw(conditions(health)),
        retiring=draw(retirements()) if leaving else None,
        replaces=draw(st.sampled_from(replaceable(name))),
        registered_at=draw(st.sampled_from([None, *[NOW - timedelta(hours=1)] * 3])),
    )
    refused = phase is Phase.REQUESTED and draw(st.booleans())
    return evolve(node, launch=None, attempts=1, retry_at=draw(AGES)) if refused else node


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    low = draw(st.sampled_from([0, 4, *range(6, 11)]))
    return a_pool(
        size=low,
        nodes_max=max(1, low + draw(st.integers(0, 4))),
        next_index=len(NAMES),
        deleted=not draw(st.integers(0, 5)),
        scaled_at=draw(st.one_of(st.none(), AGES)),
    )


def size_plan(pool: Pool, shown: Iterable[Node], steady: SteadyNodes = NO_STEADY_NODES) -> Plan:
    known = [node for node in shown if not node.gone or was_lost(pool, node)]
    tokens = (Token(f"t-{i}") for i in itertools.count())
    replacements = plan_replacements(pool, known, for_sale=None, now=NOW)
    return plan_pool(
        pool, known, now=NOW, new_tokens=tokens, replacements=replacements, steady=steady
    )


def take_step(every: dict[NodeId, Node], index: PoolIndex, step: Node | NodeId) -> None:
    """Write the node of `step`, or forget the node that it names, in both."""
    if isinstance(step, Node):
        every[step.id] = step
        index.note(step)
    else:
        every.pop(step, None)
        index.drop(step)


@given(pools(), st.lists(st.one_of(nodes(), nodes(), nodes(), st.sampled_from(NAMES)), max_size=12))
def test_the_plan_of_the_index_is_the_plan_of_all_nodes(
    pool: Pool, history: list[Node | NodeId]
) -> None:
    every = {name: a_node(name) for name in NAMES}
    index = PoolIndex(every.values())
    for step in history:
        take_step(every, index, step)
    every_node = list(every.values())
    assert list(index.nodes.values()) == every_node
    shown, steady = index.shown_for(pool, NOW)
    assert size_plan(pool, shown, steady) == size_plan(pool, every_node)
    others, count = index.unsteady()
    assert plan_drains(pool, others, drained=NAMES[::2], steady=count, now=NOW) == plan_drains(
        pool, every_node, drained=NAMES[::2], now=NOW
    )
    trips = may_trip(pool, shown, now=NOW)
    assert trips == may_trip(pool, every_node, now=NOW)
    assert trips or find_breaker(pool, every_node, now=NOW) is None
    assert look_again(pool, shown, undercut=False, now=NOW) == look_again(
        pool, every_node, undercut=False, now=NOW
    )


POOL = a_pool(size=len(NAMES))
SELLERS = [evolve(H100, provider=ProviderName(name)) for name in ("sim", "other")]


@st.composite
def sold(draw: st.DrawFn) -> Node:
    node = draw(nodes())
    offering = draw(st.sampled_from(SELLERS))
    if node.launch is None or not draw(st.integers(0, 4)):
        return evolve(node, launch=None, offering=offering)
    return evolve(node, launch=evolve(node.launch, offering=offering))


@given(st.lists(st.one_of(sold(), sold(), sold(), st.sampled_from(NAMES)), max_size=16))
def test_an_index_kept_step_by_step_equals_one_built_from_the_nodes(
    history: list[Node | NodeId],
) -> None:
    every = {name: a_node(name) for name in NAMES[:2]}
    index = PoolIndex(every.values())
    for step in history:
        take_step(every, index, step)
        kept = index.shown_for(POOL, NOW)
        made = PoolIndex(every.values()).shown_for(POOL, NOW)
        assert kept == made


UNSEEN: dict[str, object] = {
    "acted_at": NOW,
    "address": "10.0.0.1",
    "dead_man_s": 600,
    "probes": True,
    "boot_id": "another",
    "booted_at": NOW,
    "gpus": 4,
    "held": Deferred(action="replace", reason="x", because="y", by=DeferredBy.BUDGET, since=NOW),
    "labels": {"rack": "r1"},
    "machine": "a key",
    "overridden_at": NOW,
    "past_silences": (Silence(since=NOW, until=NOW),),
    "mark": Mark(provider=ProviderName("sim"), instance=InstanceId("i-1")),
    "testimonies": (Testimony(witness="provider/sim", alive=None, reason="running", since=NOW),),
    "recovery": RecoveryId("r-1"),
    "refused": a_node(NAMES[0]).launch,
    "report_number": 7,
    "report_stream": "s",
    "traits": {"driver": Trait(value="1", since=NOW)},
    "vouched_boot": "another",
}
"""The fields that no plan reads, each with a value that no node has here."""

NEVER_CHANGED = {"id", "pool", "created_at"}


@given(
    pools(),
    st.lists(nodes(), max_size=8, unique_by=lambda node: node.id),
    st.sampled_from(NotifiedState),
)
def test_fields_that_no_plan_reads_change_no_plan(
    pool: Pool, before: list[Node], notified: NotifiedState
) -> None:
    after = [
        evolve(
            node,
            conditions=tuple(evolve(c, times=c.times + 1) for c in node.conditions),
            **UNSEEN,  # type: ignore[arg-type]
        )
        for node in before
    ]
    assert [*map(seen_by_drains, before)] == [*map(seen_by_drains, after)]
    drains = [plan_drains(pool, x, drained=NAMES[::2], now=NOW) for x in (before, after)]
    assert drains[0] == drains[1]
    after = [evolve(node, notified=notified) for node in after]
    assert [*map(seen_by_size, before)] == [*map(seen_by_size, after)]
    assert size_plan(pool, before) == size_plan(pool, after)


@given(
    pools(),
    st.lists(nodes(), max_size=8, unique_by=lambda node: node.id),
    st.sampled_from([phase for phase in Phase if phase is not Phase.GONE]),
    st.sampled_from(Health),
    AGES,
)
def test_the_phase_of_a_retiring_node_changes_no_size(
    pool: Pool, before: list[Node], phase: Phase, health: Health, since: datetime
) -> None:
    after = [
        evolve(node, phase=phase, since=since, health=health, conditions=(), cordoned="x")
        if node.retiring is not None and not node.gone
        else node
        for node in before
    ]
    assert [*map(seen_by_size, before)] == [*map(seen_by_size, after)]
    assert size_plan(pool, before) == size_plan(pool, after)


def test_every_field_of_a_node_is_either_read_by_plans_or_listed_as_unread() -> None:
    node = a_node(NAMES[0])
    changed = {
        "phase": Phase.DRAINING,
        "since": NOW + timedelta(days=1),
        "cordoned": "by hand",
        "health": Health.UNHEALTHY,
        "conditions": (Condition(check="gpu", health=Health.DEGRADED, reason="x", since=NOW),),
        "retiring": Retirement(reason="x"),
        "replaces": NAMES[1],
        "launch": None,
        "attempts": 3,
        "retry_at": NOW,
        "registered_at": NOW + timedelta(days=1),
        "offering": H100,
        "topology": Topology(),
        "gang": Gang(id="g", nodes=2, offering=H100),
        "waiting": True,
    }
    for name, value in changed.items():
        other = evolve(node, **{name: value})  # type: ignore[arg-type]
        assert seen_by_size(other) != seen_by_size(node), name
    names = {each.name for each in record_fields(Node)}
    assert names == {*changed, "notified", *UNSEEN, *NEVER_CHANGED}


def test_a_plan_sees_a_sound_node_together_with_its_successor() -> None:
    old, other, new = (a_node(name) for name in NAMES[:3])
    index = PoolIndex([old, other, evolve(new, replaces=old.id)])
    pool = a_pool(size=5, nodes_max=8)
    shown, steady = index.shown_for(pool, NOW)
    assert [node.id for node in shown] == [old.id, new.id]
    assert steady.nodes == 1
    index.drop(new.id)
    assert index.shown_for(pool, NOW)[0] == []


def test_a_plan_sees_every_node_when_one_exceeds_its_boot_deadline() -> None:
    booting = a_node(NAMES[0], phase=Phase.BOOTING, since=NOW - timedelta(minutes=5))
    index = PoolIndex([booting, a_node(NAMES[1])])
    pool = a_pool(size=2, nodes_max=2, boot_deadline=timedelta(minutes=10))
    _, steady = index.shown_for(pool, NOW)
    assert steady.nodes == 2
    assert steady.late_at == NOW + timedelta(minutes=5)
    shown, steady = index.shown_for(pool, NOW + timedelta(minutes=5))
    assert len(shown) == 2
    assert steady is NO_STEADY_NODES


def test_steady_nodes_are_only_counted() -> None:
    index = PoolIndex([a_node(f"training-{number}") for number in range(5)])
    shown, steady = index.shown_for(a_pool(size=6, nodes_max=6), NOW)
    assert shown == []
    assert steady.nodes == 5

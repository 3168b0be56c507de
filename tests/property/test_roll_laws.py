"""A plan made from a roll is the plan made from every node, whatever has happened before."""

import itertools
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from navarch.core.disruption import Deferred, DeferredBy
from navarch.core.fleet import Change, Fleet, apply
from navarch.core.health import Condition, Health
from navarch.core.ids import NodeId, ProviderName, RecoveryId, Token
from navarch.core.instance import NoticeKind, Topology
from navarch.core.launch import Gang
from navarch.core.node import Node, NotifiedState, Phase, Retirement, Trait
from navarch.core.pool import Pool
from navarch.core.records import evolve, record_fields
from navarch.fleet.changes import changes
from navarch.fleet.disruption.costly import may_be_undercut
from navarch.fleet.disruption.replacement import look_again, plan_replacements
from navarch.fleet.drains import plan_drains, seen_by_drains
from navarch.fleet.launch_breaker import find_breaker, may_trip
from navarch.fleet.plan import Plan
from navarch.fleet.planner import matters_to_size, plan_pool, seen_by_size, was_lost
from navarch.fleet.pool_index import NO_STEADY_NODES, PoolIndex, SteadyNodes
from navarch.testing.worlds import H100, NOW, a_node, a_pool

NAMES = [NodeId(f"training-{index}") for index in range(8)]
AGES = st.integers(0, 7200).map(lambda seconds: NOW - timedelta(seconds=seconds))


@st.composite
def conditions(draw: st.DrawFn, health: Health) -> tuple[Condition, ...]:
    if health is Health.HEALTHY and draw(st.integers(0, 3)):
        return ()
    check = "gpu" if health is Health.UNHEALTHY else NoticeKind.MAINTENANCE
    held = Health.UNHEALTHY if health is Health.UNHEALTHY else Health.DEGRADED
    return (Condition(check=check, health=held, reason="x", since=NOW),)


def replaceable(name: NodeId) -> list[NodeId | None]:
    """Return whom a node may replace; chains of those who were lost one after another are usual."""
    before = NAMES[: NAMES.index(name)][-1:]
    return [None, None, None, *before * 6, *(x for x in NAMES if x != name)]


@st.composite
def retirements(draw: st.DrawFn) -> Retirement:
    failed_at = draw(st.sampled_from([None, NOW - timedelta(minutes=1), NOW]))
    return Retirement(reason="x", surplus=draw(st.booleans()), failed_at=failed_at)


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    # Nodes at work are the usual case, and the one that a roll does not show.
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


def size_plan(pool: Pool, shown: Iterable[Node], beside: SteadyNodes) -> tuple[Plan, object]:
    known = [node for node in shown if not node.gone or was_lost(pool, node)]
    tokens = (Token(f"t-{i}") for i in itertools.count())
    replacements, again_at = None, None
    if beside is NO_STEADY_NODES or any(node.counts for node in known):
        undercut = beside is NO_STEADY_NODES and may_be_undercut(pool)
        replacements = plan_replacements(pool, known, for_sale=None, now=NOW)
        again_at = look_again(pool, known, undercut=undercut, now=NOW)
    plan = plan_pool(
        pool, known, now=NOW, new_tokens=tokens, replacements=replacements, steady=beside
    )
    return plan, again_at


def same_plan(found: tuple[Plan, object]) -> tuple[Plan, object]:
    """Return a plan without whether it is the last: who sees everybody does not rely on that."""
    plan, again = found
    return evolve(plan, settled=False, at_rest=False), again


def take_step(every: dict[NodeId, Node], roll: PoolIndex, step: Node | NodeId) -> None:
    """Let a node become what it is in `step`, or be forgotten, and the roll hear of it."""
    if isinstance(step, Node):
        every[step.id] = step
        roll.note(step)
    else:
        every.pop(step, None)
        roll.drop(step)


@given(pools(), st.lists(st.one_of(nodes(), nodes(), nodes(), st.sampled_from(NAMES)), max_size=12))
def test_a_roll_shows_all_that_matters(pool: Pool, history: list[Node | NodeId]) -> None:
    every = {name: a_node(name) for name in NAMES}
    roll = PoolIndex(every.values())
    for step in history:
        take_step(every, roll, step)
    everybody = list(every.values())
    assert roll.everybody() == everybody
    planned = size_plan(pool, *roll.shown_for(pool, NOW))
    assert same_plan(planned) == same_plan(size_plan(pool, everybody, NO_STEADY_NODES))
    braked = may_trip(pool, roll.may_have_failed(pool, NOW), now=NOW)
    assert braked or find_breaker(pool, everybody, now=NOW) is None
    beside = roll.beside().nodes
    drained = set(NAMES[::2])
    assert plan_drains(pool, roll.others(), drained=drained, now=NOW, steady=beside) == plan_drains(
        pool, everybody, drained=drained, now=NOW
    )


SELLERS = [evolve(H100, provider=ProviderName(name)) for name in ("sim", "other")]


@st.composite
def sold(draw: st.DrawFn) -> Node:
    node = draw(nodes())
    offering = draw(st.sampled_from(SELLERS))
    if node.launch is None or not draw(st.integers(0, 4)):
        return evolve(node, launch=None, offering=offering)
    return evolve(node, launch=evolve(node.launch, offering=offering))


@given(st.lists(st.one_of(sold(), sold(), sold(), st.sampled_from(NAMES)), max_size=16))
def test_a_roll_kept_step_by_step_says_what_one_made_anew_says(
    history: list[Node | NodeId],
) -> None:
    every = {name: a_node(name) for name in NAMES[:2]}
    roll = PoolIndex(every.values())
    for step in history:
        take_step(every, roll, step)
        anew = PoolIndex(every.values())
        assert roll.others() == anew.others()
        kept, made = roll.beside(), anew.beside()
        assert (kept.nodes, kept.booting_since) == (made.nodes, made.booting_since)
        assert +Counter(kept.held) == +Counter(made.held)
        failed = [
            {node.id: node for node in x.may_have_failed(a_pool(), NOW)} for x in (roll, anew)
        ]
        assert failed[0] == failed[1]


@given(pools(), st.lists(nodes(), max_size=8, unique_by=lambda node: node.id))
def test_after_a_plan_that_says_so_there_is_nothing_more_to_plan(
    pool: Pool, known: list[Node]
) -> None:
    fleet = apply(Fleet(), Change(pools=[pool], nodes=known))
    plan, again = size_plan(pool, *PoolIndex(known).shown_for(pool, NOW))
    if not plan.settled:
        return
    fleet = apply(fleet, changes([plan], fleet, now=NOW))
    after, roll = fleet.pools[pool.name], PoolIndex(fleet.in_pool(pool.name).values())
    next_plan, next_again = size_plan(after, *roll.shown_for(after, NOW))
    assert next_plan.actions == ()
    assert (next_plan.wake_at, next_again) == (plan.wake_at, again)


COUNTING = [Phase.REQUESTED, Phase.BOOTING, Phase.READY]


@given(
    pools(),
    st.lists(nodes(), max_size=8, unique_by=lambda node: node.id),
    st.sampled_from(NAMES),
    st.sampled_from(COUNTING),
    AGES,
)
def test_a_pool_at_rest_is_not_disturbed_by_boots(
    pool: Pool, known: list[Node], name: NodeId, phase: Phase, since: datetime
) -> None:
    """Nodes that only counted and only count afterwards change nothing but the next date."""
    roll = PoolIndex(known)
    plan, again = size_plan(pool, *roll.shown_for(pool, NOW))
    before = next((node for node in known if node.id == name), None)
    fleet = apply(Fleet(), Change(pools=[pool], nodes=known))
    fleet = apply(fleet, changes([plan], fleet, now=NOW))
    if not plan.at_rest or again is not None or before is None:
        return
    for each in fleet.nodes.values():
        roll.note(each)
    node = evolve(before, phase=phase, since=since, registered_at=NOW)
    roll.note(node)
    late_at = roll.beside().late_at(pool)
    if not roll.leaves_at_rest(before, node) or (late_at is not None and late_at <= NOW):
        return
    after = fleet.pools[pool.name]
    disturbed, again = size_plan(after, *roll.shown_for(after, NOW))
    assert (disturbed.actions, disturbed.wake_at, again) == ((), late_at, None)


@st.composite
def moves_at_rest(draw: st.DrawFn) -> tuple[Pool, PoolIndex, Node, Node]:
    """Return a pool at rest, its roll after one of its nodes has moved on, and how it has."""
    known = draw(st.lists(nodes(), min_size=1, max_size=8, unique_by=lambda node: node.id))
    roll, low = PoolIndex(known), sum(node.counts for node in known)
    held = sum(not node.gone for node in known)
    room = draw(st.integers(0, 1))
    pool = a_pool(size=low, nodes_max=max(1, held + room), next_index=len(NAMES))
    plan, again = size_plan(pool, *roll.shown_for(pool, NOW))
    assume(plan.at_rest and again is None and not plan.actions)
    before = draw(st.sampled_from([node for node in known if not node.gone] or known))
    after = draw(
        st.sampled_from(
            [
                evolve(before, phase=Phase.GONE, since=NOW),
                evolve(before, health=Health.HEALTHY, conditions=()),
                evolve(
                    before, health=Health.UNHEALTHY, conditions=draw(conditions(Health.UNHEALTHY))
                ),
                evolve(before, health=Health.HEALTHY, conditions=draw(conditions(Health.DEGRADED))),
                evolve(before, phase=Phase.DRAINING, since=NOW, retiring=draw(retirements())),
                evolve(before, retiring=draw(retirements())),
            ]
        )
    )
    roll.note(after)
    return pool, roll, before, after


@given(moves_at_rest())
def test_no_plan_comes_of_a_move_that_leaves_a_pool_at_rest_or_without_room(
    move: tuple[Pool, PoolIndex, Node, Node],
) -> None:
    pool, roll, before, after = move
    stays_at_rest = roll.leaves_at_rest(before, after)
    late_at = roll.beside().late_at(pool)
    assume(stays_at_rest or roll.leaves_no_room(pool, before, after))
    assume(late_at is None or late_at > NOW)
    plan, again = size_plan(pool, *roll.shown_for(pool, NOW))
    assert (plan.actions, plan.wake_at, again) == ((), late_at, None)
    assert plan.at_rest or not stays_at_rest


def test_a_pool_needs_no_plan_for_a_node_that_leaves_while_it_has_no_room() -> None:
    roll = PoolIndex([a_node(name) for name in NAMES[:3]])
    before = a_node(NAMES[0])
    leaving = evolve(before, phase=Phase.DRAINING, retiring=Retirement(reason="x"))
    roll.note(leaving)
    assert roll.leaves_no_room(a_pool(size=3, nodes_max=3), before, leaving)
    assert not roll.leaves_no_room(a_pool(size=3, nodes_max=4), before, leaving)
    gone = evolve(leaving, phase=Phase.GONE)
    roll.note(gone)
    assert not roll.leaves_no_room(a_pool(size=3, nodes_max=3), before, gone)


UNSEEN: dict[str, object] = {
    "acted_at": NOW,
    "boot_id": "another",
    "booted_at": NOW,
    "gpus": 4,
    "held": Deferred(action="replace", reason="x", because="y", by=DeferredBy.BUDGET, since=NOW),
    "labels": {"rack": "r1"},
    "machine": "a key",
    "recovery": RecoveryId("r-1"),
    "report_number": 7,
    "report_stream": "s",
    "traits": {"driver": Trait(value="1", since=NOW)},
    "vouched_boot": "another",
}
"""What no plan looks at, each with a value that nodes do not have here."""

NEVER_CHANGED = {"id", "pool", "created_at"}


@given(
    pools(),
    st.lists(nodes(), max_size=8, unique_by=lambda node: node.id),
    st.sampled_from(NotifiedState),
)
def test_what_no_plan_sees_changes_no_plan(
    pool: Pool, before: list[Node], told: NotifiedState
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
    after = [evolve(node, told=told) for node in after]
    assert [*map(seen_by_size, before)] == [*map(seen_by_size, after)]
    assert size_plan(pool, before, NO_STEADY_NODES) == size_plan(pool, after, NO_STEADY_NODES)


ON_THE_WAY_OUT = [phase for phase in Phase if phase is not Phase.GONE]


@given(
    pools(),
    st.lists(nodes(), max_size=8, unique_by=lambda node: node.id),
    st.sampled_from(ON_THE_WAY_OUT),
    st.sampled_from(Health),
    AGES,
)
def test_how_far_a_node_is_on_its_way_out_changes_no_size(
    pool: Pool, before: list[Node], phase: Phase, health: Health, since: datetime
) -> None:
    after = [
        evolve(node, phase=phase, since=since, health=health, conditions=(), cordoned="x")
        if node.retiring is not None and not node.gone
        else node
        for node in before
    ]
    assert [*map(seen_by_size, before)] == [*map(seen_by_size, after)]
    assert size_plan(pool, before, NO_STEADY_NODES) == size_plan(pool, after, NO_STEADY_NODES)


@given(nodes(), nodes(), st.booleans(), st.booleans())
def test_what_matters_to_the_size_is_what_it_sees(
    before: Node, node: Node, was_in_gang: bool, is_in_gang: bool
) -> None:
    gang = Gang(id="g", nodes=2, offering=H100)
    before = evolve(before, gang=gang if was_in_gang else None)
    node = evolve(node, gang=gang if is_in_gang else None)
    for after in (node, evolve(before, gang=node.gang), evolve(before, phase=node.phase)):
        differs = seen_by_size(before) != seen_by_size(after)
        assert matters_to_size(before, after) == differs


def test_of_every_fact_about_a_node_it_is_known_whether_plans_look_at_it() -> None:
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
    facts = {each.name for each in record_fields(Node)}
    assert facts == {*changed, "told", *UNSEEN, *NEVER_CHANGED}


def test_a_sound_node_is_shown_together_with_its_successor() -> None:
    old, other, new = (a_node(name) for name in NAMES[:3])
    roll = PoolIndex([old, other, evolve(new, replaces=old.id)])
    shown, beside = roll.shown_for(a_pool(size=5, nodes_max=8), NOW)
    assert [node.id for node in shown] == [old.id, new.id]
    assert beside.nodes == 1
    roll.drop(old.id)
    assert roll.others() == []


def test_everybody_is_shown_when_somebody_boots_for_too_long() -> None:
    booting = a_node(NAMES[0], phase=Phase.BOOTING, since=NOW - timedelta(minutes=5))
    roll = PoolIndex([booting, a_node(NAMES[1])])
    pool = a_pool(size=2, nodes_max=2, boot_deadline=timedelta(minutes=10))
    _, beside = roll.shown_for(pool, NOW)
    assert beside.nodes == 2
    assert beside.booting_since == booting.since
    shown, beside = roll.shown_for(pool, NOW + timedelta(minutes=5))
    assert len(shown) == 2
    assert beside is NO_STEADY_NODES


def test_nodes_at_work_are_only_counted() -> None:
    roll = PoolIndex([a_node(f"training-{index}") for index in range(5)])
    shown, beside = roll.shown_for(a_pool(size=6, nodes_max=6), NOW)
    assert shown == []
    assert beside.nodes == 5

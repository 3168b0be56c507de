"""Laws of the governor for any fleet."""

from collections import Counter
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from navarch.core.disruption import (
    DAY,
    Deferred,
    DeferredBy,
    Domain,
    DomainBudget,
    GovernorSettings,
)
from navarch.core.health import HEARTBEAT, Condition, Health
from navarch.core.ids import NodeId, PoolName, RecoveryId
from navarch.core.instance import Topology
from navarch.core.node import DRIVER, IMAGE, Node, Phase, Retirement, Trait
from navarch.core.records import evolve
from navarch.core.recovery import LADDER, Recovery, RecoveryState
from navarch.fleet.disruption.governor.attributes import Attribute, domains_of
from navarch.fleet.disruption.governor.common_cause import find_causes
from navarch.fleet.disruption.governor.domain_stats import DomainStats, fingerprints
from navarch.fleet.disruption.governor.governor import (
    GovernorDecision,
    Obstacles,
    ProposedAction,
    govern,
)
from navarch.fleet.silence import heartbeat_condition
from navarch.testing.worlds import H100, NOW, a_node

HOUR = timedelta(hours=1)


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    found = []
    for i in range(draw(st.integers(1, 40))):
        pool = draw(st.sampled_from(["a", "b"]))
        node = a_node(
            f"{pool}-{i}",
            pool,
            labels={"rack": draw(st.sampled_from(["", "r1", "r2"]))},
            traits={
                DRIVER: Trait(
                    value=draw(st.sampled_from(["550", "570"])),
                    since=NOW - draw(st.sampled_from([HOUR / 2, 100 * HOUR])),
                    before=draw(st.sampled_from(["", "550"])),
                ),
                IMAGE: Trait(value=draw(st.sampled_from(["x", "y"])), since=NOW - 900 * HOUR),
            },
        )
        if draw(st.booleans()):
            code = draw(st.sampled_from(["79", "119"]))
            condition = Condition(
                check=f"xid/{code}/0",
                health=Health.UNHEALTHY,
                reason=code,
                since=NOW,
                fatal=draw(st.booleans()),
                facts={"code": code, "kind": "xid"},
            )
            node = evolve(node, conditions=(condition,), health=Health.UNHEALTHY)
        fate = draw(st.sampled_from(["", "", "", "leaving", "gone", "released"]))
        if fate == "leaving":
            acted = NOW - draw(st.sampled_from([HOUR / 2, 2 * HOUR]))
            node = evolve(node, acted_at=acted, retiring=Retirement(reason="unhealthy"))
        elif fate == "gone":
            node = evolve(node, acted_at=NOW - HOUR / 3, phase=Phase.GONE)
        elif fate == "released" and node.conditions:
            held = Deferred(
                action="replace",
                reason="r",
                because="b",
                by=DeferredBy.CHANGE,
                since=NOW,
                released="by hand",
            )
            node = evolve(node, held=held)
        found.append(node)
    return found


settings = st.builds(
    GovernorSettings,
    budgets=st.dictionaries(
        st.sampled_from(list(Domain)),
        st.builds(
            DomainBudget,
            nodes_min=st.integers(1, 4),
            share_max=st.floats(0, 1, allow_nan=False),
            nodes_per_day=st.integers(1, 6),
            share_per_day=st.floats(0, 1, allow_nan=False),
        ),
    ),
    suspect_nodes=st.integers(2, 6),
)


def acted_in(stats: DomainStats, place: Attribute, window: timedelta) -> int:
    acted = stats.acted_since(NOW - window, lambda _: True)
    return sum(place in places for places in acted.values())


def decide(fleet: list[Node], how: GovernorSettings) -> tuple[DomainStats, list[GovernorDecision]]:
    stats = DomainStats(fleet)
    wishes = [
        ProposedAction(node=node, action="replace", reason="r")
        for node in fleet
        if node.counts and node.conditions
    ]
    obstacles = Obstacles(causes=find_causes(stats, how, now=NOW))
    return stats, list(govern(wishes, stats, how, obstacles, now=NOW))


@given(nodes(), settings)
def test_every_proposed_action_is_decided_once(fleet: list[Node], how: GovernorSettings) -> None:
    _, verdicts = decide(fleet, how)
    names = [verdict.proposal.node.id for verdict in verdicts]
    assert sorted(names) == sorted({node.id for node in fleet if node.counts and node.conditions})


@given(nodes(), settings)
def test_no_domain_exceeds_its_budget(fleet: list[Node], how: GovernorSettings) -> None:
    stats, verdicts = decide(fleet, how)
    by_hand = {v.proposal.node.id for v in verdicts if v.proposal.node.held is not None}
    new: Counter[Attribute] = Counter()
    for verdict in verdicts:
        if verdict.held is None and verdict.proposal.node.id not in by_hand:
            new.update(domains_of(verdict.proposal.node))
    for place, count in new.items():
        budget = how.budgets.get(Domain(place[0]))
        if budget is None:
            continue
        for period, allows in ((how.window, budget.allows), (DAY, budget.allows_per_day)):
            lost = stats.lost(stats.acted_since(NOW - period, lambda _: True))
            allowed = allows(stats.sizes[place] + lost[place])
            room = max(allowed - acted_in(stats, place, period), 0)
            assert count <= room, f"{place}: {count} of {room} in {period}"


@given(nodes(), settings)
def test_a_released_action_is_never_deferred(fleet: list[Node], how: GovernorSettings) -> None:
    _, verdicts = decide(fleet, how)
    for verdict in verdicts:
        held = verdict.proposal.node.held
        assert held is None or not held.released or verdict.held is None


@given(nodes(), settings)
def test_a_deferred_action_has_a_reason(fleet: list[Node], how: GovernorSettings) -> None:
    _, verdicts = decide(fleet, how)
    assert all(v.held.because and v.held.reason for v in verdicts if v.held)


@given(nodes(), settings)
def test_a_single_action_passes_unless_a_change_is_suspected_or_its_domain_is_busy(
    fleet: list[Node], how: GovernorSettings
) -> None:
    stats, verdicts = decide(fleet, how)
    if len(verdicts) == 1 and verdicts[0].held is not None:
        node = verdicts[0].proposal.node
        busy = any(acted_in(stats, place, 24 * HOUR) for place in domains_of(node))
        assert busy or verdicts[0].held.by is DeferredBy.CHANGE


@given(nodes(), settings)
def test_only_faults_with_a_common_cause_are_deferred_for_it(
    fleet: list[Node], how: GovernorSettings
) -> None:
    stats, verdicts = decide(fleet, how)
    suspected = find_causes(stats, how, now=NOW)
    for verdict in verdicts:
        if verdict.held is not None and verdict.held.by is DeferredBy.CHANGE:
            assert set(fingerprints(verdict.proposal.node)) <= set(suspected)


NAMES = [NodeId("a-0"), NodeId("a-1"), NodeId("b-0"), NodeId("alone")]
"""The pools of a node: one of two, or none."""


def a_fault(check: str, health: Health, code: str = "") -> Condition:
    facts = {"code": code, "kind": "xid"} if code else {}
    return Condition(check=check, health=health, reason="x", since=NOW - HOUR, facts=facts)


FACTS: dict[str, list[object]] = {
    "phase": [*Phase, Phase.READY, Phase.READY],
    "registered_at": [None, NOW - HOUR, NOW - HOUR],
    "cordoned": [None, "by hand"],
    "health": list(Health),
    "conditions": [
        (),
        (a_fault("xid/79/0", Health.UNHEALTHY, "79"), a_fault("ecc", Health.DEGRADED)),
        (a_fault("xid/119/0", Health.UNHEALTHY, "119"),),
        (a_fault(HEARTBEAT, Health.UNHEALTHY),),
    ],
    "held": [
        None,
        Deferred(action="replace", reason="r", because="b", by=DeferredBy.CHANGE, since=NOW),
    ],
    "acted_at": [None, NOW - HOUR / 2, NOW - HOUR / 3],
    "retiring": [
        None,
        Retirement(reason="too many", surplus=True),
        Retirement(reason="unhealthy"),
    ],
    "recovery": [None, RecoveryId("r-1")],
    "offering": [None, H100, evolve(H100, region="region-2")],
    "launch": [None, a_node("a-0").launch],
    "labels": [{}, {"rack": "r1"}, {"rack": "r2"}, {"nvlink_domain": "d"}],
    "topology": [None, Topology(rack="r3")],
    "traits": [
        {},
        {DRIVER: Trait(value="550", since=NOW - HOUR)},
        {DRIVER: Trait(value="570", since=NOW), IMAGE: Trait(value="x", since=NOW)},
    ],
}
"""The fields of a node that count, with their possible values."""

facts = st.sampled_from([(fact, value) for fact, values in FACTS.items() for value in values])
events = st.tuples(st.sampled_from(NAMES), st.lists(facts, max_size=2))
"""Changes of a node, mostly small, so that an overlooked one shows."""


@st.composite
def recoveries(draw: st.DrawFn) -> Recovery:
    return Recovery(
        id=RecoveryId("r-1"),
        node=draw(st.sampled_from(NAMES)),
        check="xid/79/0",
        cause="79",
        boot_id="b",
        step=LADDER[0],
        state=draw(st.sampled_from([RecoveryState.TICKET, RecoveryState.WAITING])),
        since=NOW,
        begun_at=NOW,
    )


@given(
    st.lists(
        st.one_of(events, events, events, recoveries(), st.sampled_from(NAMES)),
        min_size=20,
        max_size=40,
    )
)
def test_domain_stats_updated_step_by_step_equal_those_of_the_whole_fleet(
    history: list[tuple[NodeId, list[tuple[str, object]]] | Recovery | NodeId],
) -> None:
    fleet = {name: _newcomer(name) for name in NAMES}
    steps = DomainStats(fleet.values())
    recovering: dict[NodeId, Recovery] = {}
    for step in history:
        if isinstance(step, tuple):
            name, news = step
            node = evolve(fleet.get(name) or _newcomer(name), **dict(news))  # type: ignore[arg-type]
            fleet[name] = node
            steps.note(node)
        elif isinstance(step, Recovery):
            recovering[step.node] = step
            steps.note_recovery(step)
        else:
            fleet.pop(step, None)
            recovering.pop(step, None)
            steps.drop(step)
        whole = DomainStats(fleet.values(), recovering.values())
        assert +steps.sizes == +whole.sizes
        assert +steps.exposed == +whole.exposed
        assert steps.attributes == whole.attributes
        assert steps.changed == whole.changed
        here = {x.id: x for x in fleet.values() if x.registered_at is not None and not x.gone}
        held = {name: node for name, node in here.items() if node.held is not None}
        silent = {k: c for k, x in held.items() if (c := heartbeat_condition(x)) is not None}
        assert _shown(steps) == {
            name: node
            for name, node in here.items()
            if node.pool is not None and (node.conditions or node.held or node.cordoned)
        }
        assert {*steps.waiting} == {*held}
        assert steps.silent == {name: condition.since for name, condition in silent.items()}
        assert steps.unwell == {k: x for k, x in here.items() if x.health is Health.UNHEALTHY}
        showing = [{k: v for k, v in x.showing.items() if v} for x in (steps, whole)]
        assert showing[0] == showing[1]


def _newcomer(name: NodeId) -> Node:
    if name == "alone":
        return evolve(a_node(name), pool=None, launch=None, offering=H100)
    return evolve(a_node(name), pool=PoolName(name[:1]))


def _shown(stats: DomainStats) -> dict[NodeId, Node]:
    return {name: node for nodes in stats.pools.values() for name, node in nodes.items()}


@given(nodes(), st.randoms(use_true_random=False))
def test_recent_actions_do_not_depend_on_the_order_of_nodes(
    fleet: list[Node], chance: object
) -> None:
    steps = DomainStats()
    for node in fleet:
        steps.note(evolve(node, health=Health.HEALTHY, conditions=(), acted_at=None))
    shuffled = sorted(fleet, key=lambda _: chance.random())  # type: ignore[attr-defined]
    for node in shuffled:
        steps.note(node)
    whole = DomainStats(fleet)
    places = {place for node in fleet for place in domains_of(node)}
    for place in places:
        assert acted_in(steps, place, HOUR) == acted_in(whole, place, HOUR)

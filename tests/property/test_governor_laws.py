"""Laws of the governor, whatever the fleet looks like."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from navarch.core.governor import Domain, DomainBudget, GovernorSettings
from navarch.core.health import Condition, Health
from navarch.core.held import Held, HeldBy
from navarch.core.node import Node, Phase, Retirement
from navarch.core.trait import DRIVER, IMAGE, Trait
from navarch.fleet.disruption.governor.census import Census, fingerprints
from navarch.fleet.disruption.governor.domains import domains_of
from navarch.fleet.disruption.governor.governor import Verdict, Wish, govern
from navarch.fleet.disruption.governor.suspicion import find_suspicions
from navarch.testing.worlds import NOW, a_node

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
            node = replace(node, conditions=(condition,), health=Health.UNHEALTHY)
        fate = draw(st.sampled_from(["", "", "", "leaving", "gone", "released"]))
        if fate == "leaving":
            acted = NOW - draw(st.sampled_from([HOUR / 2, 2 * HOUR]))
            node = replace(node, acted_at=acted, retiring=Retirement(reason="unhealthy"))
        elif fate == "gone":
            node = replace(node, acted_at=NOW - HOUR / 3, phase=Phase.GONE)
        elif fate == "released" and node.conditions:
            held = Held(
                action="replace",
                reason="r",
                because="b",
                by=HeldBy.CHANGE,
                since=NOW,
                released="by hand",
            )
            node = replace(node, held=held)
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
        ),
    ),
    suspect_nodes=st.integers(2, 6),
)


def decide(fleet: list[Node], how: GovernorSettings) -> tuple[Census, list[Verdict]]:
    census = Census(fleet)
    census.expire(NOW - how.window)
    wishes = [
        Wish(node=node, action="replace", reason="r")
        for node in fleet
        if node.counts and node.conditions
    ]
    suspicions = find_suspicions(census, how)
    return census, list(govern(wishes, census, how, suspicions, now=NOW))


@given(nodes(), settings)
def test_every_wish_is_answered_once(fleet: list[Node], how: GovernorSettings) -> None:
    _, verdicts = decide(fleet, how)
    names = [verdict.wish.node.id for verdict in verdicts]
    assert sorted(names) == sorted({node.id for node in fleet if node.counts and node.conditions})


@given(nodes(), settings)
def test_no_domain_exceeds_its_budget_by_more_than_the_one_at_a_time(
    fleet: list[Node], how: GovernorSettings
) -> None:
    census, verdicts = decide(fleet, how)
    by_hand = {v.wish.node.id for v in verdicts if v.wish.node.held is not None}
    new: Counter[tuple[Domain, str]] = Counter()
    for verdict in verdicts:
        if verdict.held is None and verdict.wish.node.id not in by_hand:
            new.update(domains_of(verdict.wish.node))
    for place, count in new.items():
        budget = how.budgets.get(place[0])
        if budget is None:
            continue
        room = max(budget.allows(census.sizes[place]) - census.acted_in(place), 0)
        trickle = 1 if census.out_of(place) == 0 else 0
        assert count <= max(room, trickle), f"{place}: {count} of {room}"


@given(nodes(), settings)
def test_nobody_who_was_released_is_held(fleet: list[Node], how: GovernorSettings) -> None:
    _, verdicts = decide(fleet, how)
    for verdict in verdicts:
        held = verdict.wish.node.held
        assert held is None or not held.released or verdict.held is None


@given(nodes(), settings)
def test_what_is_held_says_why(fleet: list[Node], how: GovernorSettings) -> None:
    _, verdicts = decide(fleet, how)
    assert all(v.held.because and v.held.reason for v in verdicts if v.held)


@given(nodes(), settings)
def test_a_lone_wish_passes_unless_a_change_is_to_blame_or_its_domain_is_busy(
    fleet: list[Node], how: GovernorSettings
) -> None:
    census, verdicts = decide(fleet, how)
    if len(verdicts) == 1 and verdicts[0].held is not None:
        node = verdicts[0].wish.node
        busy = any(census.out_of(place) for place in domains_of(node))
        assert busy or verdicts[0].held.by is HeldBy.CHANGE


@given(nodes(), settings)
def test_only_a_fault_that_every_suspicion_covers_is_held_for_a_change(
    fleet: list[Node], how: GovernorSettings
) -> None:
    census, verdicts = decide(fleet, how)
    suspected = find_suspicions(census, how)
    for verdict in verdicts:
        if verdict.held is not None and verdict.held.by is HeldBy.CHANGE:
            assert set(fingerprints(verdict.wish.node)) <= set(suspected)


@given(nodes(), st.randoms(use_true_random=False))
def test_a_census_taken_step_by_step_equals_one_taken_at_once(
    fleet: list[Node], chance: object
) -> None:
    steps = Census()
    for node in fleet:
        steps.note(replace(node, health=Health.HEALTHY, conditions=(), acted_at=None))
    shuffled = sorted(fleet, key=lambda _: chance.random())  # type: ignore[attr-defined]
    for node in shuffled:
        steps.note(node)
    whole = Census(fleet)
    places = {place for node in fleet for place in domains_of(node)}
    for place in places:
        assert steps.sizes[place] == whole.sizes[place]
        assert steps.acted_in(place) == whole.acted_in(place)
        assert steps.out_of(place) == whole.out_of(place)
    assert {k: set(v) for k, v in steps.showing.items() if v} == {
        k: set(v) for k, v in whole.showing.items() if v
    }

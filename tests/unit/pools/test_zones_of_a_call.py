"""Calls that cover several zones of a region: which zones join, and what a refusal closes."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from navarch.core.errors import CapacityError, ProviderError, RejectedError
from navarch.core.ids import InstanceId, NodeId, PoolName, Token
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.launch import Launch, Offering, Refusal
from navarch.core.node import Node, Phase
from navarch.core.records import evolve
from navarch.fleet.launch_breaker import QuarantinedOffering
from navarch.fleet.launching import accepted, calls_for, refused
from navarch.fleet.selection import Choice, Market, ProposedLaunch, Take, UnderWay
from navarch.fleet.stockouts import Scope, Stockouts, scopes, stockouts_from_journal
from navarch.provision import FirstAvailable
from navarch.testing.worlds import H100, NOW, a_node, a_pool

A, B, C = (evolve(H100, region="r", zone=zone) for zone in ("a", "b", "c"))
FAR = evolve(H100, region="far", zone="d")
SECOND = timedelta(seconds=1)


def market(
    stockouts: Stockouts | None = None, *, under_way: Sequence[UnderWay] = (), vetoed: str = ""
) -> Market:
    def veto(proposal: ProposedLaunch, _taken: Sequence[Take]) -> str | None:
        return "no money" if proposal.offering.zone == vetoed else None

    return Market(
        stockouts or Stockouts(),
        now=NOW,
        under_way=under_way,
        vetoes=[veto],
        machines_per_call={H100.provider: 8},
        covering_zones={H100.provider},
    )


def choose(
    market: Market,
    *offerings: Offering,
    gang: int = 0,
    only: Offering | None = None,
    quarantined: dict[Scope, QuarantinedOffering] | None = None,
) -> Choice | None:
    pool = a_pool(size=1, offerings=offerings or (A, B, C, FAR))
    return market.choose(
        pool, FirstAvailable(), {}, gang=gang, only=only, quarantined=quarantined or {}
    )


def zones(choice: Choice | None) -> list[str]:
    return [] if choice is None else [choice.offering.zone, *choice.zones]


def refusal(
    offering: Offering, kind: Refusal = Refusal.CAPACITY, *, seconds_ago: int = 1
) -> Stockouts:
    at = NOW - seconds_ago * SECOND
    return Stockouts().after_refusal(offering, kind, "no", asked_at=at, now=at)


def test_a_call_covers_all_zones_of_a_region_in_the_order_of_the_pool() -> None:
    assert zones(choose(market())) == ["a", "b", "c"]
    assert zones(choose(market(), C, A, FAR, B)) == ["c", "a", "b"]


def test_a_call_at_a_provider_that_does_not_cover_zones_is_for_one_zone() -> None:
    plain = Market(Stockouts(), now=NOW, machines_per_call={H100.provider: 8})
    assert zones(choose(plain)) == ["a"]


def test_a_zone_that_was_sold_out_joins_a_call_before_its_pause_is_over() -> None:
    assert zones(choose(market(refusal(A)))) == ["b", "a", "c"]


@pytest.mark.parametrize("kind", [Refusal.REJECTED, Refusal.TRANSIENT])
def test_a_zone_that_was_refused_for_another_reason_does_not_join(kind: Refusal) -> None:
    assert zones(choose(market(refusal(B, kind)))) == ["a", "c"]


def test_a_zone_that_a_veto_forbids_does_not_join() -> None:
    assert zones(choose(market(vetoed="b"))) == ["a", "c"]


def test_a_quarantined_zone_does_not_join() -> None:
    place = QuarantinedOffering(tried_at=NOW - SECOND, last_until=NOW + 60 * SECOND)
    assert zones(choose(market(), quarantined={scopes(B)[0]: place})) == ["a", "c"]


def test_only_the_same_offering_in_another_zone_joins() -> None:
    dearer = evolve(B, price_per_hour=A.price_per_hour + 1)
    others = [dearer, evolve(B, spot=True), evolve(B, instance_type="a100-8x"), evolve(B, zone="")]
    assert zones(choose(market(), A, *others)) == ["a"]


def test_gangs_and_reservations_are_in_one_zone() -> None:
    assert zones(choose(market(), gang=4)) == ["a"]
    reserved = [evolve(x, reservation="cr-1") for x in (A, B)]
    assert zones(choose(market(), *reserved)) == ["a"]


def test_a_purchase_of_one_offering_only_does_not_cover_others() -> None:
    assert zones(choose(market(), only=B)) == ["b"]


def test_a_call_is_a_probe_of_every_zone_that_it_covers() -> None:
    half_open = refusal(C, seconds_ago=100)
    trying = UnderWay(offering=A, zones=("b", "c"), asked_at=NOW - SECOND)
    assert zones(choose(market(half_open), C)) == ["c"]
    assert zones(choose(market(half_open, under_way=[trying]), C)) == []


def test_the_machines_of_one_round_share_the_probe_of_a_region() -> None:
    sold_out = Stockouts()
    at = NOW - 100 * SECOND
    for offering in (A, B, C):
        sold_out = sold_out.after_refusal(offering, Refusal.CAPACITY, "no", asked_at=at, now=at)
    one_round = market(sold_out)
    chosen = [zones(choose(one_round, A, B, C)) for _ in range(9)]
    assert chosen == [["a", "b", "c"]] * 8 + [[]], "the ninth would need a call of its own"


def test_a_machine_that_takes_a_call_of_its_own_is_a_probe_of_its_own() -> None:
    def one_round(under_way: Sequence[UnderWay] = ()) -> list[list[str]]:
        alone = Market(
            refusal(A, seconds_ago=100).after_sale(A, asked_at=NOW, now=NOW),
            now=NOW,
            under_way=under_way,
            machines_per_call={H100.provider: 8},
            covering_zones={H100.provider},
            alone=lambda _: True,
        )
        return [zones(choose(alone, A)) for _ in range(5)]

    assert one_round() == [["a"]] * 4 + [[]], "one success lets four try"
    trying = UnderWay(offering=A, asked_at=NOW, alone=True)
    assert one_round([trying, trying]) == [["a"]] * 2 + [[]] * 3


def test_the_table_marks_every_zone_of_the_call_and_says_why_it_is_covered() -> None:
    choice = choose(market(refusal(B)))
    assert choice is not None
    a, b, c, far = choice.table.splitlines()
    assert a.startswith("→")
    assert a.endswith(": available")
    assert b.startswith("→")
    assert "covered by the same call, though closed until" in b
    assert c.startswith("→")
    assert c.endswith("covered by the same call")
    assert far.startswith(" ")


def a_launch(number: int = 0, zones: tuple[str, ...] = ("b", "c")) -> Launch:
    return Launch(
        token=Token(f"t-{number}"),
        node=NodeId(f"training-{number}"),
        pool=PoolName("training"),
        offering=A,
        zones=zones,
        asked_at=NOW,
    )


def requested(launch: Launch) -> Node:
    return a_node(launch.node, phase=Phase.REQUESTED, launch=launch)


def test_launches_share_a_call_only_if_their_zones_are_the_same() -> None:
    launches = [a_launch(0), a_launch(1, ("b",)), a_launch(2)]
    calls = calls_for(launches, {H100.provider: 8})
    assert [[x.token for x in call] for call in calls] == [["t-0", "t-2"], ["t-1"]]


@pytest.mark.parametrize(("zone", "recorded"), [("a", "a"), ("c", "c"), ("", "a"), ("x", "x")])
def test_the_launch_records_the_zone_in_which_its_machine_started(zone: str, recorded: str) -> None:
    machine = Instance(
        id=InstanceId("i-1"),
        provider=A.provider,
        status=InstanceStatus.PENDING,
        instance_type=A.instance_type,
        region="r",
        zone=zone,
    )
    launch = a_launch()
    change = accepted(requested(launch), launch.token, machine, now=NOW)
    assert change is not None
    (node,) = change.nodes
    assert node.launch is not None
    assert node.launch.offering == evolve(A, zone=recorded)
    assert node.launch.zones == ()


@pytest.mark.parametrize(
    ("error", "closed"),
    [(CapacityError("sold out"), ["a", "b", "c"]), (RejectedError("no such image"), ["a"])],
    ids=["sold out", "rejected"],
)
def test_after_a_restart_a_refusal_closes_the_zones_that_it_is_about(
    error: ProviderError, closed: list[str]
) -> None:
    launch = a_launch()
    change = refused(requested(launch), launch.token, error, now=NOW)
    assert change is not None
    known = stockouts_from_journal(change.events)
    places = [x.zone for x in (A, B, C) if any(known.against(x, NOW))]
    assert places == closed

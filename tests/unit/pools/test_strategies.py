"""Provision strategies: their order of offerings, and failover."""

from collections import Counter
from decimal import Decimal

import pytest

from navarch.core.ids import ProviderName
from navarch.core.launch import Offering, Refusal
from navarch.core.records import evolve
from navarch.fleet.selection import ROWS_MAX, Market
from navarch.fleet.stockouts import Stockouts
from navarch.ports.provider import ProvisionOption, ProvisionScheduler
from navarch.provision import (
    Availability,
    CarbonAware,
    Cost,
    FirstAvailable,
    RegionPreference,
    RoundRobin,
)
from navarch.testing.worlds import H100, NOW, a_pool


def place(provider: str, region: str, zone: str, price: str = "10") -> Offering:
    return evolve(
        H100,
        provider=ProviderName(provider),
        region=region,
        zone=zone,
        price_per_hour=Decimal(price),
    )


def order_of(scheduler: ProvisionScheduler, *offerings: Offering) -> list[str]:
    """Return the zones in the order in which they are tried if each refuses."""
    stockouts = Stockouts()
    asked = []
    for _ in offerings:
        pool = a_pool(size=1, offerings=offerings)
        choice = Market(stockouts, now=NOW).choose(pool, scheduler, {})
        assert choice is not None
        asked.append(choice.offering.zone)
        stockouts = stockouts.after_refusal(
            choice.offering, Refusal.CAPACITY, "sold out", asked_at=NOW, now=NOW
        )
    return asked


def test_first_available_keeps_the_configured_order() -> None:
    places = [place("aws", "us", "a"), place("gcp", "us", "b"), place("aws", "us", "c")]
    assert order_of(FirstAvailable(), *places) == ["a", "b", "c"]


def test_cost_is_per_gpu_with_unknown_prices_last() -> None:
    half = evolve(place("aws", "us", "half", "6"), gpus=4)
    places = [place("aws", "us", "unknown", "0"), place("aws", "us", "dear", "20"), half]
    assert order_of(Cost(), *places, place("aws", "us", "cheap", "8")) == [
        "cheap",
        "half",
        "dear",
        "unknown",
    ]


def test_failover_between_equals_goes_from_zone_to_region_to_provider() -> None:
    places = [
        place("aws", "us", "first"),
        place("gcp", "us", "other provider"),
        place("aws", "eu", "other region"),
        place("aws", "us", "other zone"),
    ]
    assert order_of(Cost(), *places) == ["first", "other zone", "other region", "other provider"]


def test_regions_are_preferred_as_listed() -> None:
    places = [place("aws", "asia", "x"), place("aws", "us", "y"), place("aws", "eu", "z")]
    assert order_of(RegionPreference(["eu", "us"]), *places) == ["z", "y", "x"]


def test_the_cleanest_electricity_is_preferred() -> None:
    places = [place("aws", "coal", "x"), place("aws", "unknown", "y"), place("aws", "hydro", "z")]
    assert order_of(CarbonAware({"coal": 900.0, "hydro": 20.0}), *places) == ["z", "y", "x"]


def test_availability_prefers_offerings_with_recent_launches() -> None:
    seller, unknown = place("aws", "us", "seller"), place("aws", "us", "unknown")
    stockouts = Stockouts().after_sale(seller, asked_at=NOW, now=NOW)
    pool = a_pool(size=1, offerings=(unknown, seller))
    choice = Market(stockouts, now=NOW).choose(pool, Availability(), {})
    assert choice is not None
    assert choice.offering == seller


def test_weights_of_three_to_one_give_six_and_two_of_eight() -> None:
    pool = a_pool(size=8, offerings=(place("aws", "us", "a"), place("gcp", "us", "b")))
    held: Counter[ProviderName] = Counter()
    market = Market(Stockouts(), now=NOW)
    for _ in range(8):
        choice = market.choose(pool, RoundRobin({"aws": 3}), held)
        assert choice is not None
        held[choice.offering.provider] += 1
    assert held == {"aws": 6, "gcp": 2}


def test_a_weight_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="the weight of aws must be 1 or more, not 0"):
        RoundRobin({"aws": 0})


def test_the_table_shows_the_choice_and_the_reasons_against_others() -> None:
    places = (place("aws", "us", "a"), place("gcp", "us", "b", "12"))
    stockouts = Stockouts().after_refusal(
        places[0], Refusal.CAPACITY, "sold out", asked_at=NOW, now=NOW
    )
    choice = Market(stockouts, now=NOW).choose(a_pool(size=1, offerings=places), Cost(), {})
    assert choice is not None
    assert choice.table.splitlines() == [
        "  h100-8x at aws in a, 10/h, score -1.25, odds 33%: closed until 12:00:15: sold out",
        "→ h100-8x at gcp in b, 12/h, score -1.5, odds 50%: available",
    ]


def test_a_long_table_is_truncated() -> None:
    places = tuple(place("aws", "us", f"z{i}") for i in range(ROWS_MAX + 5))
    choice = Market(Stockouts(), now=NOW).choose(a_pool(size=1, offerings=places), Cost(), {})
    assert choice is not None
    assert choice.table.splitlines()[-1] == "  … and 5 more"


@pytest.mark.parametrize("scheduler", [FirstAvailable(), Cost(), RoundRobin()])
def test_reservations_take_precedence_over_every_strategy_and_are_counted(
    scheduler: ProvisionScheduler,
) -> None:
    usual = place("aws", "us", "usual", "1")
    reserved = evolve(place("aws", "us", "reserved", "50"), reservation="cr-1", reserved_nodes=3)
    pool = a_pool(size=1, offerings=(usual, reserved))
    # Another pool already uses one machine of it.
    market = Market(Stockouts(), now=NOW, reserved={(ProviderName("aws"), "cr-1"): 1})

    choices = [market.choose(pool, scheduler, {}) for _ in range(3)]

    assert [x and x.offering.zone for x in choices] == ["reserved", "reserved", "usual"]
    last = choices[-1]
    assert last is not None
    assert "reserved cr-1" in last.table
    assert "3 of 3 reserved machines are used" in last.table


def test_quota_refusals_and_reservation_refusals_do_not_close_each_other() -> None:
    usual = place("aws", "us", "a")
    reserved = evolve(usual, reservation="cr-1")
    after = Stockouts().after_refusal(usual, Refusal.QUOTA, "no", asked_at=NOW, now=NOW)
    assert not list(after.against(reserved, NOW))
    after = Stockouts().after_refusal(reserved, Refusal.CAPACITY, "full", asked_at=NOW, now=NOW)
    assert not list(after.against(usual, NOW))


class FaultyStrategy:
    """A custom strategy with errors."""

    def score(self, option: ProvisionOption) -> float:
        match option.offering.zone:
            case "raises":
                raise KeyError(option.offering.zone)
            case "nan":
                return float("nan")
            case "word":
                return "dear"  # type: ignore[return-value]
            case _:
                return -5.0


def test_offerings_that_a_strategy_fails_to_score_are_ranked_last() -> None:
    places = [place("aws", "us", zone) for zone in ("raises", "nan", "word", "sound")]
    assert order_of(FaultyStrategy(), *places) == ["sound", "raises", "nan", "word"]
    pool = a_pool(size=1, offerings=tuple(places))
    choice = Market(Stockouts(), now=NOW).choose(pool, FaultyStrategy(), {})
    assert choice is not None
    assert choice.table.splitlines() == [
        "→ h100-8x at aws in sound, 10/h, score -5, odds 50%: available",
        "  h100-8x at aws in raises, 10/h, no score (KeyError('raises')), odds 50%: available",
        "  h100-8x at aws in nan, 10/h, no score (nan is no score), odds 50%: available",
        "  h100-8x at aws in word, 10/h, no score ('dear' is no score), odds 50%: available",
    ]

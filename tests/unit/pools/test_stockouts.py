"""Stockouts: what a refusal closes, and when it opens again."""

from datetime import datetime, timedelta

import pytest

from navarch.core.errors import RejectedError
from navarch.core.ids import PoolName, ProviderName
from navarch.core.launch import HUMAN_PAUSE, Offering, Refusal
from navarch.core.node import Phase
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet import launching
from navarch.fleet.selection import PROBE_PATIENCE, Market, UnderWay
from navarch.fleet.stockouts import QUIET, Stockouts, stockouts_from_journal
from navarch.provision import FirstAvailable
from navarch.testing.worlds import H100, NOW, a_node, a_pool

A = evolve(H100, zone="a")
B = evolve(H100, zone="b")
FAR = evolve(H100, region="region-2", zone="c")
OTHER_TYPE = evolve(A, instance_type="a100-8x")
SPOT = evolve(A, spot=True)
ELSEWHERE = evolve(A, provider=ProviderName("other"))
EVERYWHERE = (A, B, FAR, OTHER_TYPE, SPOT, ELSEWHERE)
POOL = a_pool(size=1, offerings=EVERYWHERE)
SECOND = timedelta(seconds=1)


def refused(
    offering: Offering, refusal: Refusal = Refusal.CAPACITY, *, at: datetime = NOW, times: int = 1
) -> Stockouts:
    stockouts = Stockouts()
    for _ in range(times):
        stockouts = stockouts.after_refusal(offering, refusal, "no", asked_at=at, now=at)
    return stockouts


def choose(market: Market, pool: Pool = POOL) -> Offering | None:
    choice = market.choose(pool, FirstAvailable(), {})
    return choice.offering if choice else None


def open_offerings(stockouts: Stockouts, now: datetime = NOW) -> list[Offering]:
    return [
        offering
        for offering in EVERYWHERE
        if choose(Market(stockouts, now=now), a_pool(size=1, offerings=(offering,)))
    ]


@pytest.mark.parametrize(
    ("refusal", "still_open"),
    [
        (Refusal.CAPACITY, [B, FAR, OTHER_TYPE, SPOT, ELSEWHERE]),
        (Refusal.REJECTED, [B, FAR, OTHER_TYPE, SPOT, ELSEWHERE]),
        (Refusal.TRANSIENT, [B, FAR, OTHER_TYPE, SPOT, ELSEWHERE]),
        (Refusal.QUOTA, [OTHER_TYPE, SPOT, ELSEWHERE]),
        (Refusal.CREDENTIAL, [ELSEWHERE]),
    ],
)
def test_the_type_of_a_refusal_determines_what_it_closes(
    refusal: Refusal, still_open: list[Offering]
) -> None:
    assert open_offerings(refused(A, refusal)) == still_open


def test_an_invalid_request_of_one_pool_closes_nothing_for_others() -> None:
    wrong = a_pool("wrong", size=1, offerings=(A,))
    right = evolve(wrong, ssh_keys=("laptop",))
    known = Stockouts().after_refusal(
        A, Refusal.REJECTED, "no key", asked_at=NOW, now=NOW, request=wrong.request_digest
    )
    assert choose(Market(known, now=NOW), wrong) is None
    assert choose(Market(known, now=NOW), right) == A, "also once the pool is corrected"

    later = NOW + HUMAN_PAUSE
    trying = [UnderWay(offering=A, asked_at=later, request=wrong.request_digest)]
    assert choose(Market(known, now=later), wrong) == A
    assert choose(Market(known, now=later, under_way=trying), wrong) is None
    sold = known.after_sale(A, asked_at=later, now=later, request=right.request_digest)
    assert choose(Market(sold, now=NOW), wrong) is None
    sold = known.after_sale(A, asked_at=later, now=later, request=wrong.request_digest)
    assert choose(Market(sold, now=NOW), wrong) == A


def test_the_journal_remembers_whose_request_was_invalid() -> None:
    wrong = a_pool("wrong", size=1, offerings=(A,))
    right = evolve(wrong, ssh_keys=("laptop",))
    node = a_node("wrong-0", "wrong", phase=Phase.REQUESTED)
    assert node.launch is not None
    launch = evolve(node.launch, offering=A, request=wrong.request_digest)
    error = RejectedError("no key")
    change = launching.refused(evolve(node, launch=launch), launch.token, error, now=NOW)
    assert change is not None
    known = stockouts_from_journal(change.events)
    assert choose(Market(known, now=NOW), wrong) is None
    assert choose(Market(known, now=NOW), right) == A


def test_the_next_offering_is_tried_at_once() -> None:
    assert choose(Market(refused(A), now=NOW)) == B


@pytest.mark.parametrize(("times", "seconds"), [(1, 15), (2, 30), (3, 60), (99, 75)])
def test_every_further_refusal_closes_for_longer_up_to_a_limit(times: int, seconds: int) -> None:
    stockouts = refused(A, times=times)
    opens_at = NOW + seconds * SECOND
    assert A not in open_offerings(stockouts, opens_at - SECOND)
    assert A in open_offerings(stockouts, opens_at)


def test_refusals_that_need_an_operator_are_retried_rarely() -> None:
    for refusal in (Refusal.QUOTA, Refusal.CREDENTIAL, Refusal.REJECTED):
        stockouts = refused(A, refusal)
        assert A not in open_offerings(stockouts, NOW + HUMAN_PAUSE - SECOND)
        assert A in open_offerings(stockouts, NOW + HUMAN_PAUSE)


def test_a_half_open_offering_is_probed_by_one_launch_at_a_time() -> None:
    later = NOW + 15 * SECOND
    only_a = a_pool("one", size=1, offerings=(A,))
    market = Market(refused(A), now=later)
    assert choose(market, only_a) == A
    assert choose(market, a_pool("two", size=1, offerings=(A,))) is None
    assert list(market.turned_away) == [PoolName("two")]
    under_way = [UnderWay(offering=A, asked_at=later)]
    assert choose(Market(refused(A), now=later + SECOND, under_way=under_way), only_a) is None


def test_a_probe_without_an_answer_expires() -> None:
    later = NOW + 15 * SECOND
    under_way = [UnderWay(offering=A, asked_at=later)]
    patient = Market(refused(A), now=later + timedelta(minutes=2), under_way=under_way)
    assert choose(patient, a_pool(size=1, offerings=(A,))) == A


def test_launches_before_the_refusal_are_no_probes() -> None:
    under_way = [UnderWay(offering=A, asked_at=NOW - SECOND)]
    market = Market(refused(A), now=NOW + 15 * SECOND, under_way=under_way)
    assert choose(market, a_pool(size=1, offerings=(A,))) == A


def test_each_success_allows_four_times_as_many_launches() -> None:
    later = NOW + 15 * SECOND
    stockouts = refused(A)
    only_a = a_pool(size=1, offerings=(A,))
    for allowed in (1, 4, 16):
        market = Market(stockouts, now=later)
        taken = sum(choose(market, only_a) is not None for _ in range(20))
        assert taken == allowed
        stockouts = stockouts.after_sale(A, asked_at=later, now=later)


def test_an_offering_is_open_after_enough_successes() -> None:
    stockouts = refused(A)
    for _ in range(7):
        stockouts = stockouts.after_sale(A, asked_at=NOW, now=NOW)
    market = Market(stockouts, now=NOW)
    only_a = a_pool(size=1, offerings=(A,))
    assert all(choose(market, only_a) for _ in range(500))


def test_refusals_of_concurrent_launches_count_as_one() -> None:
    stockouts = refused(A)
    for _ in range(50):
        stockouts = stockouts.after_refusal(
            A, Refusal.CAPACITY, "no", asked_at=NOW - SECOND, now=NOW + SECOND
        )
    assert A in open_offerings(stockouts, NOW + 15 * SECOND)


def test_the_success_of_an_older_launch_opens_nothing() -> None:
    stockouts = refused(A).after_sale(A, asked_at=NOW - SECOND, now=NOW + SECOND)
    assert A not in open_offerings(stockouts, NOW + SECOND)


def test_a_refusal_expires_after_a_long_time_without_launches() -> None:
    stockouts = refused(A, times=9)
    market = Market(stockouts, now=NOW + timedelta(minutes=2) + QUIET)
    only_a = a_pool(size=1, offerings=(A,))
    assert all(choose(market, only_a) for _ in range(3))


def test_a_pool_without_an_open_offering_gets_the_time_of_the_next_try() -> None:
    pool = a_pool(size=1, offerings=(A, B))
    stockouts = refused(A, times=3).after_refusal(B, Refusal.CAPACITY, "no", asked_at=NOW, now=NOW)
    assert Market(stockouts, now=NOW).opens_at(pool) == NOW + 15 * SECOND


def test_a_pool_that_waits_for_a_probe_retries_when_the_probe_expires() -> None:
    """It retries at that moment and not at the next round."""
    only_a, later = a_pool(size=1, offerings=(A,)), NOW + 15 * SECOND
    under_way = [
        UnderWay(offering=A, asked_at=later),
        UnderWay(offering=A, asked_at=later + SECOND),
    ]
    market = Market(refused(A), now=later + 2 * SECOND, under_way=under_way)
    assert choose(market, only_a) is None

    again_at = market.opens_at(only_a)

    assert again_at == later + SECOND + PROBE_PATIENCE, "both of them: only one may try at a time"
    early = Market(refused(A), now=again_at - timedelta.resolution, under_way=under_way)
    assert choose(early, only_a) is None
    assert choose(Market(refused(A), now=again_at, under_way=under_way), only_a) == A


def test_a_pool_retries_after_the_probe_of_another_pool() -> None:
    only_a, later = a_pool(size=1, offerings=(A,)), NOW + 15 * SECOND
    market = Market(refused(A), now=later)
    assert choose(market, only_a) == A

    assert market.opens_at(a_pool("two", size=1, offerings=(A,))) == later + PROBE_PATIENCE


def test_the_success_estimate_follows_answers_and_decays_to_one_half() -> None:
    fresh = Stockouts()
    assert fresh.odds(A, NOW) == 0.5
    bad = refused(A, times=8)
    good = fresh.after_sale(A, asked_at=NOW, now=NOW)
    assert bad.odds(A, NOW) < 0.2
    assert good.odds(A, NOW) > 0.6
    assert bad.odds(A, NOW + timedelta(days=2)) == pytest.approx(0.5, abs=0.01)
    assert bad.odds(B, NOW) == 0.5


@pytest.mark.parametrize(
    ("refusal", "waiting", "pause_s"),
    [
        (Refusal.CAPACITY, 0, 75.0),
        (Refusal.CAPACITY, 9, 75.0),
        (Refusal.CAPACITY, 36, 37.5),
        (Refusal.CAPACITY, 900, 7.5),
        (Refusal.CAPACITY, 10_000, 5.0),
        (Refusal.QUOTA, 1000, 900.0),
    ],
)
def test_a_sold_out_offering_is_tried_more_often_if_more_launches_wait(
    refusal: Refusal, waiting: int, pause_s: float
) -> None:
    ((_, closure),) = refused(H100, refusal, times=9).against(H100, NOW)
    assert (closure.opens_at(waiting) - closure.since).total_seconds() == pause_s

"""Figures from a journal and from what really happened."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from navarch.core.event import Event, Recorded, Subject, about
from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.sim.figures.figures import measure
from navarch.sim.figures.goodput import JobRecord, goodput_of
from navarch.sim.figures.spread import spread_of
from navarch.sim.figures.truth import Injury, Lease, Order, Truth

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def journal(*told: tuple[float, str, str, dict[str, str], tuple[str, ...]]) -> list[Recorded]:
    return [
        Recorded(
            number=number,
            revision=number,
            event=Event(
                at=at(seconds),
                about=Subject(subject),
                kind=kind,
                reason="so",
                facts=facts,
                because=tuple(map(Subject, because)),
            ),
        )
        for number, (seconds, subject, kind, facts, because) in enumerate(told, start=1)
    ]


def node(name: str) -> str:
    return about("node", name)


HEALTHY, UNHEALTHY = {"health": "healthy"}, {"health": "unhealthy"}
READY = {"phase": "ready"}


def a_truth(**told: object) -> Truth:
    lease = Lease(node=NodeId("n"), gpus=8, began=at(0), ended=None, price_per_hour=Decimal(10))
    return Truth(**{"began": at(0), "ended": at(3600), "leases": (lease,), **told})  # type: ignore[arg-type]


def an_injury(
    seconds: float, *, over: float | None = None, harm: Health = Health.UNHEALTHY
) -> Injury:
    return Injury(
        node=NodeId("n"),
        at=at(seconds),
        kind="xid_error",
        harm=harm,
        over=None if over is None else at(over),
    )


def test_a_machine_that_serves_all_the_time_delivers_all_of_it() -> None:
    figures = measure(journal((0, node("n"), "node.registered", READY, ())), a_truth())

    assert figures.availability == 1.0
    assert figures.gpu_hours.delivered == figures.gpu_hours.paid == 8.0
    assert figures.money.billed == Decimal("10.00")
    assert figures.money.wasted == 0


def test_detection_counts_from_the_injury_and_not_from_the_report() -> None:
    told = journal(
        (0, node("n"), "node.registered", READY, ()),
        (1810, node("n"), "node.health", UNHEALTHY, ()),
    )
    figures = measure(told, a_truth(injuries=(an_injury(1800),)))

    assert figures.detection.max_s == figures.cordon.max_s == 10.0
    assert figures.undetected == 0
    assert figures.gpu_hours.delivered == 4.0, "broken and in service is not delivered"
    assert figures.gpu_hours.lost == figures.gpu_hours.wasted == 4.0


def test_what_nobody_noticed_is_counted() -> None:
    told = journal((0, node("n"), "node.registered", READY, ()))

    assert measure(told, a_truth(injuries=(an_injury(10),))).undetected == 1


def test_a_successor_counts_once_it_serves() -> None:
    told = journal(
        (0, node("n"), "node.registered", READY, ()),
        (110, node("n"), "node.health", UNHEALTHY, ()),
        (111, node("n"), "node.retiring", READY, ()),
        (112, node("m"), "node.requested", {"phase": "requested"}, (node("n"),)),
        (300, node("m"), "node.registered", READY, ()),
    )

    assert measure(told, a_truth(injuries=(an_injury(100),))).replacement.max_s == 200.0


def test_a_sound_machine_out_of_service_is_a_false_cordon() -> None:
    told = journal(
        (0, node("n"), "node.registered", READY, ()),
        (50, node("n"), "node.health", UNHEALTHY, ()),
    )

    assert measure(told, a_truth()).false_cordons == 1
    assert measure(told, a_truth(injuries=(an_injury(40),))).false_cordons == 0
    order = Order(at=at(49), over=at(55))
    assert measure(told, a_truth(asked_out={NodeId("n"): [order]})).false_cordons == 0
    early = Order(at=at(10), over=at(49))
    assert measure(told, a_truth(asked_out={NodeId("n"): [early]})).false_cordons == 1
    assert measure(told, a_truth(injuries=(an_injury(60),))).false_cordons == 1, "too early"


def test_a_pool_that_shrinks_cordons_nobody_falsely() -> None:
    told = journal(
        (0, node("n"), "node.registered", READY, ()),
        (50, node("n"), "node.retiring", READY, ("pool/p",)),
    )

    assert measure(told, a_truth()).false_cordons == 0


def test_a_purchase_that_nobody_claims_is_a_leak() -> None:
    bought = Lease(node=NodeId("p-0"), gpus=8, began=at(0), ended=None, pool="p", token="launch-1")

    assert measure([], a_truth(leases=(bought,)), claimed=()).leaks == 1
    assert measure([], a_truth(leases=(bought,)), claimed={"launch-1"}).leaks == 0


def test_a_pool_wants_what_its_journal_says() -> None:
    bought = Lease(node=NodeId("p-0"), gpus=4, began=at(0), ended=None, pool="p", token="t")
    told = journal(
        (0, "pool/p", "pool.created", {"size": "2"}, ()),
        (1800, "pool/p", "pool.scaled", {"size": "1"}, ()),
        (0, node("p-0"), "node.registered", READY, ()),
    )

    figures = measure(told, a_truth(leases=(bought,)), claimed={"t"})

    assert figures.gpu_hours.wanted == 6.0
    assert figures.gpu_hours.delivered == 4.0
    assert figures.availability == round(4 / 6, 6)


def test_spreads_are_by_nearest_rank() -> None:
    spread = spread_of(range(1, 101))

    assert (spread.count, spread.p50_s, spread.p95_s, spread.max_s) == (100, 50, 95, 100)


def test_ettr_weighs_jobs_by_their_gpus() -> None:
    def job(gpus: int, kept_s: float) -> JobRecord:
        return JobRecord(
            name="j", queue="q", gpus=gpus, submitted=at(0), finished=None, kept_s=kept_s
        )

    assert goodput_of([job(8, 1800), job(24, 3600)], ended=at(3600)).ettr == 0.875

"""Rates with intervals, lemons, wear and stragglers."""

from collections.abc import Sequence
from datetime import timedelta
from random import Random

import pytest

from navarch.core.ids import IncidentId, NodeId
from navarch.core.incident import Incident, IncidentKind
from navarch.core.instance import Topology
from navarch.core.node import Node
from navarch.core.records import evolve
from navarch.health.learning.lemons import rate, score_lemons
from navarch.health.learning.stragglers import SlowStreak, update_streaks
from navarch.health.learning.wear import WearReading, days_left
from navarch.testing.worlds import NOW, a_node

DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("failures", "low", "high"),
    [(0, 0.0, 3.689), (1, 0.0253, 5.572), (5, 1.623, 11.668), (419, 379.8, 461.1)],
)
def test_a_count_has_the_published_poisson_interval(failures: int, low: float, high: float) -> None:
    found = rate(failures, 1000.0)

    assert found.low == pytest.approx(low, rel=0.02, abs=0.01)
    assert found.high == pytest.approx(high, rel=0.02)


def test_without_exposure_the_interval_has_no_upper_end() -> None:
    assert rate(0, 0.0).high == float("inf")


def nodes(count: int) -> dict[NodeId, Node]:
    born = NOW - 30 * DAY
    made = [a_node(f"n-{i}", registered_at=born, gpus=8) for i in range(count)]
    return {node.id: node for node in made}


def incident(
    number: int,
    node: str,
    *,
    gpu: str = "GPU-0",
    kind: IncidentKind = IncidentKind.HARDWARE,
    slot: str = "",
    host: str = "",
) -> Incident:
    at = NOW - number * timedelta(hours=5)
    return Incident(
        id=IncidentId(f"inc-{number}"),
        kind=kind,
        node=NodeId(node),
        nodes=(NodeId(node),),
        gpus=(gpu,),
        slots=(slot,) if slot else (),
        host=host,
        opened_at=at,
        last_at=at,
        title=f"XID {number}",
        check="xid",
        action="reset_gpu",
    )


def test_a_machine_that_fails_repeatedly_is_a_lemon_and_so_is_its_gpu() -> None:
    strikes = [incident(i, "n-7") for i in range(5)] + [incident(9, "n-3")]

    found = score_lemons(nodes(1000), strikes, now=NOW)

    assert [(each.node, each.gpu) for each in found if each.is_lemon] == [
        ("n-7", "GPU-0"),
        ("n-7", ""),
    ]
    assert [each.node for each in found if not each.is_lemon] == ["n-3"]


def test_a_slot_that_fails_with_several_gpus_is_the_lemon() -> None:
    strikes = [incident(i, "n-7", gpu=f"GPU-{i}", slot="0000:1b:00") for i in range(4)]

    found = score_lemons(nodes(1000), strikes, now=NOW)

    assert [(each.node, each.slot, each.gpu, each.strikes) for each in found] == [
        ("n-7", "0000:1b:00", "", 4),
        ("n-7", "", "", 4),
    ]


def test_a_gpu_that_fails_again_in_its_slot_is_listed_once_with_both() -> None:
    strikes = [incident(i, "n-7", gpu="GPU-a", slot="0000:1b:00") for i in range(3)]

    found = score_lemons(nodes(1000), strikes, now=NOW)

    assert [(each.slot, each.gpu) for each in found] == [("0000:1b:00", "GPU-a"), ("", "")]


def test_strikes_of_a_machine_count_for_the_next_node_placed_on_it() -> None:
    fleet = nodes(1000)
    again = evolve(fleet[NodeId("n-7")], topology=Topology(host="rack-3/host-12"))
    fleet[NodeId("n-7")] = again
    strikes = [incident(i, f"gone-{i}", host=again.host) for i in range(3)]
    strikes.append(incident(9, "n-3"))

    found = score_lemons(fleet, strikes, now=NOW)

    assert found[0].node == "n-7", "what failed there before is held against it"
    assert (found[0].host, found[0].strikes, found[0].is_lemon) == ("sim/rack-3/host-12", 3, True)


@pytest.mark.parametrize(
    ("labels", "topology", "host"),
    [
        ({}, None, ""),
        ({}, Topology(block="b"), ""),
        ({}, Topology(host="h-1"), "sim/h-1"),
        ({"serial": "S7"}, Topology(host="h-1"), "sim/S7"),
    ],
    ids=["nobody", "only a block", "provider", "agent first"],
)
def test_a_host_is_named_by_its_agent_or_its_provider(
    labels: dict[str, str], topology: Topology | None, host: str
) -> None:
    assert a_node("n-0", labels=labels, topology=topology).host == host


def test_application_faults_and_old_failures_make_no_lemon() -> None:
    programs = [incident(i, "n-1", kind=IncidentKind.APPLICATION) for i in range(9)]
    past = [incident(200 + i, "n-2") for i in range(9)]

    assert score_lemons(nodes(10), [*programs, *past], now=NOW) == []


def test_if_every_machine_fails_none_is_a_lemon() -> None:
    strikes = [incident(i, f"n-{i % 10}", gpu=f"GPU-{i}") for i in range(30)]

    assert not any(each.is_lemon for each in score_lemons(nodes(10), strikes, now=NOW))


def wearing(steps: Sequence[tuple[int, int, int, int, int]]) -> list[WearReading]:
    return [WearReading(at=NOW + i * DAY, banks=banks) for i, banks in enumerate(steps)]


def test_spare_rows_used_at_a_steady_rate_have_a_forecast() -> None:
    steps = [(640, 0, 0, 0, 0), (639, 1, 0, 0, 0), (639, 0, 1, 0, 0), (639, 0, 0, 1, 0)]

    found = days_left(wearing(steps))

    assert found is not None
    assert found.days == pytest.approx(1.0)
    assert 0 < found.low < found.days


def test_a_gpu_without_wear_has_no_forecast() -> None:
    assert days_left(wearing([(630, 8, 2, 0, 0)] * 90)) is None
    assert days_left([]) is None


def test_a_bank_without_a_spare_row_has_no_days_left() -> None:
    found = days_left(wearing([(639, 0, 0, 0, 1)]))

    assert found is not None
    assert found.days == 0


def test_one_of_512_that_is_a_tenth_slower_is_found_within_five_windows() -> None:
    for seed in range(20):
        chance = Random(seed)
        suspected: dict[str, SlowStreak] = {}
        windows = 0
        found: list[str] = []
        while "gpu-100" not in found:
            windows += 1
            values = {f"gpu-{i}": chance.gauss(100.0, 1.0) for i in range(512)}
            values["gpu-100"] *= 0.9
            suspected, stragglers = update_streaks(suspected, values)
            found = [each.name for each in stragglers]
            assert windows <= 5, f"seed {seed}"
        assert found == ["gpu-100"]


@pytest.mark.long
def test_no_sound_gpu_of_512_is_found_slow_in_a_day() -> None:
    chance = Random(1)
    suspected: dict[str, SlowStreak] = {}
    for _ in range(1440):
        values = {f"gpu-{i}": chance.gauss(100.0, 3.0) for i in range(512)}
        suspected, stragglers = update_streaks(suspected, values)
        assert stragglers == []


def test_three_peers_are_too_few_for_a_straggler() -> None:
    assert update_streaks({}, {"a": 1.0, "b": 100.0, "c": 100.0}) == ({}, [])

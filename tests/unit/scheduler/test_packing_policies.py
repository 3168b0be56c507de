"""Small worlds in which the policies differ."""

import numpy as np
import pytest
from bench.packing.pack import pack
from bench.packing.policies import POLICIES
from bench.packing.problem import PackingProblem
from bench.packing.trace import Trace
from bench.packing.worlds import machine, place, pod

from navarch.core.errors import InvalidError
from navarch.scheduler.packing.cutting import worth_of_rest
from navarch.scheduler.packing.slots import SlotKinds
from navarch.scheduler.packing.waste import Contention, Shortage, expected_waste

COMMON = 60
"""Enough pods for the first estimate of foresight."""


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_drops_a_pod_only_if_it_fits_nowhere(policy: str) -> None:
    nodes = [machine("a", gpus=2), machine("b", gpus=1, model="B")]

    where = place(policy, nodes, [pod(models=["B"]), pod(2), pod(1), pod(0)])

    assert where[:3] == ["b", "a", None]
    assert where[3] is not None


def test_best_fit_takes_the_node_on_which_least_is_left() -> None:
    assert place("best-fit", [machine("large"), machine("small", gpus=1)], [pod()]) == ["small"]


def test_packing_shares_a_gpu_in_use_before_it_opens_another() -> None:
    nodes = [machine("a", gpus=2), machine("b", gpus=2)]

    assert place("gpu-packing", nodes, [pod(1), pod(0.5), pod(0.5)]) == ["a", "a", "a"]


def test_clustering_keeps_pods_of_one_kind_together() -> None:
    nodes = [machine("a"), machine("b")]

    assert place("gpu-clustering", nodes, [pod(1), pod(0.5), pod(0.5), pod(1)]) == list("abba")


def test_fgd_fills_the_hole_that_typical_pods_cannot_use() -> None:
    nodes = [machine("a", gpus=1), machine("b", gpus=1)]
    pods = [pod(0.6), *[pod(0.4)] * 2]

    assert place("fgd", nodes, pods) == ["a", "a", "b"]


def test_foresight_leaves_a_model_to_pods_that_can_use_no_other() -> None:
    nodes = [machine("wanted", gpus=8, model="W"), machine("any", gpus=80)]
    picky, easy = pod(models=["W"]), pod()
    pods = [easy, picky] * 4 + [easy] * COMMON

    where = place("foresight", nodes, pods)

    assert where[COMMON:] == ["any"] * 8


def test_foresight_keeps_a_machine_whole_for_pods_that_need_all_of_it() -> None:
    nodes = [machine(f"m{index}") for index in range(10)]
    pods = ([pod(8, cpu=90)] + [pod(1, cpu=11)] * 16) * 4

    where = place("foresight", nodes, pods)

    accepted = [
        node is not None for node, shape in zip(where, pods, strict=True) if shape.gpus == 8
    ]
    assert accepted[:3] == [True] * 3


def test_foresight_puts_work_without_gpus_beside_gpus_that_are_taken() -> None:
    nodes = [machine("history", gpus=60, cpu=720), machine("idle"), machine("taken", model="T")]
    history = [pod(1, cpu=12)] * 60

    where = place("foresight", nodes, [*history, pod(8, cpu=8, models=["T"]), pod(0, cpu=12)])

    assert where[-2:] == ["taken", "taken"]


def test_foresight_does_not_depend_on_pods_that_arrive_later() -> None:
    nodes = [machine(f"m{index}", model="AB"[index % 2]) for index in range(12)]
    past = [pod(1, cpu=9), pod(0.5), pod(4, cpu=40), pod(0, cpu=8)] * 30
    futures = [pod(8, cpu=90)] * 20, [pod(0.3, models=["B"])] * 20

    one, other = (place("foresight", nodes, past + future)[: len(past)] for future in futures)

    assert one == other


def test_room_that_common_pods_fill_is_less_waste_than_room_that_none_fits() -> None:
    waste = expected_waste({500: 3, 300: 1})

    assert waste[1000] < waste[700]  # two halves fill a whole; 700 leaves 200, or 100
    assert waste[299] == 299
    assert waste[0] == 0


def test_filling_a_half_used_gpu_gains_more_than_opening_another() -> None:
    waste = expected_waste({460: 1, 470: 1})

    assert waste[1000] - waste[540] < waste[540] - waste[80]


def test_the_rest_of_a_gpu_has_value_only_if_enough_pods_can_fill_it() -> None:
    few_matches = worth_of_rest({600: 20, 400: 10})
    many_matches = worth_of_rest({600: 10, 400: 20})

    assert few_matches[400] == 0
    assert many_matches[399] == 0
    assert many_matches[400] == pytest.approx(1 / 2)  # the others share GPUs in pairs
    assert many_matches[600] == pytest.approx(1 / 2)


def test_a_pod_that_nothing_fits_beside_takes_a_whole_gpu() -> None:
    assert worth_of_rest({810: 10, 230: 1})[810] == pytest.approx(1)


def test_the_rest_of_a_gpu_has_no_value_if_no_pod_shares_gpus() -> None:
    assert list(worth_of_rest({1000: 5})[[0, 500, 999, 1000]]) == [0, 0, 0, 1]


def test_without_pods_everything_left_counts_as_waste() -> None:
    assert list(expected_waste({})[[0, 500, 1000]]) == [0, 500, 1000]


def test_gpus_beside_too_little_cpu_count_as_shortage() -> None:
    plenty, some, none = Shortage(10).of_each(
        np.array([80_000.0, 40_000.0, 0.0]), np.array([4000.0, 4000.0, 4000.0])
    )

    assert plenty == 0 < some < none


def test_a_slot_is_worth_more_the_fewer_there_are() -> None:
    problem = PackingProblem.of([machine(f"m{index}") for index in range(20)], [pod(8, cpu=90)])
    slots = SlotKinds(problem.shapes, problem.kinds, {0: 20}, problem.could_use)
    slots.count(0, 40_000)  # five of them

    many, few = (slots.worth(np.array([n, 20.0]), more=1)[0] for n in (20.0, 6.0))

    assert many < 1 < few <= 8000


def test_untouched_machines_are_kept_while_few_pods_have_arrived() -> None:
    problem = PackingProblem.of([machine(f"m{index}") for index in range(20)], [pod(8, cpu=90)])
    slots = SlotKinds(problem.shapes, problem.kinds, {0: 20}, problem.could_use)
    half = np.array([10.0, 10.0])

    early, late = (slots.worth(half, more=more)[1] for more in (16, 1))

    assert early > 4000
    assert late < 1


def test_only_machines_that_some_pods_depend_on_have_a_price() -> None:
    problem = PackingProblem.of([machine("w", model="W"), machine("o")], [pod(models=["W"]), pod()])
    contention = Contention(problem.shapes, problem.could_use)
    contention.count(0, 4000)
    contention.count(1, 4000)

    wanted, other = contention.prices(np.array([8000.0, 8000.0]), more=1)

    assert wanted > other == 0


def test_an_unknown_policy_is_rejected_with_the_list_of_policies() -> None:
    trace = Trace(machines=(machine("a"),), pods=(pod(),))

    with pytest.raises(InvalidError, match="no 'fdg'; choose one of foresight, fgd"):
        pack(trace, policy="fdg")


def test_a_load_of_zero_is_rejected() -> None:
    trace = Trace(machines=(machine("a"),), pods=(pod(),))

    with pytest.raises(InvalidError, match="arrive: 0"):
        pack(trace, load=0)

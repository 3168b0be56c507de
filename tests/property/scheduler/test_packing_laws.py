"""Laws of packing: no double allocation, no drop of a pod that fits, one result per seed."""

from collections import Counter
from dataclasses import dataclass

import pytest
from bench.packing.pack import pack
from bench.packing.policies import POLICIES
from bench.packing.policy import ScoreTable
from bench.packing.problem import FreeCapacity, PackingProblem
from bench.packing.trace import Machine, Trace
from hypothesis import given, settings
from hypothesis import strategies as st

from navarch.scheduler.packing.cutting import worth_of_rest
from navarch.scheduler.packing.shape import Shape

MODELS = ("A", "B", "C")


@dataclass
class Left:
    cpu: int
    memory: int
    gpus: list[int]


@st.composite
def machines(draw: st.DrawFn) -> list[Machine]:
    sizes = draw(
        st.lists(
            st.tuples(
                st.integers(1, 20), st.integers(1, 20), st.integers(0, 8), st.sampled_from(MODELS)
            ),
            min_size=1,
            max_size=6,
        )
    )
    return [
        Machine(f"m{index}", cpu * 1000, memory, gpus, model)
        for index, (cpu, memory, gpus, model) in enumerate(sizes)
    ]


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    gpus = draw(st.sampled_from([0, 1, 1, 1, 2, 4, 8]))
    milli = draw(st.integers(1, 1000)) if gpus == 1 else 1000 * bool(gpus)
    models = draw(st.lists(st.sampled_from(MODELS), max_size=2, unique=True)) if gpus else []
    return Shape(
        draw(st.integers(0, 9)) * 1000, draw(st.integers(0, 9)), gpus, milli, tuple(sorted(models))
    )


pods = st.lists(shapes(), min_size=1, max_size=90)


@given(policy=st.sampled_from(sorted(POLICIES)), nodes=machines(), wanted=pods)
@settings(max_examples=150, deadline=None)
def test_no_policy_allocates_twice_or_drops_a_pod_that_fits(
    policy: str, nodes: list[Machine], wanted: list[Shape]
) -> None:
    distinct = tuple(dict.fromkeys(wanted))
    problem, arrivals = PackingProblem.of(nodes, distinct), [distinct.index(pod) for pod in wanted]
    free = FreeCapacity(problem)
    chosen = POLICIES[policy](problem, free, arrivals, 0)
    table = ScoreTable(free, chosen)
    left = {n: Left(m.cpu_milli, m.memory_mib, [1000] * m.gpus) for n, m in enumerate(nodes)}

    for shape in arrivals:
        if chosen.arrived(shape):
            table.rebuild()
        node, pod = table.best(shape), distinct[shape]
        fitting = [n for n in left if _fits(pod, nodes[n], left[n])]
        if node is None:
            assert not fitting
            continue
        assert node in fitting
        device = chosen.device(shape, node) if pod.shares else -1
        free.allocate(shape, node, device)
        chosen.placed(shape, node)
        table.refresh(node)
        _allocate(pod, left[node], device)
        assert (free.cpu[node], free.memory[node]) == (left[node].cpu, left[node].memory)
        assert Counter(free.gpus[node]) == Counter(left[node].gpus)


@given(policy=st.sampled_from(sorted(POLICIES)), nodes=machines(), wanted=pods, seed=st.integers(0))
@settings(max_examples=60, deadline=None)
def test_the_same_seed_gives_the_same_run(
    policy: str, nodes: list[Machine], wanted: list[Shape], seed: int
) -> None:
    nodes.append(Machine("gpu", 9000, 9, 1, "A"))
    trace = Trace(machines=tuple(nodes), pods=(*wanted, Shape(0, 0, 1, 500)))

    one, other = (pack(trace, policy=policy, seed=seed) for _ in range(2))

    assert one.nodes == other.nodes
    # No pod arrives if the first one exceeds the load, so these hold for an empty run, too.
    assert (one.allocated <= one.arrived).all()
    assert (one.allocated <= one.capacity).all()
    assert (one.arrived <= 1.3 * one.capacity).all()


@given(requested=st.dictionaries(st.integers(1, 999), st.integers(1, 50), min_size=1, max_size=12))
@settings(max_examples=150, deadline=None)
def test_no_combination_that_fits_is_worth_more_than_its_gpu(requested: dict[int, int]) -> None:
    worth = worth_of_rest(requested)

    assert worth[0] == 0
    assert worth[1000] == pytest.approx(1)
    for size in requested:
        # A pod and the rest of its GPU are together worth at most the GPU.
        assert (worth[size:] >= worth[: 1001 - size] + worth[size] - 1e-6).all()


@given(requested=st.dictionaries(st.integers(1, 999), st.integers(1, 50), min_size=1, max_size=12))
@settings(max_examples=150, deadline=None)
def test_the_total_value_of_pods_is_the_number_of_gpus_in_the_best_plan(
    requested: dict[int, int],
) -> None:
    worth = worth_of_rest(requested)

    total = sum(count * worth[size] for size, count in requested.items())

    assert sum(size * count for size, count in requested.items()) / 1000 <= total + 1e-6
    assert total <= _first_fit(requested) + 1e-6


def _first_fit(requested: dict[int, int]) -> int:
    """Return the number of GPUs of first-fit decreasing."""
    left: list[int] = []
    for size in sorted(requested, reverse=True):
        for _ in range(requested[size]):
            fitting = [index for index, milli in enumerate(left) if milli >= size]
            if fitting:
                left[fitting[0]] -= size
            else:
                left.append(1000 - size)
    return len(left)


def _fits(pod: Shape, node: Machine, left: Left) -> bool:
    enough = pod.cpu_milli <= left.cpu and pod.memory_mib <= left.memory
    devices = sum(milli >= pod.gpu_milli for milli in left.gpus) >= pod.gpus
    return enough and devices and (not pod.models or node.model in pod.models)


def _allocate(pod: Shape, left: Left, device: int) -> None:
    """Allocate by the rules, independently of the code under test."""
    left.cpu -= pod.cpu_milli
    left.memory -= pod.memory_mib
    if pod.shares:
        assert left.gpus[device] >= pod.gpu_milli
        left.gpus[device] -= pod.gpu_milli
        return
    for _ in range(pod.gpus):
        left.gpus[left.gpus.index(1000)] = 0

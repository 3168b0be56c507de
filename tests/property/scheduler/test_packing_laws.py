"""Laws of packing: nothing is given twice, nothing is refused that fits, a seed is a seed."""

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navarch.scheduler.packing.books import Books
from navarch.scheduler.packing.cutting import worth_of_rest
from navarch.scheduler.packing.pack import pack
from navarch.scheduler.packing.policies import POLICIES
from navarch.scheduler.packing.policy import ScoreTable
from navarch.scheduler.packing.stage import set_stage
from navarch.scheduler.packing.trace import Machine, Shape, Trace

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
def test_no_policy_gives_anything_twice_or_refuses_what_fits(
    policy: str, nodes: list[Machine], wanted: list[Shape]
) -> None:
    distinct = tuple(dict.fromkeys(wanted))
    stage, arrivals = set_stage(nodes, distinct), [distinct.index(pod) for pod in wanted]
    books = Books(stage)
    chosen = POLICIES[policy](stage, books, arrivals, 0)
    table = ScoreTable(books, chosen)
    left = {n: Left(m.cpu_milli, m.memory_mib, [1000] * m.gpus) for n, m in enumerate(nodes)}

    for shape in arrivals:
        if chosen.arrived(shape):
            table.rebuild()
        node, asked = table.best(shape), distinct[shape]
        fitting = [n for n in left if _fits(asked, nodes[n], left[n])]
        if node is None:
            assert not fitting
            continue
        assert node in fitting
        device = chosen.device(shape, node) if asked.shares else -1
        books.take(shape, node, device)
        chosen.placed(shape, node)
        table.refresh(node)
        _take(asked, left[node], device)
        assert (books.cpu[node], books.memory[node]) == (left[node].cpu, left[node].memory)
        assert Counter(books.gpus[node]) == Counter(left[node].gpus)


@given(policy=st.sampled_from(sorted(POLICIES)), nodes=machines(), wanted=pods, seed=st.integers(0))
@settings(max_examples=60, deadline=None)
def test_the_same_seed_gives_the_same_run(
    policy: str, nodes: list[Machine], wanted: list[Shape], seed: int
) -> None:
    nodes.append(Machine("gpu", 9000, 9, 1, "A"))
    trace = Trace(machines=tuple(nodes), pods=(*wanted, Shape(0, 0, 1, 500)))

    one, other = (pack(trace, policy=policy, seed=seed) for _ in range(2))

    assert one.nodes == other.nodes
    assert one.allocated[-1] <= min(one.arrived[-1], one.capacity)
    assert one.arrived[-1] <= 1.3 * one.capacity


@given(asked=st.dictionaries(st.integers(1, 999), st.integers(1, 50), min_size=1, max_size=12))
@settings(max_examples=150, deadline=None)
def test_no_combination_that_fits_is_worth_more_than_its_gpu(asked: dict[int, int]) -> None:
    worth = worth_of_rest(asked)

    assert worth[0] == 0
    assert worth[1000] == pytest.approx(1)
    for size in asked:
        # Beside what is worth so much there is room for no more than the rest.
        assert (worth[size:] >= worth[: 1001 - size] + worth[size] - 1e-6).all()


@given(asked=st.dictionaries(st.integers(1, 999), st.integers(1, 50), min_size=1, max_size=12))
@settings(max_examples=150, deadline=None)
def test_all_pods_are_worth_the_gpus_they_need_in_the_best_plan(asked: dict[int, int]) -> None:
    worth = worth_of_rest(asked)

    total = sum(count * worth[size] for size, count in asked.items())

    assert sum(size * count for size, count in asked.items()) / 1000 <= total + 1e-6
    assert total <= _first_fit(asked) + 1e-6


def _first_fit(asked: dict[int, int]) -> int:
    """Return how many GPUs it takes when the largest go first, each where it fits."""
    left: list[int] = []
    for size in sorted(asked, reverse=True):
        for _ in range(asked[size]):
            fitting = [index for index, milli in enumerate(left) if milli >= size]
            if fitting:
                left[fitting[0]] -= size
            else:
                left.append(1000 - size)
    return len(left)


def _fits(asked: Shape, node: Machine, left: Left) -> bool:
    enough = asked.cpu_milli <= left.cpu and asked.memory_mib <= left.memory
    devices = sum(milli >= asked.gpu_milli for milli in left.gpus) >= asked.gpus
    return enough and devices and (not asked.models or node.model in asked.models)


def _take(asked: Shape, left: Left, device: int) -> None:
    """Keep other books, from the rules and not from the code."""
    left.cpu -= asked.cpu_milli
    left.memory -= asked.memory_mib
    if asked.shares:
        assert left.gpus[device] >= asked.gpu_milli
        left.gpus[device] -= asked.gpu_milli
        return
    for _ in range(asked.gpus):
        left.gpus[left.gpus.index(1000)] = 0

"""One run: pods arrive one by one, are placed or dropped, and never move."""

from __future__ import annotations

import numpy as np

from navarch.core.errors import InvalidError
from navarch.testing.packing.arrivals import draw_arrivals, shuffle_machines
from navarch.testing.packing.policies import DEFAULT_POLICY, MakePolicy, policy_named
from navarch.testing.packing.policy import ScoreTable
from navarch.testing.packing.problem import FreeCapacity, PackingProblem
from navarch.testing.packing.result import PackingResult
from navarch.testing.packing.trace import Trace

LOAD_MAX = 10.0
"""Results do not change above about five times the capacity of the cluster."""


def pack(
    trace: Trace, *, policy: str = DEFAULT_POLICY, load: float = 1.3, seed: int = 42
) -> PackingResult:
    """Return how a policy fills the cluster while pods worth `load` times its GPUs arrive."""
    return pack_with(policy_named(policy), trace, name=policy, load=load, seed=seed)


def pack_with(
    make: MakePolicy, trace: Trace, *, name: str, load: float, seed: int
) -> PackingResult:
    """Run `pack` with any policy, called `name` in the result."""
    if not 0 < load <= LOAD_MAX:
        raise InvalidError(f"arrive: {load:g} is not between 0 and {LOAD_MAX:g} times the cluster")
    shapes = tuple(dict.fromkeys(trace.pods))
    numbers = {shape: number for number, shape in enumerate(shapes)}
    pods = np.array([numbers[pod] for pod in trace.pods], dtype=np.int64)
    demand = np.array([shape.demand for shape in shapes], dtype=np.int64)
    order = shuffle_machines(len(trace.machines), seed=seed)
    problem = PackingProblem.of((trace.machines[index] for index in order), shapes)
    arrivals = draw_arrivals(pods, demand, wanted=load * trace.capacity, seed=seed).tolist()
    nodes = place_all(make, problem, arrivals, pods.tolist(), seed=seed)
    return PackingResult.of(problem, arrivals, nodes, policy=name, load=load, seed=seed)


def place_all(
    make: MakePolicy, problem: PackingProblem, arrivals: list[int], pods: list[int], *, seed: int
) -> list[int | None]:
    """Return the node of each pod, None if dropped; arrivals are drawn from the list `pods`."""
    free = FreeCapacity(problem)
    policy = make(problem, free, pods, seed)
    table = ScoreTable(free, policy)
    nodes: list[int | None] = []
    for shape in arrivals:
        if policy.arrived(shape):
            table.rebuild()
        node = table.best(shape)
        nodes.append(node)
        if node is None:
            continue
        device = policy.device(shape, node) if problem.shapes[shape].shares else -1
        free.allocate(shape, node, device)
        policy.placed(shape, node)
        table.refresh(node)
    return nodes

"""One run: pods arrive one by one, are placed or dropped, and never move."""

from __future__ import annotations

import numpy as np

from bench.packing.policies import DEFAULT_POLICY, MakePolicy, policy_named
from bench.packing.policy import ScoreTable
from bench.packing.problem import FreeCapacity, PackingProblem
from bench.packing.result import PackingResult
from bench.packing.trace import Trace
from navarch.core.errors import InvalidError
from navarch.scheduler.packing.shape import Ids

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


def draw_arrivals(pods: Ids, demand: Ids, *, wanted: float, seed: int) -> Ids:
    """Return pods (as shape ids) with a total demand of at most `wanted`, in random order.

    If the list requests less than `wanted`, the arrivals are the whole list plus pods drawn from
    it with replacement. If it requests more, pods are removed from it at random.
    """
    chance = np.random.default_rng(seed)
    requested = int(demand[pods].sum())
    chosen = _add(pods, demand, wanted - requested, chance)
    if requested > wanted:
        chosen = _remove(pods, demand, requested - wanted, chance)
    return chance.permutation(chosen)


def shuffle_machines(count: int, *, seed: int) -> Ids:
    """Return the order in which machines are listed; the first of equally good machines wins.

    The order is drawn separately from the arrivals, so one seed gives every policy the same pods
    and the same machines.
    """
    return np.random.default_rng([seed, count]).permutation(count)


def _add(pods: Ids, demand: Ids, room: float, chance: np.random.Generator) -> Ids:
    parts, step = [pods], max(1024, len(pods))
    while room >= 0:
        drawn = pods[chance.integers(0, len(pods), step)]
        total = np.cumsum(demand[drawn])
        kept = int(np.searchsorted(total, room, side="right"))
        parts.append(drawn[:kept])
        if kept < step:
            break
        room -= float(total[-1])
    return np.concatenate(parts)


def _remove(pods: Ids, demand: Ids, excess: float, chance: np.random.Generator) -> Ids:
    order = pods[chance.permutation(len(pods))]
    gone = int(np.searchsorted(np.cumsum(demand[order]), excess, side="left")) + 1
    return order[gone:]

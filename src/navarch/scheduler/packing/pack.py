"""One run of the protocol: pods come one by one, are placed or dropped, and nothing moves."""

from __future__ import annotations

import numpy as np

from navarch.core.errors import InvalidError
from navarch.scheduler.packing.arrivals import draw_arrivals, shuffle_machines
from navarch.scheduler.packing.books import Books
from navarch.scheduler.packing.outcome import Outcome
from navarch.scheduler.packing.policies import DEFAULT_POLICY, MakePolicy, policy_named
from navarch.scheduler.packing.policy import ScoreTable
from navarch.scheduler.packing.stage import Stage, set_stage
from navarch.scheduler.packing.trace import Trace

MOST_LOAD = 10.0
"""Ten times what the cluster has says nothing that five times does not."""


def pack(
    trace: Trace, *, policy: str = DEFAULT_POLICY, load: float = 1.3, seed: int = 42
) -> Outcome:
    """Return how a policy fills the cluster while pods worth `load` times its GPUs arrive."""
    return pack_with(policy_named(policy), trace, name=policy, load=load, seed=seed)


def pack_with(make: MakePolicy, trace: Trace, *, name: str, load: float, seed: int) -> Outcome:
    """Return the same for a policy of one's own, called `name` in the outcome."""
    if not 0 < load <= MOST_LOAD:
        raise InvalidError(f"arrive: {load:g} is not between 0 and {MOST_LOAD:g} times the cluster")
    shapes = tuple(dict.fromkeys(trace.pods))
    numbers = {shape: number for number, shape in enumerate(shapes)}
    pods = np.array([numbers[pod] for pod in trace.pods], dtype=np.int64)
    demand = np.array([shape.demand for shape in shapes], dtype=np.int64)
    order = shuffle_machines(len(trace.machines), seed=seed)
    stage = set_stage((trace.machines[index] for index in order), shapes)
    arrivals = draw_arrivals(pods, demand, wanted=load * trace.capacity, seed=seed).tolist()
    nodes = place_all(make, stage, arrivals, pods.tolist(), seed=seed)
    return Outcome.of(stage, arrivals, nodes, policy=name, load=load, seed=seed)


def place_all(
    make: MakePolicy, stage: Stage, arrivals: list[int], pods: list[int], *, seed: int
) -> list[int | None]:
    """Return where each pod goes, if anywhere; `pods` is the list that arrivals were drawn from."""
    books = Books(stage)
    chosen = make(stage, books, pods, seed)
    table = ScoreTable(books, chosen)
    nodes: list[int | None] = []
    for shape in arrivals:
        if chosen.arrived(shape):
            table.rebuild()
        node = table.best(shape)
        nodes.append(node)
        if node is None:
            continue
        device = chosen.device(shape, node) if stage.shapes[shape].shares else -1
        books.take(shape, node, device)
        chosen.placed(shape, node)
        table.refresh(node)
    return nodes

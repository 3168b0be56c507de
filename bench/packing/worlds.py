"""Small made-up clusters to pack, in a test or at a prompt.

place("foresight", [machine("a"), machine("b", gpus=1)], [pod(0.5), pod(8), pod(0)])
"""

from collections.abc import Sequence

from bench.packing.pack import place_all
from bench.packing.policies import policy_named
from bench.packing.problem import PackingProblem
from bench.packing.trace import Machine
from navarch.scheduler.packing.shape import WHOLE, Shape


def machine(name: str, *, gpus: int = 8, cpu: int = 96, model: str = "A") -> Machine:
    """Return a node with these GPUs and cores, and plenty of memory."""
    return Machine(name, cpu * 1000, 1_000_000, gpus, model)


def pod(gpus: float = 1, *, cpu: int = 1, models: Sequence[str] = ()) -> Shape:
    """Return a pod that requests whole GPUs, or a part of one."""
    if 0 < gpus < 1:
        return Shape(cpu * 1000, 1, 1, round(gpus * WHOLE), tuple(models))
    return Shape(cpu * 1000, 1, int(gpus), WHOLE if gpus else 0, tuple(models))


def place(policy: str, machines: Sequence[Machine], pods: Sequence[Shape]) -> list[str | None]:
    """Return the node of each pod; machines win ties in the order given."""
    shapes = tuple(dict.fromkeys(pods))
    problem = PackingProblem.of(machines, shapes)
    arrivals = [shapes.index(one) for one in pods]
    nodes = place_all(policy_named(policy), problem, arrivals, arrivals, seed=1)
    return [None if node is None else machines[node].name for node in nodes]

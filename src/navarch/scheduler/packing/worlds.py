"""Small made-up clusters to pack: in a test, at a prompt.

place("foresight", [machine("a"), machine("b", gpus=1)], [pod(0.5), pod(8), pod(0)])
"""

from collections.abc import Sequence

from navarch.scheduler.packing.pack import place_all
from navarch.scheduler.packing.policies import policy_named
from navarch.scheduler.packing.stage import set_stage
from navarch.scheduler.packing.trace import WHOLE, Machine, Shape


def machine(name: str, *, gpus: int = 8, cpu: int = 96, model: str = "A") -> Machine:
    """Return a node with so many GPUs and cores, and plenty of memory."""
    return Machine(name, cpu * 1000, 1_000_000, gpus, model)


def pod(gpus: float = 1, *, cpu: int = 1, models: Sequence[str] = ()) -> Shape:
    """Return a pod that asks for whole GPUs, or for a part of one."""
    if 0 < gpus < 1:
        return Shape(cpu * 1000, 1, 1, round(gpus * WHOLE), tuple(models))
    return Shape(cpu * 1000, 1, int(gpus), WHOLE if gpus else 0, tuple(models))


def place(policy: str, machines: Sequence[Machine], pods: Sequence[Shape]) -> list[str | None]:
    """Return where each pod goes, machines winning ties in the order given."""
    shapes = tuple(dict.fromkeys(pods))
    stage = set_stage(machines, shapes)
    arrivals = [shapes.index(one) for one in pods]
    nodes = place_all(policy_named(policy), stage, arrivals, arrivals, seed=1)
    return [None if node is None else machines[node].name for node in nodes]

"""The placement policies by name."""

from collections.abc import Callable
from typing import Final

from bench.packing.policies.baselines import (
    BestFit,
    DotProduct,
    GpuClustering,
    GpuPacking,
    RandomPlacement,
)
from bench.packing.policies.fgd import FragmentationGradient
from bench.packing.policies.foresight import ForesightPolicy
from bench.packing.policy import Policy
from bench.packing.problem import FreeCapacity, PackingProblem
from navarch.core.errors import InvalidError

MakePolicy = Callable[[PackingProblem, FreeCapacity, list[int], int], Policy]

DEFAULT_POLICY: Final = "foresight"

POLICIES: Final[dict[str, MakePolicy]] = {
    "foresight": ForesightPolicy,
    "fgd": FragmentationGradient,
    "best-fit": BestFit,
    "dot-product": DotProduct,
    "gpu-packing": GpuPacking,
    "gpu-clustering": GpuClustering,
    "random": RandomPlacement,
}


def policy_named(name: str) -> MakePolicy:
    """Return the constructor of a policy.

    Raises:
        InvalidError: No policy has this name; the message lists the names.
    """
    if name not in POLICIES:
        raise InvalidError(f"policy: there is no {name!r}; choose one of {', '.join(POLICIES)}")
    return POLICIES[name]

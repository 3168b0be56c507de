"""The policies by name."""

from collections.abc import Callable
from typing import Final

from navarch.core.errors import InvalidError
from navarch.scheduler.packing.books import Books
from navarch.scheduler.packing.policies.best_fit import BestFit
from navarch.scheduler.packing.policies.chance import Chance
from navarch.scheduler.packing.policies.dot_product import DotProduct
from navarch.scheduler.packing.policies.fgd import FragmentationGradient
from navarch.scheduler.packing.policies.foresight import Foresight
from navarch.scheduler.packing.policies.gpu_clustering import GpuClustering
from navarch.scheduler.packing.policies.gpu_packing import GpuPacking
from navarch.scheduler.packing.policy import Policy
from navarch.scheduler.packing.stage import Stage

MakePolicy = Callable[[Stage, Books, list[int], int], Policy]

DEFAULT_POLICY: Final = "foresight"

POLICIES: Final[dict[str, MakePolicy]] = {
    "foresight": Foresight,
    "fgd": FragmentationGradient,
    "best-fit": BestFit,
    "dot-product": DotProduct,
    "gpu-packing": GpuPacking,
    "gpu-clustering": GpuClustering,
    "random": Chance,
}


def policy_named(name: str) -> MakePolicy:
    """Return what makes the policy, or say which there are."""
    if name not in POLICIES:
        raise InvalidError(f"policy: there is no {name!r}; choose one of {', '.join(POLICIES)}")
    return POLICIES[name]

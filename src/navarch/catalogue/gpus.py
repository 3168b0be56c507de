"""GPU types as users write them: `h100`, `a100-80gb`, `h100-8x`."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

_COUNTED = re.compile(r"(?P<model>.+)-(?P<gpus>[1-9]\d{0,3})x")
_VENDORS = ("nvidia", "amd", "tesla")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuType:
    """A requested GPU model; with `gpus`, only machines with exactly that many."""

    model: str
    gpus: int | None = None

    def covers(self, model: str, gpus: int, instance_type: str = "") -> bool:
        """Return whether a machine with `gpus` GPUs of `model` matches.

        `h100` matches every H100, `h100-sxm` only those with SXM, `a100` also the one with 80 GB.
        A provider's name for a machine matches that machine.
        """
        written = self.model if self.gpus is None else f"{self.model}-{self.gpus}x"
        if instance_type.lower() == written:
            return True
        if self.gpus is not None and gpus != self.gpus:
            return False
        wanted, offered = _words(self.model), _words(model)
        return bool(offered) and wanted[:1] == offered[:1] and set(wanted) <= set(offered)


def parse_gpu_type(text: str) -> GpuType:
    """Return the GPU type that a text names."""
    word = text.strip().lower()
    found = _COUNTED.fullmatch(word)
    if found is None:
        return GpuType(model=word)
    return GpuType(model=found["model"], gpus=int(found["gpus"]))


def machines_for_gpus(machines: Iterable[T], wanted: int, gpus_of: Callable[[T], int]) -> list[T]:
    """Return the `machines` of the best size for `wanted` GPUs.

    These are machines with exactly that many, if there are any: eight GPUs with a fast
    interconnect are not eight machines. Otherwise the largest that are smaller, several of which
    are needed; otherwise the smallest.
    """
    known = list(machines)
    sizes = {gpus_of(machine) for machine in known}
    if not sizes:
        return []
    smaller = [size for size in sizes if size <= wanted]
    size = max(smaller) if smaller else min(sizes)
    return [machine for machine in known if gpus_of(machine) == size]


def _words(model: str) -> list[str]:
    words = [word for word in re.split(r"[\s_-]+", model.lower()) if word]
    return [word for word in words if word not in _VENDORS]

"""What machines are made of: the catalogue of instance types, as far as GPUs go."""

import csv
from functools import cache
from importlib import resources

from navarch.core.machine import MachineKind


def find_kind(provider: str, instance_type: str) -> MachineKind | None:
    """Return the catalogue's row of a machine, if it has one.

    Without a provider, or with one of a name that somebody else gave it, the type alone must do:
    it does where only one provider has such a type.
    """
    of_type = [kind for kind in _catalogue() if kind.instance_type == instance_type]
    known = any(kind.provider == provider for kind in _catalogue())
    found = [kind for kind in of_type if not known or kind.provider == provider]
    return found[0] if len(found) == 1 else None


@cache
def _catalogue() -> tuple[MachineKind, ...]:
    text = (resources.files("navarch.health") / "machines.csv").read_text()
    return tuple(
        MachineKind(
            provider=row["provider"],
            instance_type=row["instance_type"],
            gpu_model=row["gpu_model"],
            gpus=int(row["gpus"]),
            gpu_memory_gib=float(row["gpu_memory_gib"]),
        )
        for row in csv.DictReader(text.splitlines())
    )

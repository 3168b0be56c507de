"""The hardware that a machine type should have, for checks that compare with it."""

from functools import cache

from navarch.catalogue.machines import all_machines
from navarch.core.inventory import MachineKind


def find_kind(provider: str, instance_type: str) -> MachineKind | None:
    """Return the catalogue's entry for a machine type, if there is exactly one.

    An empty provider, or one that the catalogue does not list, is ignored: then the type must be
    unique among all providers.
    """
    of_type = [kind for kind in _kinds() if kind.instance_type == instance_type]
    known = any(kind.provider == provider for kind in _kinds())
    found = [kind for kind in of_type if not known or kind.provider == provider]
    return found[0] if len(found) == 1 else None


@cache
def _kinds() -> tuple[MachineKind, ...]:
    return tuple(
        MachineKind(
            provider=machine.provider,
            instance_type=machine.instance_type,
            gpu_model=machine.gpu_model,
            gpus=machine.gpus,
            gpu_memory_gib=machine.gpu_memory_gib,
        )
        for machine in all_machines()
    )

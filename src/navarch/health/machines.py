"""What machines are made of, as far as their checks need to know."""

from functools import cache

from navarch.catalogue.machines import all_machines
from navarch.core.machine import MachineKind


def find_kind(provider: str, instance_type: str) -> MachineKind | None:
    """Return the catalogue's row of a machine, if it has one.

    Without a provider, or with one of a name that somebody else gave it, the type alone must do:
    it does where only one provider has such a type.
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

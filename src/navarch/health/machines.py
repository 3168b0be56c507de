"""The hardware that a machine type should have, for checks that compare with it."""

from navarch.catalogue.machines import all_machines
from navarch.core.inventory import MachineKind


def find_kind(provider: str, instance_type: str) -> MachineKind | None:
    """Return the catalogue's entry for a machine type, if there is exactly one.

    An empty provider, or one that the catalogue does not list, is ignored: then the type must be
    unique among all providers.
    """
    machines = all_machines()
    is_known = any(machine.provider == provider for machine in machines)
    found = [
        machine
        for machine in machines
        if machine.instance_type == instance_type and (machine.provider == provider or not is_known)
    ]
    if len(found) != 1:
        return None
    return MachineKind(
        provider=found[0].provider,
        instance_type=instance_type,
        gpu_model=found[0].gpu_model,
        gpus=found[0].gpus,
        gpu_memory_gib=found[0].gpu_memory_gib,
    )

"""What a kind of machine is made of, according to the catalogue."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineKind:
    """One row of the catalogue of instance types, as far as its GPUs go."""

    provider: str
    instance_type: str
    gpu_model: str
    gpus: int
    gpu_memory_gib: float
    """Of each GPU, as advertised."""

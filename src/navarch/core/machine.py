"""Kinds of machine according to the catalogue."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineKind:
    """The GPUs of one instance type in the catalogue."""

    provider: str
    instance_type: str
    gpu_model: str
    gpus: int
    gpu_memory_gib: float
    """The advertised memory of each GPU."""

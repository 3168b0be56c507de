"""Names, GPUs and prices of instance types, by type of provider, such as `lambda`."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from navarch.catalogue.gpu_types import GpuType, parse_words
from navarch.catalogue.machines import CataloguedMachine, all_machines, find_machine


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineKind:
    """One instance type at one type of provider."""

    instance_type: str
    gpus: int
    gpu_type: str = ""
    price_per_hour: Decimal = Decimal(0)
    """Zero if unknown."""
    spot_per_hour: Decimal = Decimal(0)
    """The approximate spot price, which varies. Zero if unknown."""


@dataclass(frozen=True, slots=True)
class AbstractType:
    """A kind of machine that several clouds sell under different names."""

    gpus: int
    gpu_type: str
    names: Mapping[str, str]
    """By provider type."""


ABSTRACT_TYPES: Mapping[str, AbstractType] = {
    "h100-8x": AbstractType(
        8, "H100", {"lambda": "gpu_8x_h100_sxm5", "gcp": "a3-highgpu-8g", "aws": "p5.48xlarge"}
    ),
    # Older tables list p5.xlarge, which AWS does not sell; its single H100 is p5.4xlarge.
    "h100-1x": AbstractType(
        1, "H100", {"lambda": "gpu_1x_h100_pcie", "gcp": "a3-highgpu-1g", "aws": "p5.4xlarge"}
    ),
    "a100-8x": AbstractType(
        8, "A100", {"lambda": "gpu_8x_a100", "gcp": "a2-highgpu-8g", "aws": "p4d.24xlarge"}
    ),
    # AWS sells no machine with 4 A100s: this one has 8, and is counted and paid as such.
    "a100-4x": AbstractType(
        4, "A100", {"lambda": "gpu_4x_a100", "gcp": "a2-highgpu-4g", "aws": "p4de.24xlarge"}
    ),
    "a100-1x": AbstractType(1, "A100", {"lambda": "gpu_1x_a100", "gcp": "a2-highgpu-1g"}),
    "a10-1x": AbstractType(
        1, "A10", {"lambda": "gpu_1x_a10", "gcp": "g2-standard-4", "aws": "g5.xlarge"}
    ),
    "l4-1x": AbstractType(1, "L4", {"gcp": "g2-standard-4", "aws": "g6.xlarge"}),
}


def resolve_type(provider_type: str, instance_type: str) -> str:
    """Return the name of a type at a type of provider; an unknown name is returned unchanged.

    `h200-8x` is the cheapest machine with exactly 8 GPUs, `h200` the cheapest of the largest.
    """
    # With an underscore it is a cloud's own name, perhaps newer than the catalogue.
    if "_" in instance_type or find_machine(provider_type, instance_type):
        return instance_type
    wanted = parse_words(instance_type)
    abstract = _find_abstract(wanted)
    if abstract is not None and provider_type in abstract.names:
        return abstract.names[provider_type]
    fitting = [
        machine
        for machine in all_machines()
        if machine.provider == provider_type and wanted.covers(machine.gpu_model, machine.gpus)
    ]
    best = min(fitting, key=_preference, default=None)
    return instance_type if best is None else best.instance_type


def _find_abstract(wanted: GpuType) -> AbstractType | None:
    """Return the kind of machine that has a name of its own, however it is written."""
    is_plain = wanted == GpuType(chip=wanted.chip, gpus=wanted.gpus)
    return ABSTRACT_TYPES.get(f"{wanted.chip}-{wanted.gpus}x") if is_plain else None


def _preference(machine: CataloguedMachine) -> tuple[int, bool, Decimal, str]:
    # Machines with an unknown price come last.
    price = machine.usd_per_hour
    return -machine.gpus, price == 0, price, machine.instance_type


def find_type(provider_type: str, instance_type: str) -> MachineKind | None:
    """Return a type by its abstract or provider's name, or None if it is unknown."""
    name = resolve_type(provider_type, instance_type)
    sold = find_machine(provider_type, name)
    if sold is not None:
        return MachineKind(
            instance_type=name,
            gpus=sold.gpus,
            gpu_type=sold.gpu_model,
            price_per_hour=sold.usd_per_hour,
            spot_per_hour=sold.spot_usd_per_hour,
        )
    abstract = _find_abstract(parse_words(instance_type))
    if abstract is not None:
        return MachineKind(instance_type=name, gpus=abstract.gpus, gpu_type=abstract.gpu_type)
    return None

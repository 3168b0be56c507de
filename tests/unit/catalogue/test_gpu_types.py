"""GPU types as users write them, and the machines of the catalogue that match."""

from datetime import date
from decimal import Decimal

import pytest

from navarch.catalogue.machines import (
    CataloguedMachine,
    GpuType,
    all_machines,
    find_machine,
    machines_for_gpus,
    parse_gpu_type,
    priced_on,
)
from navarch.config.catalogue import ABSTRACT_TYPES, resolve_type


def names(provider: str, text: str, gpus: int) -> list[str]:
    wanted = parse_gpu_type(text)
    fitting = [
        machine
        for machine in all_machines()
        if machine.provider == provider
        and wanted.covers(machine.gpu_model, machine.gpus, machine.instance_type)
    ]
    return [x.instance_type for x in machines_for_gpus(fitting, gpus, lambda x: x.gpus)]


@pytest.mark.parametrize("provider", sorted({machine.provider for machine in all_machines()}))
@pytest.mark.parametrize("model", ["h100", "h200", "a100", "b200", "l40s"])
@pytest.mark.parametrize("gpus", [1, 2, 4, 8])
def test_a_type_with_a_number_equals_both_in_one_word(provider: str, model: str, gpus: int) -> None:
    counted = names(provider, f"{model}-{gpus}x", gpus)
    apart = names(provider, model, gpus)
    assert counted == apart or not counted, "where nobody has that many in one machine"


def test_eight_gpus_are_one_machine_if_the_provider_sells_one() -> None:
    assert names("lambda", "h100", 8) == ["gpu_8x_h100_sxm5"]
    assert names("aws", "h100", 8) == ["p5.48xlarge"]
    assert names("aws", "h100", 16) == ["p5.48xlarge"], "two of them"
    assert names("aws", "p5.48xlarge", 8) == ["p5.48xlarge"]


@pytest.mark.parametrize(
    ("text", "model", "covered"),
    [
        ("h100", "H100-SXM", True),
        ("h100", "NVIDIA H100 80GB HBM3", True),
        ("H100", "h100", True),
        ("h100-pcie", "H100-SXM", False),
        ("h100-pcie", "H100-PCIe", True),
        ("a100", "A100-80GB-SXM", True),
        ("a100-80gb", "A100-SXM", False),
        ("a10", "A100", False),
        ("a10", "A10G", False),
        ("l4", "L40", False),
        ("rtx-pro-6000", "RTX-PRO-6000-SE", True),
        ("h100", "GH100", False),
        ("h100", "", False),
    ],
)
def test_a_model_matches_by_its_first_word_and_all_further_ones(
    text: str, model: str, covered: bool
) -> None:
    assert parse_gpu_type(text).covers(model, 8) is covered


def test_a_number_is_only_a_number_at_the_end() -> None:
    assert parse_gpu_type("h100-8x") == GpuType(model="h100", gpus=8)
    assert parse_gpu_type("gpu_8x_h100_sxm5") == GpuType(model="gpu_8x_h100_sxm5")
    assert parse_gpu_type("h100-0x") == GpuType(model="h100-0x")


def test_every_row_of_the_catalogue_makes_sense() -> None:
    seen = set()
    for machine in all_machines():
        assert (machine.provider, machine.instance_type) not in seen
        seen.add((machine.provider, machine.instance_type))
        assert machine.gpus >= 1
        assert machine.gpu_memory_gib > 0
        assert machine.gpu_model
        assert machine.usd_per_hour >= 0
        if machine.usd_per_hour and machine.spot_usd_per_hour:
            assert machine.spot_usd_per_hour <= machine.usd_per_hour * 2, machine
    assert len({machine.provider for machine in all_machines()}) == 12
    assert priced_on() >= date(2026, 8, 1)


@pytest.mark.parametrize("provider", ["aws", "gcp", "lambda"])
def test_abstract_types_lead_to_machines_of_the_catalogue(provider: str) -> None:
    for abstract in ABSTRACT_TYPES.values():
        if provider in abstract.names:
            assert find_machine(provider, abstract.names[provider]) is not None


def test_a_pool_can_name_any_model_and_number() -> None:
    assert resolve_type("aws", "h200-8x") == "p5en.48xlarge", "the one with a price"
    assert resolve_type("gcp", "h200-8x") == "a3-ultragpu-8g"
    assert resolve_type("lambda", "b200-8x") == "gpu_8x_b200_sxm6"
    assert resolve_type("aws", "h100") == "p5.48xlarge"
    assert resolve_type("aws", "h100-3x") == "h100-3x", "nobody has three"
    assert resolve_type("docker", "h100-8x") == "h100-8x"


def test_the_catalogue_has_price_memory_and_interconnect() -> None:
    found = find_machine("aws", "p5.48xlarge")
    assert isinstance(found, CataloguedMachine)
    assert found.usd_per_hour == Decimal("55.04")
    assert found.gpu_memory_gib == 80
    assert "NVSwitch" in found.interconnect
    assert "EFA" in found.fabric

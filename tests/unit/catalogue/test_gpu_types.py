"""GPU types as users write them, and the machines of the catalogue that match."""

from datetime import date
from decimal import Decimal

import pytest

from navarch.catalogue.gpu_types import GpuType, ambiguous_models, parse_gpu_type, parse_words
from navarch.catalogue.machines import (
    CataloguedMachine,
    all_machines,
    find_machine,
    machines_for_gpus,
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
        ("h100-sxm", "H100", True),
        ("h100-80gb", "H100-SXM", True),
        ("h100-80gb", "H100-NVL", False),
        ("a100-40gb", "A100-SXM", True),
        ("a100-40gb", "A100-80GB", False),
        ("l4-24gb", "L4", True),
        ("h100-pcie", "NVIDIA H100 80GB HBM3", False),
        ("h100", "H100 (80 GB SXM5)", True),
        ("a100-80gb", "nvidia-a100-80gb", True),
        ("", "H100", False),
        ("h100", "", False),
    ],
)
def test_a_model_matches_by_chip_and_by_form_and_memory_if_they_are_named(
    text: str, model: str, covered: bool
) -> None:
    assert parse_gpu_type(text).covers(model, 8) is covered


@pytest.mark.parametrize(
    "text",
    ["h100-8x", "H100-8X", "8xH100", "8x h100", "8 x H100", "h100x8", "h100:8", "gpu_8x_h100"],
)
def test_the_number_of_gpus_may_stand_before_or_after_the_model(text: str) -> None:
    assert parse_words(text) == GpuType(chip="h100", gpus=8)


def test_zero_and_a_second_number_are_no_numbers_of_gpus() -> None:
    assert parse_words("h100-0x").gpus is None
    assert not parse_words("h100-0x").covers("H100", 8)
    assert not parse_words("8x-h100-4x").covers("H100", 8)


@pytest.mark.parametrize(
    ("reported", "provider", "instance_type"),
    [
        ("NVIDIA H100 80GB HBM3", "lambda", "gpu_8x_h100_sxm5"),
        ("NVIDIA H100 PCIe", "lambda", "gpu_1x_h100_pcie"),
        ("NVIDIA H100 NVL", "azure", "Standard_NC40ads_H100_v5"),
        ("NVIDIA A100-SXM4-40GB", "aws", "p4d.24xlarge"),
        ("NVIDIA A100-SXM4-80GB", "aws", "p4de.24xlarge"),
        ("NVIDIA A100-PCIE-40GB", "lambda", "gpu_1x_a100"),
        ("Tesla V100-SXM2-16GB", "lambda", "gpu_8x_v100"),
        ("Tesla T4", "aws", "g4dn.xlarge"),
        ("NVIDIA GH200 480GB", "lambda", "gpu_1x_gh200"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "gcp", "g4-standard-48"),
        ("NVIDIA GeForce RTX 4090", "runpod", "1x_RTX4090_SECURE"),
        ("NVIDIA RTX A6000", "lambda", "gpu_1x_a6000"),
        ("AMD Instinct MI300X", "azure", "Standard_ND96isr_MI300X_v5"),
    ],
)
def test_the_name_that_a_driver_reports_means_the_machines_with_that_gpu(
    reported: str, provider: str, instance_type: str
) -> None:
    machine = find_machine(provider, instance_type)
    assert machine is not None
    assert parse_gpu_type(reported).covers(machine.gpu_model, machine.gpus)


def test_a_name_of_a_cloud_means_that_machine_and_not_the_same_gpus_elsewhere() -> None:
    assert names("lambda", "gpu_8x_a100", 8) == ["gpu_8x_a100"]
    assert names("aws", "gpu_8x_h100_sxm5", 8) == []
    assert parse_words("gpu_8x_h100_sxm5").covers("H100-SXM", 8), "for a pool that exists"


def test_a_name_that_may_be_several_models_is_ambiguous() -> None:
    models = ["RTX-PRO-4500", "RTX4090", "H100-SXM", "H100-PCIe", "A100", ""]

    assert ambiguous_models("rtx", models) == ["RTX-PRO-4500", "RTX4090"]
    assert ambiguous_models("100", models) == ["A100", "H100-PCIe", "H100-SXM"]
    assert ambiguous_models("h100", models) == [], "every H100"
    assert ambiguous_models("h10", models) == [], "one, and the reader sees it among the others"
    assert ambiguous_models("tpu", models) == []


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
    assert resolve_type("aws", "8xH100") == resolve_type("aws", "H100-8X") == "p5.48xlarge"
    assert resolve_type("lambda", "gpu_8x_a100") == "gpu_8x_a100"
    assert resolve_type("lambda", "gpu_16x_h100") == "gpu_16x_h100", "newer than the catalogue"
    assert resolve_type("aws", "h100-3x") == "h100-3x", "nobody has three"
    assert resolve_type("docker", "h100-8x") == "h100-8x"


def test_the_catalogue_has_price_memory_and_interconnect() -> None:
    found = find_machine("aws", "p5.48xlarge")
    assert isinstance(found, CataloguedMachine)
    assert found.usd_per_hour == Decimal("55.04")
    assert found.gpu_memory_gib == 80
    assert "NVSwitch" in found.interconnect
    assert "EFA" in found.fabric

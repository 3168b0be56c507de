"""`navarch agent scan`, with and without GPUs."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.nvml_stand_in import Mood, build_stand_in, set_mood

from navarch.cli.main import navarch
from navarch.health.conditions import find_kind


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    built = build_stand_in(tmp_path_factory.mktemp("nvml"))
    if built is None:
        pytest.skip("there is no C compiler to make a stand-in with")
    return str(built)


def scan(*words: str, environ: dict[str, str] | None = None) -> Result:
    return CliRunner(env=environ).invoke(navarch, ["agent", "scan", *words])


def test_a_scan_shows_every_gpu_and_every_check(library: str, tmp_path: Path) -> None:
    set_mood(tmp_path / "mood", Mood.WELL)
    environ = {
        "NAVARCH_NVML_LIBRARY": library,
        "STAND_IN_MOOD": str(tmp_path / "mood"),
        "STAND_IN_GPUS": "8",
        "STAND_IN_FAILS": "idle",
    }

    found = scan("--gpus-expected", "8", environ=environ)

    assert found.exit_code == 0, found.output
    assert "GPU  Model" in found.output
    assert found.output.count("NVIDIA H100") == 8
    assert "gen 5 x16" in found.output
    assert "can be used" in found.output


def test_a_scan_with_missing_gpus_exits_with_1(
    library: str,
) -> None:
    kind = ("--provider", "aws", "--instance-type", "p5.48xlarge")

    found = scan(*kind, "-o", "json", environ={"NAVARCH_NVML_LIBRARY": library})

    assert found.exit_code == 1
    answer = json.loads(found.output)
    reasons = {result["check"]: result["reason"] for result in answer["results"]}
    assert "2 of 8 GPUs found" in reasons["boot"]
    assert answer["gpus"][0]["health"]["power_w"] == 350.5


def test_a_scan_without_a_driver_reports_it(tmp_path: Path) -> None:
    found = scan(environ={**os.environ, "NAVARCH_NVML_LIBRARY": str(tmp_path / "none.so")})

    assert found.exit_code == 1
    assert "no NVIDIA driver" in found.output
    assert "should not be used" in found.output


def test_machines_are_found_by_provider_and_type() -> None:
    found = find_kind("aws", "p5.48xlarge")

    assert found is not None
    assert (found.gpus, found.gpu_memory_gib) == (8, 80)
    assert find_kind("", "p5.48xlarge") == found
    assert find_kind("gcp", "p5.48xlarge") is None
    assert find_kind("our-aws-account", "p5.48xlarge") == found, "a name of somebody's own"


def test_provider_and_type_may_come_from_user_data(library: str) -> None:
    environ = {
        "NAVARCH_NVML_LIBRARY": library,
        "NAVARCH_PROVIDER": "aws",
        "NAVARCH_INSTANCE_TYPE": "p5.48xlarge",
    }

    found = scan("-o", "json", environ=environ)

    reasons = {r["check"]: r["reason"] for r in json.loads(found.output)["results"]}
    assert "2 of 8 GPUs found" in reasons["boot"]

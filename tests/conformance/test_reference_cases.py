"""The action tests of the reference scheduler, as data."""

import copy
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest

from navarch.scheduler.snapshot.document import read_document
from navarch.testing.scheduler_conformance.run import CaseResult, run_cases, run_document

CASES = Path(__file__).parents[2].parent / "shared" / "conformance" / "kai_cases.json"

pytestmark = pytest.mark.skipif(
    not CASES.exists(), reason="the reference cases are not beside this repository"
)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return cast("dict[str, Any]", read_document(CASES.read_bytes()))


@pytest.fixture(scope="module")
def timed(document: dict[str, Any]) -> tuple[list[CaseResult], float]:
    started = time.process_time()
    results = list(run_cases(document))
    return results, time.process_time() - started


def test_every_reference_case_passes(timed: tuple[list[CaseResult], float]) -> None:
    results, _ = timed

    assert [f"{result.id}: {result.why}" for result in results if not result.passed] == []
    assert len(results) == 311


def test_all_reference_cases_together_take_less_than_ten_seconds(
    timed: tuple[list[CaseResult], float],
) -> None:
    assert timed[1] < 10


def test_every_case_passes_with_its_lists_reversed(document: dict[str, Any]) -> None:
    for case in copy.deepcopy(document["cases"]):
        for key in ("nodes", "queues", "jobs"):
            case["cluster"][key].reverse()
        for job in case["cluster"]["jobs"]:
            job["tasks"].reverse()

        result = run_document(case)

        assert result.passed, f"{result.id}: {result.why}"


def test_a_case_with_a_flipped_status_fails(document: dict[str, Any]) -> None:
    """Otherwise the matcher would accept a wrong status."""
    flip = {"Running": "Pending", "Pending": "Running"}
    for original in document["cases"]:
        for kind in ("jobs", "tasks"):
            for name, expected in original["expected"][kind].items():
                if not _exists(original, kind, name):
                    continue
                case = copy.deepcopy(original)
                case["expected"][kind][name]["status"] = flip.get(expected["status"], "Running")
                assert not run_document(case).passed, f"{original['id']}: {name}"
                break


def test_decisions_do_not_depend_on_the_hash_seed() -> None:
    script = (
        "import sys, json\n"
        "from navarch.scheduler.snapshot.document import read_document\n"
        "from navarch.testing.scheduler_conformance.case import parse_case\n"
        "from navarch.scheduler.cycle import run_cycle\n"
        "from navarch.scheduler.plan import render_result\n"
        "document = read_document(sys.stdin.buffer.read())\n"
        "for entry in document['cases']:\n"
        "    case = parse_case(entry)\n"
        "    print(render_result(run_cycle(case.cluster, case.config))['digest'])\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script],
            input=CASES.read_bytes(),
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "4711")
    ]

    assert outputs[0] == outputs[1] == outputs[2]
    assert len(outputs[0].split()) == 311


def _exists(case: dict[str, object], kind: str, name: str) -> bool:
    cluster = case["cluster"]
    assert isinstance(cluster, dict)
    if kind == "jobs":
        return True
    return any(task["uid"] == name for job in cluster["jobs"] for task in job["tasks"])

"""The process in which cards are tested, on a machine that has none."""

import sys

import pytest

from navarch.core.inventory import Gpu
from navarch.gpus.diagnostics import CudaDiagnostics
from navarch.gpus.kernels import mma_ptx, patterns_ptx, wgmma_ptx
from navarch.ports.diagnostics import BurnFigures, NotRunError, TestFailedError

GPU = Gpu(index=0, uuid="GPU-0", pci_bus_id="00000000:01:00.0")


def saying(code: str, *, start_s: float = 60.0) -> CudaDiagnostics:
    return CudaDiagnostics(command=(sys.executable, "-c", code), start_s=start_s)


def test_without_a_driver_nothing_is_tested_and_nothing_has_failed() -> None:
    environ = {"NAVARCH_CUDA_LIBRARY": "/nowhere/libcuda.so.1", "PYTHONPATH": ":".join(sys.path)}

    with pytest.raises(NotRunError, match="no CUDA driver"):
        CudaDiagnostics(environ=environ).burn(GPU, seconds=1.0)


def test_figures_come_back_as_they_were_measured() -> None:
    figures = '{"burn": {"tflops": 700.5, "seconds": 1, "products": 3, "wrong": 0}}'

    found = saying(f"print('{figures}')").burn(GPU, seconds=1.0)

    assert found == BurnFigures(tflops=700.5, seconds=1.0, products=3, wrong=0)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os; os.abort()", "the test died of signal 6"),
        ("raise SystemExit(3)", "the test died with code 3"),
        ("print('{}')", "without figures"),
        ("""print('{"failed": "illegal address"}')""", "illegal address"),
    ],
)
def test_a_card_that_takes_its_test_down_has_failed(code: str, words: str) -> None:
    with pytest.raises(TestFailedError, match=words):
        saying(code).burn(GPU, seconds=0.0)


def test_a_test_that_does_not_end_has_failed_and_is_left_behind() -> None:
    with pytest.raises(TestFailedError, match=r"did not end within 0\.1 s"):
        saying("import signal; signal.pause()", start_s=0.1).touch(GPU)


def test_tools_are_run_where_they_are_installed() -> None:
    diagnostics = CudaDiagnostics()

    run = diagnostics.tool("sh", "-c", "echo some; echo more >&2; exit 3", within_s=10.0)

    assert (run.code, run.output) == (3, "some\nmore\n")
    with pytest.raises(NotRunError, match="no-such-tool is not installed"):
        diagnostics.tool("no-such-tool", within_s=1.0)


def test_kernels_are_for_the_cards_they_are_chosen_for() -> None:
    assert ".target sm_90a" in wgmma_ptx()
    assert ".target sm_80" in mma_ptx()
    assert patterns_ptx().count(".visible .entry") == 2
    assert mma_ptx().count("mma.sync") == 3 * 32

"""The child process for GPU tests, on a machine without a GPU."""

import collections
import re
import sys

import pytest

from navarch.core.instance import Gpu
from navarch.gpus.diagnostics import CudaDiagnostics
from navarch.gpus.kernels import DEPTH_WGMMA, element, mma_ptx, patterns_ptx, wgmma_ptx
from navarch.ports.checks import BurnFigures, NotRunError, TestFailedError

GPU = Gpu(index=0, uuid="GPU-0", pci_bus_id="00000000:01:00.0")


def saying(code: str, *, start_s: float = 60.0) -> CudaDiagnostics:
    return CudaDiagnostics(command=(sys.executable, "-c", code), start_s=start_s)


def test_without_a_driver_no_test_runs_and_none_fails() -> None:
    environ = {"NAVARCH_CUDA_LIBRARY": "/nowhere/libcuda.so.1", "PYTHONPATH": ":".join(sys.path)}

    with pytest.raises(NotRunError, match="no CUDA driver"):
        CudaDiagnostics(environ=environ).burn(GPU, seconds=1.0)


def test_figures_are_returned_as_measured() -> None:
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
def test_a_test_process_that_crashes_has_failed(code: str, words: str) -> None:
    with pytest.raises(TestFailedError, match=words):
        saying(code).burn(GPU, seconds=0.0)


def test_a_test_that_does_not_end_has_failed_and_is_abandoned() -> None:
    with pytest.raises(TestFailedError, match=r"did not end within 0\.1 s"):
        saying("import signal; signal.pause()", start_s=0.1).touch(GPU)


def test_tools_run_if_they_are_installed() -> None:
    diagnostics = CudaDiagnostics()

    run = diagnostics.tool("sh", "-c", "echo some; echo more >&2; exit 3", within_s=10.0)

    assert (run.code, run.output) == (3, "some\nmore\n")
    with pytest.raises(NotRunError, match="no-such-tool is not installed"):
        diagnostics.tool("no-such-tool", within_s=1.0)


def test_each_gpu_gets_the_kernel_for_its_architecture() -> None:
    assert ".target sm_90a" in wgmma_ptx()
    assert ".target sm_80" in mma_ptx()
    assert patterns_ptx().count(".visible .entry") == 2
    assert mma_ptx().count("mma.sync") == 3 * 32


def run_ptx(code: str, registers: dict[str, int]) -> None:
    """Execute the integer instructions of PTX, as its manual defines them."""
    for part in filter(None, map(str.strip, code.split(";"))):
        found = re.fullmatch(r"(?:@(?P<guard>\S+) )?(?P<name>\S+) (?P<operands>.*)", part)
        assert found is not None, part
        guard, name, operands = found.group("guard", "name", "operands")
        if guard and not registers[guard]:
            continue
        out, *sources = (operand.strip() for operand in operands.split(","))
        a, b, c = ([registers[s] if s in registers else int(s, 0) for s in sources] + [0, 0])[:3]
        results = {
            "mul.lo.u32": a * b,
            "mad.lo.u32": a * b + c,
            "shr.u32": (a & 0xFFFFFFFF) >> b,
            "xor.b32": a ^ b,
            "and.b32": a & b,
            "or.b32": a | b,
            "setp.ne.u32": int(a != b),
            "neg.s32": -a,
        }
        registers[out] = results[name] & 0xFFFFFFFF


@pytest.mark.parametrize("left", [True, False])
def test_the_kernels_compute_the_elements_of_the_reference(left: bool) -> None:
    base = r"mul\.lo\.u32 %r14, %r10.*" if left else r"mul\.lo\.u32 %r15, %r11.*"
    line = next(m[0] for m in map(re.compile(base).match, wgmma_ptx().splitlines()) if m)
    out, row = ("%r14", "%r10") if left else ("%r15", "%r11")

    for place in range(0, 256, 7):
        for depth in range(DEPTH_WGMMA):
            registers = {row: place, "%r12": depth}
            run_ptx(line, registers)
            assert registers[out] == element(place, depth, left=left) & 0xFFFFFFFF


def test_the_matrices_are_random_and_their_sums_exact() -> None:
    numbers = [
        element(r, k, left=left) for left in (True, False) for r in range(256) for k in range(64)
    ]
    seen = collections.Counter(numbers)

    assert set(seen) == {*range(128, 256), *range(-255, -127)}, "every bit and both signs are used"
    assert max(seen.values()) < 2 * len(numbers) / len(seen)
    assert abs(sum(numbers)) / len(numbers) < 3
    neighbours = [
        element(r, k, left=True) ^ element(r, k + 1, left=True)
        for r in range(128)
        for k in range(64)
    ]
    turned = sum((pair & 0xFF).bit_count() for pair in neighbours) / len(neighbours)
    assert 3.0 < turned < 5.0, "half of the bits turn from one number to the next"
    assert DEPTH_WGMMA * 255 * 255 < 1 << 24, "every sum on the way is a whole number to a float"

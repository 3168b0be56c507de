"""Tests of real GPUs, each in a child process with a deadline."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

import msgspec

from navarch.core.instance import Gpu
from navarch.gpus.diagnostic_process import GpuTestOutcome
from navarch.ports.checks import (
    BurnFigures,
    CopyFigures,
    NotRunError,
    PatternFigures,
    TestFailedError,
    ToolRun,
)

START_S = 60.0
"""Includes waking a GPU without persistence mode, and compiling the kernel."""
PATTERNS_S = 300.0
COPIES_S = 120.0
OUTPUT_MAX = 64 * 1024


class CudaDiagnostics:
    """Tests the GPUs of this machine through their driver.

    `command` starts the child process; see `navarch.gpus.diagnostic_process`.
    """

    def __init__(
        self,
        *,
        command: Sequence[str] = (sys.executable, "-m", "navarch.gpus.diagnostic_process"),
        environ: Mapping[str, str] | None = None,
        start_s: float = START_S,
    ) -> None:
        self._command = tuple(command)
        self._environ = dict(os.environ if environ is None else environ)
        # GPUs are chosen by bus id; a variable that hides some would change which one is tested.
        self._environ.pop("CUDA_VISIBLE_DEVICES", None)
        self._start_s = start_s

    def touch(self, gpu: Gpu) -> None:
        """Create a context, write to memory and read it back."""
        self._run_test("touch", gpu, within_s=0.0)

    def burn(self, gpu: Gpu, *, seconds: float) -> BurnFigures:
        """Multiply matrices and verify every product."""
        outcome = self._run_test("burn", gpu, f"{seconds:g}", within_s=2 * seconds)
        return outcome.burn or _nothing()

    def patterns(self, gpu: Gpu, *, share: float) -> PatternFigures:
        """Write patterns to memory and read them back."""
        outcome = self._run_test("patterns", gpu, f"{share:g}", within_s=PATTERNS_S)
        return outcome.patterns or _nothing()

    def copies(self, gpus: Sequence[Gpu]) -> Sequence[CopyFigures]:
        """Measure the copy speeds of each GPU."""
        found = []
        for gpu in gpus:
            others = [other.pci_bus_id for other in gpus if other.uuid != gpu.uuid]
            outcome = self._run_test("copies", gpu, *others, within_s=COPIES_S)
            found.append(outcome.copies or _nothing())
        return found

    def tool(self, name: str, *arguments: str, within_s: float) -> ToolRun:
        """Run a tool if it is installed."""
        path = shutil.which(name, path=self._environ.get("PATH"))
        if path is None:
            raise NotRunError(f"{name} is not installed")
        code, output = self._run([path, *arguments], within_s, with_errors=True)
        return ToolRun(code=code, output=output[-OUTPUT_MAX:].decode(errors="replace"))

    def _run_test(self, test: str, gpu: Gpu, *arguments: str, within_s: float) -> GpuTestOutcome:
        command = [*self._command, test, gpu.pci_bus_id, *arguments]
        code, output = self._run(command, self._start_s + within_s, with_errors=False)
        try:
            outcome = msgspec.json.decode(output, type=GpuTestOutcome)
        except msgspec.DecodeError as error:
            how = f"of signal {-code}" if code < 0 else f"with code {code}"
            raise TestFailedError(f"the test died {how}") from error
        if outcome.not_run:
            raise NotRunError(outcome.not_run)
        if outcome.failed:
            raise TestFailedError(outcome.failed)
        return outcome

    def _run(
        self, command: Sequence[str], within_s: float, *, with_errors: bool
    ) -> tuple[int, bytes]:
        errors = subprocess.STDOUT if with_errors else subprocess.DEVNULL
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self._environ,
            )
        except OSError as error:
            raise NotRunError(f"{command[0]} cannot be started: {error}") from error
        try:
            output, _ = process.communicate(timeout=within_s)
        except subprocess.TimeoutExpired as error:
            # One stuck in the driver, where signals are not delivered, is abandoned.
            process.kill()
            if process.stdout is not None:
                process.stdout.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=1.0)
            raise TestFailedError(f"the test did not end within {within_s:g} s") from error
        return process.returncode, output


def _nothing() -> NoReturn:
    raise TestFailedError("the test ended without figures")

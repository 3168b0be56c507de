"""The child process that tests one GPU: one test, one outcome.

`diagnostics.CudaDiagnostics` starts it:
`python -m navarch.gpus.diagnostic_process TEST BUS [ARGUMENT...]`.
"""

import os
import sys
from dataclasses import dataclass

import msgspec

from navarch.gpus.burn import burn, copies, patterns, touch
from navarch.gpus.cuda import Cuda
from navarch.ports.checks import (
    BurnFigures,
    CopyFigures,
    NotRunError,
    PatternFigures,
    TestFailedError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTestOutcome:
    """The figures of a test, or why there are none."""

    not_run: str = ""
    failed: str = ""
    burn: BurnFigures | None = None
    patterns: PatternFigures | None = None
    copies: CopyFigures | None = None


def main() -> None:
    """Write the outcome to standard output, as JSON."""
    answers = os.dup(1)
    os.dup2(2, 1)  # Keep the output of libraries out of the outcome.
    test, bus, *arguments = sys.argv[1:]
    os.write(answers, msgspec.json.encode(run_test(test, bus, arguments)))


def run_test(test: str, bus: str, arguments: list[str]) -> GpuTestOutcome:
    """Run one test on one GPU."""
    try:
        cuda = Cuda(bus)
        match test:
            case "touch":
                touch(cuda)
                return GpuTestOutcome()
            case "burn":
                return GpuTestOutcome(burn=burn(cuda, seconds=float(arguments[0])))
            case "patterns":
                return GpuTestOutcome(patterns=patterns(cuda, share=float(arguments[0])))
            case "copies":
                return GpuTestOutcome(copies=copies(cuda, arguments))
            case _:
                return GpuTestOutcome(not_run=f"unknown test {test}")
    except NotRunError as error:
        return GpuTestOutcome(not_run=str(error))
    except TestFailedError as error:
        return GpuTestOutcome(failed=str(error))


if __name__ == "__main__":
    main()

"""The process in which a card is tested: one test, one answer, and whatever broke goes with it.

Started by `diagnostics.CudaDiagnostics`: `python -m navarch.gpus.testbench TEST BUS [ARGUMENT...]`.
"""

import os
import sys
from dataclasses import dataclass

import msgspec

from navarch.gpus.burn import burn, copies, patterns, touch
from navarch.gpus.cuda import Cuda
from navarch.ports.diagnostics import (
    BurnFigures,
    CopyFigures,
    NotRunError,
    PatternFigures,
    TestFailedError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTestOutcome:
    """What came of a test: figures, or why there are none."""

    not_run: str = ""
    failed: str = ""
    burn: BurnFigures | None = None
    patterns: PatternFigures | None = None
    copies: CopyFigures | None = None


def main() -> None:
    """Write the outcome to standard output, as JSON."""
    answers = os.dup(1)
    os.dup2(2, 1)  # What libraries print must not end up in the answer.
    test, bus, *arguments = sys.argv[1:]
    os.write(answers, msgspec.json.encode(run_test(test, bus, arguments)))


def run_test(test: str, bus: str, arguments: list[str]) -> GpuTestOutcome:
    """Make one test of one card."""
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
                return GpuTestOutcome(not_run=f"there is no test called {test}")
    except NotRunError as error:
        return GpuTestOutcome(not_run=str(error))
    except TestFailedError as error:
        return GpuTestOutcome(failed=str(error))


if __name__ == "__main__":
    main()

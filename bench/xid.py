"""How many lines of a kernel log are searched for XIDs in a second, by one process.

usage: python -m bench.xid [--lines 500000] [--repeat 3]

Three logs: one in which every line reports an error, none twice in a row; one as a busy node
writes them, with an error in every hundred lines; and one with a storm of a single error.
"""

import argparse
import json
import time
from collections.abc import Callable

from navarch.cli.xid import describe

ERRORS = (
    "[{n}.{n:06d}] NVRM: Xid (PCI:0000:{bus:02x}:00): 79, pid='<unknown>', name=<unknown>, "
    "GPU has fallen off the bus.",
    "Aug 10 15:36:05 gpu-node-a kernel: NVRM: Xid (PCI:0000:{bus:02x}:00): 31, pid={n}, "
    "name=python3, Ch 00000007, intr 00000000. MMU Fault: ENGINE GRAPHICS faulted @ 0x{n:x}",
    "4,{n},{n},-;NVRM: Xid (PCI:0000:{bus:02x}:00 GPU-I:05): 94, pid={n}, Contained: CE ({n})",
    "NVRM: Xid (PCI:0000:{bus:02x}:00): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 03 "
    "(0x040868e2 0x00000008 0x00000000 0x00000000 0x{n:08x} 0x00000000)",
    "nvidia-nvswitch{bus}: SXid (PCI:0000:{bus:02x}:00.0): 20034, Fatal, Link {bus} LTSSM Fault Up",
    "NVRM: Xid (PCI:0000:{bus:02x}:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 "
    "(GPU Reset Required)",
)
CHATTER = "[{n}.{n:06d}] audit: type=1400 audit(1.1:{n}): apparmor=ALLOWED pid={n} comm=python3"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=500_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    logs: dict[str, Callable[[int], str]] = {
        "all_errors": _error,
        "one_in_a_hundred": lambda n: _chatter(n) if n % 100 else _error(n),
        "one_storm": lambda _: _error(0),
    }
    figures = {
        name: _measure([write(n).encode() + b"\n" for n in range(options.lines)], options.repeat)
        for name, write in logs.items()
    }
    print(json.dumps({"lines": options.lines, "target_lines_per_s": 200_000, **figures}, indent=2))


def _error(n: int) -> str:
    return ERRORS[n % len(ERRORS)].format(n=n, bus=n % 200)


def _chatter(n: int) -> str:
    return CHATTER.format(n=n)


def _measure(lines: list[bytes], repeat: int) -> dict[str, float]:
    best_wall, best_cpu, found = float("inf"), float("inf"), 0
    for _ in range(repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        found = sum(1 for _ in describe(lines))
        best_wall = min(best_wall, time.perf_counter() - wall)
        best_cpu = min(best_cpu, time.process_time() - cpu)
    return {
        "errors": found,
        "lines_per_s": round(len(lines) / best_wall),
        "lines_per_cpu_s": round(len(lines) / best_cpu),
    }


if __name__ == "__main__":
    main()

"""How many lines of a kernel log are searched for XIDs in a second, by one process.

usage: python -m bench.xid [--lines 500000] [--repeat 3]

Three logs: one in which every line reports an error, none twice in a row; one as a busy node
writes them, with an error in every hundred lines; and one with a storm of a single error.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

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
        name: _measure(
            "".join(write(n) + "\n" for n in range(options.lines)).encode(), options.repeat
        )
        for name, write in logs.items()
    }
    print(json.dumps({"lines": options.lines, "target_lines_per_s": 200_000, **figures}, indent=2))


def _error(n: int) -> str:
    return ERRORS[n % len(ERRORS)].format(n=n, bus=n % 200)


def _chatter(n: int) -> str:
    return CHATTER.format(n=n)


def _measure(text: bytes, repeat: int) -> dict[str, float]:
    """Time the program itself, from its start to its end, with the log on standard input."""
    lines, walls, cpus, found = text.count(b"\n"), [], [], 0
    with tempfile.TemporaryFile() as log:
        log.write(text)
        for _ in range(repeat):
            log.seek(0)
            wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-m", "navarch.cli", "xid", "parse", "-"]
            ran = subprocess.run(command, stdin=log, capture_output=True, check=True)
            walls.append(time.perf_counter() - wall)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            found = ran.stdout.count(b"\n")
    return {
        "errors": found,
        "lines_per_s": round(lines / min(walls)),
        "lines_per_s_slowest": round(lines / max(walls)),
        "lines_per_cpu_s": round(lines / min(cpus)),
    }


if __name__ == "__main__":
    main()

"""What an agent costs, and whether it keeps time while the driver does not.

A real agent process with its NVML child, against a library that stands in for the driver's: eight
GPUs, of which everything is read every second, to a control plane in this process that takes all.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import msgspec
from tests.support.nvml_stand_in import Mood, build_stand_in, set_mood

from navarch.core.ids import NodeId
from navarch.ports.agents import Welcome

GPUS = 8
CPU_PCT_MAX, PSS_MB_MAX, LAG_MS_MAX = 1.0, 60.0, 100.0


@dataclass
class Plane:
    """A control plane that welcomes, listens and keeps nothing but counts."""

    check_s: float = 60.0
    """How often agents are to make the checks that have no interval of their own, and to report."""
    reports: int = 0
    heartbeats: int = 0
    report_bytes: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one agent until it hangs up."""
        try:
            while head := await _head(reader):
                path, length = head
                body = await reader.readexactly(length)
                answer = self._answer(path, body)
                head_line = f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\n\r\n"
                writer.write(head_line.encode() + answer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _answer(self, path: str, body: bytes) -> bytes:
        """Answer in JSON, and to a heartbeat with an empty protobuf message."""
        if path.endswith("/register"):
            pace = timedelta(seconds=30), timedelta(seconds=self.check_s)
            welcome = Welcome(
                node=NodeId("bench"), heartbeat_interval=pace[0], health_check_interval=pace[1]
            )
            return msgspec.json.encode(welcome)
        if path.endswith("/health"):
            self.reports += 1
            self.report_bytes += len(body)
        if path.endswith("/heartbeat"):
            self.heartbeats += 1
            return b""
        return b"{}"


async def _head(reader: asyncio.StreamReader) -> tuple[str, int] | None:
    try:
        text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    lines = text.split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
    return lines[0].split(" ")[1], int(fields.get("content-length", 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each part")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="navarch-bench-") as folder:
        library = build_stand_in(Path(folder))
        if library is None:
            sys.exit("a C compiler is needed to build the stand-in for the driver")
        print(json.dumps(asyncio.run(measure(Path(folder), library, options.seconds)), indent=2))


async def measure(folder: Path, library: Path, seconds: float) -> dict[str, object]:
    """Return what an agent costs while all is well, then how late its loop is under each fault."""
    mood = folder / "mood"
    plane = Plane()
    server = await asyncio.start_server(plane.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    figures: dict[str, object] = {"gpus": GPUS, "sampling_s": 1.0, "seconds": seconds}
    async with server:
        set_mood(mood, Mood.WELL)
        async with _agent(folder, library, mood, url) as pid:
            figures["cost"] = await _cost(pid, seconds)
        plane.check_s = 1.0
        async with _agent(folder, library, mood, url) as pid:
            figures["cost_of_every_check_and_a_report_every_second"] = await _cost(pid, seconds)
        figures["lag_ms"] = {
            name: await _lag(folder, library, mood, url, word, seconds)
            for name, word in {
                "well": Mood.WELL,
                "nvml_hangs": Mood.HANG,
                "nvml_errors": Mood.ERRORS,
                "nvml_floods_20000_corrected_per_s": Mood.FLOOD,
            }.items()
        }
    figures["reports"] = plane.reports
    figures["report_bytes"] = plane.report_bytes
    figures["passed"] = _passed(figures)
    return figures


@asynccontextmanager
async def _agent(
    folder: Path, library: Path, mood: Path, url: str, *, lag_file: Path | None = None
) -> AsyncIterator[int]:
    """Run an agent; yield its process's number once it is past its start."""
    environ = {
        **os.environ,
        "NAVARCH_NVML_LIBRARY": str(library),
        "STAND_IN_GPUS": str(GPUS),
        "STAND_IN_MOOD": str(mood),
        "STAND_IN_FAILS": "idle",
    }
    words = ["--server", url, "--node-id", "bench", "--gpus-expected", str(GPUS)]
    state = tempfile.mkdtemp(dir=folder)
    module = "navarch.cli.agent" if lag_file is None else "bench.agent_lag"
    extra = [] if lag_file is None else [str(lag_file)]
    with (folder / "agent.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, *extra, *words, "--state-dir", state,
            env=environ, stderr=log, stdout=log,
        )  # fmt: skip
    try:
        await asyncio.sleep(6.0)
        yield process.pid
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _cost(pid: int, seconds: float) -> dict[str, object]:
    family = _family(pid)
    before, began = _cpu_s(family), time.monotonic()
    await asyncio.sleep(seconds)
    took = time.monotonic() - began
    after = _cpu_s(family)
    parts = {f"{name}_cpu_pct": round(100 * (after[p] - before[p]) / took, 3) for p, name in family}
    memory = {f"{name}_pss_mb": round(_pss_mb(p), 1) for p, name in family}
    return {
        **parts,
        **memory,
        "cpu_pct": round(100 * (sum(after.values()) - sum(before.values())) / took, 3),
        "pss_mb": round(sum(_pss_mb(p) for p, _ in family), 1),
    }


async def _lag(
    folder: Path, library: Path, mood: Path, url: str, word: Mood, seconds: float
) -> dict[str, float]:
    """Return how late timers fire in the agent's own loop after the driver changes its mood."""
    set_mood(mood, Mood.WELL)
    file = folder / f"lag-{word.name}"
    async with _agent(folder, library, mood, url, lag_file=file):
        before = file.stat().st_size if file.exists() else 0
        set_mood(mood, word)
        ours = await _lateness(seconds)
        lags = sorted(float(line) for line in file.read_text()[before:].split())
    return {
        "p50": round(lags[len(lags) // 2], 2),
        "p99": round(lags[len(lags) * 99 // 100], 2),
        "max": round(lags[-1], 2),
        "samples": len(lags),
        "max_of_an_idle_loop_meanwhile": round(ours, 2),
    }


async def _lateness(seconds: float) -> float:
    """Return how late, at worst, our own timers fire meanwhile: that is the machine's doing."""
    worst, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        wanted = time.monotonic() + 0.01
        await asyncio.sleep(0.01)
        worst = max(worst, time.monotonic() - wanted)
    return 1000 * worst


def _family(pid: int) -> list[tuple[int, str]]:
    """Return the agent and the processes it has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = [int(child) for child in children]
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return [(pid, "agent"), *((child, "nvml") for child in sorted(set(found)))]


def _cpu_s(family: list[tuple[int, str]]) -> dict[int, float]:
    return {pid: _ticks(pid) for pid, _ in family}


def _ticks(pid: int) -> float:
    # Nanoseconds on a processor, of every thread: ticks would round a quiet agent to nothing.
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def _pss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _passed(figures: dict[str, object]) -> bool:
    cost, lags = figures["cost"], figures["lag_ms"]
    assert isinstance(cost, dict)
    assert isinstance(lags, dict)
    return (
        "nvml_cpu_pct" in cost
        and cost["cpu_pct"] < CPU_PCT_MAX
        and cost["pss_mb"] < PSS_MB_MAX
        and all(lag["max"] < LAG_MS_MAX for lag in lags.values())
    )


if __name__ == "__main__":
    main()

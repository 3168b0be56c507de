"""`navarch serve` that notes long turns of its event loop: `python -m bench.attack_server FILE`.

Each turn that takes more than `NOTED_MS` appends a line to the file: the milliseconds of CPU time
of its thread, those of the whole process, those that passed, and where the thread was when it had
taken `LOOK_MS`. CPU time is the same on a busy machine, where a delay also holds what other
processes take. What other threads of the process take may have kept the loop from the interpreter.
A collection of garbage does so from beginning to end in whichever thread it runs, and has a line of
its own.
"""

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

NOTED_MS = 20.0
LOOK_MS = 100.0
TICK_S = 0.002


class Slices:
    """Measures the turns of one event loop."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._clock = time.pthread_getcpuclockid(threading.get_ident())
        self._thread = threading.get_ident()
        self._began_s = self._now_s()
        self._seen: dict[float, str] = {}
        """Where the thread was, by the beginning of the turn."""
        self._collecting = (0.0, 0.0)
        gc.callbacks.append(self._note_collection)

    def _now_s(self) -> float:
        return time.clock_gettime(self._clock)

    def _note_collection(self, phase: str, info: Mapping[str, int]) -> None:
        now = (time.thread_time(), time.monotonic())
        if phase == "start":
            self._collecting = now
            return
        cpu, passed = (1000 * (x - y) for x, y in zip(now, self._collecting, strict=True))
        if passed > NOTED_MS:
            generation, thread = info["generation"], threading.current_thread().name
            place = f"a collection of generation {generation} in {thread}"
            self._write((cpu, cpu, passed), place)

    def _write(self, spent_ms: Iterable[float], place: str) -> None:
        with self._file.open("a") as file:
            file.write(" ".join(f"{ms:.1f}" for ms in spent_ms) + f" {place}\n")

    async def measure(self) -> None:
        """Note long turns until cancelled."""
        threading.Thread(target=self._look, daemon=True).start()
        while True:
            self._began_s = self._now_s()
            began = (self._began_s, time.process_time(), time.monotonic() + TICK_S)
            await asyncio.sleep(TICK_S)
            ended = (self._now_s(), time.process_time(), time.monotonic())
            spent = [1000 * (after - before) for before, after in zip(began, ended, strict=True)]
            if spent[2] > NOTED_MS:
                self._write(spent, self._seen.pop(self._began_s, ""))

    def _look(self) -> None:
        """Note the place of a thread that has run for long without a turn of the loop."""
        while True:
            time.sleep(LOOK_MS / 5000)
            began_s = self._began_s
            if 1000 * (self._now_s() - began_s) > LOOK_MS and began_s not in self._seen:
                self._seen = {began_s: _place(sys._current_frames().get(self._thread))}  # noqa: SLF001


def _place(frame: FrameType | None) -> str:
    """Return the innermost functions of the product, the outer ones first."""
    found: list[str] = []
    while frame is not None and len(found) < 6:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("navarch"):
            found.append(f"{module.removeprefix('navarch.')}:{frame.f_code.co_name}")
        frame = frame.f_back
    return " > ".join(reversed(found))


class MeasuredRunner(asyncio.Runner):  # type: ignore[misc]
    """Runs the server with the measurement beside it."""

    file: Path

    def run(self, coro: Coroutine[Any, Any, Any], **options: Any) -> Any:  # noqa: ANN401
        """Run the server."""

        async def measured() -> Any:  # noqa: ANN401
            measuring = asyncio.create_task(Slices(self.file).measure())
            try:
                return await coro
            finally:
                measuring.cancel()

        return super().run(measured(), **options)


def main() -> None:
    MeasuredRunner.file = Path(sys.argv.pop(1))
    asyncio.Runner = MeasuredRunner  # type: ignore[misc]
    from navarch.cli.main import main as navarch

    navarch()


if __name__ == "__main__":
    main()

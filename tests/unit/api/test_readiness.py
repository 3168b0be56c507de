"""Readiness: a server that cannot write its state is not ready, and probes cost little."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.support.local_api import build_local_api, call_app

from navarch.app.readiness import EVERY_S, WITHIN_S, Readiness
from navarch.core.errors import StoreError
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.sqlite import SqliteStore


class Disk:
    """A disk that takes a while, may be full, and counts its writes."""

    def __init__(self, clock: SimClock) -> None:
        self.clock = clock
        self.takes_s = 0.0
        self.full = False
        self.writes = 0

    async def write(self) -> None:
        self.writes += 1
        await self.clock.sleep(self.takes_s)
        if self.full:
            raise StoreError("the state cannot be written: database or disk is full")


def play(story: Callable[[Readiness, Disk, SimClock], Awaitable[None]]) -> None:
    clock = SimClock()
    disk = Disk(clock)
    readiness = Readiness(clock, serving=lambda: True, write=disk.write)

    async def run() -> None:
        await story(readiness, disk, clock)

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(run())


def test_a_full_disk_makes_a_server_unready_until_there_is_room() -> None:
    async def story(readiness: Readiness, disk: Disk, clock: SimClock) -> None:
        assert await readiness.missing() is None
        disk.full = True
        await clock.sleep(EVERY_S)
        assert "disk is full" in (await readiness.missing() or "")
        disk.full = False
        await clock.sleep(EVERY_S)
        assert await readiness.missing() is None

    play(story)


def test_a_thousand_probes_share_one_write() -> None:
    async def story(readiness: Readiness, disk: Disk, _clock: SimClock) -> None:
        disk.takes_s = 1.0
        answers = await asyncio.gather(*(readiness.missing() for _ in range(1000)))
        assert set(answers) == {None}
        assert disk.writes == 1

    play(story)


def test_a_disk_that_hangs_makes_a_server_unready() -> None:
    async def story(readiness: Readiness, disk: Disk, clock: SimClock) -> None:
        disk.takes_s = 1e6
        began = clock.monotonic()
        assert "took over 5 s" in (await readiness.missing() or "")
        assert clock.monotonic() == began + WITHIN_S

    play(story)


def test_a_server_that_starts_is_not_ready_and_writes_nothing() -> None:
    async def main() -> None:
        disk = Disk(SimClock())
        readiness = Readiness(disk.clock, serving=lambda: False, write=disk.write)
        assert await readiness.missing() == "the control loops are starting"
        assert disk.writes == 0

    asyncio.run(main())


def test_a_probe_writes_to_the_real_database(tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore.open(tmp_path, InlineOffload(), SeededEntropy("1"))
        await store.check_writable()
        store._database.execute("PRAGMA query_only = ON")
        with pytest.raises(StoreError, match="the state cannot be written"):
            await store.check_writable()
        store.close()

    asyncio.run(main())


def test_the_probe_answers_503_with_the_reason() -> None:
    async def missing() -> str | None:
        return "the state cannot be written: database or disk is full"

    async def main() -> None:
        answer = await call_app(build_local_api(ready=missing).app, "GET", "/readyz")
        assert (answer.status, answer.body) == (503, (await missing() or "").encode())

    asyncio.run(main())

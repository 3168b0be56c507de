"""How long commits and reads take with a long journal, on a real file.

usage: python -m bench.journal [--events 1000000] [--watchers 20] [--commits 50]
"""

import argparse
import asyncio
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Awaitable, Sequence
from contextlib import aclosing, closing
from datetime import datetime, timedelta
from pathlib import Path

from navarch.clock import SystemEntropy, ThreadOffload
from navarch.control.retention import LOOK_EVERY, RetentionController
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.retention import Retention
from navarch.ports.store import Store
from navarch.service.watching import Watching
from navarch.service.why import explain
from navarch.stores.sqlite import SqliteStore
from navarch.testing.worlds import NOW, ControllerDriver, a_node, a_pool

SUBJECTS = 1_000
PER_COMMIT = 10
PER_BATCH = 1_000
"""Commits that arrive at the same time share a transaction."""

DAYS = 180
"""The age of the oldest event: with the default retention half of the journal is due."""


def milliseconds(samples: Sequence[float]) -> dict[str, float]:
    ordered = sorted(samples)
    return {
        "median_ms": round(statistics.median(ordered) * 1e3, 2),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1e3, 2),
        "max_ms": round(ordered[-1] * 1e3, 2),
    }


async def took(call: Awaitable[object]) -> float:
    start = time.perf_counter()
    await call
    return time.perf_counter() - start


async def fill(store: Store, events: int) -> None:
    """Write a journal whose events are spread evenly over the last `DAYS` days."""
    pool = a_pool()
    nodes = [a_node(f"training-{i}") for i in range(SUBJECTS)]
    fleet = await store.commit(Change(pools=[pool], nodes=nodes), based_on=0)
    for start in range(0, events, PER_BATCH):
        batch = [
            Event(
                at=NOW - timedelta(days=DAYS) * (1 - number / events),
                about=about("node", nodes[number % SUBJECTS].id),
                kind="node.health",
                reason="XID 63 on GPU 3: a row of its memory was remapped, and needs a reset",
                because=(about("pool", pool.name),),
                facts={"health": "degraded", "check": "xid/63/GPU-3"},
            )
            for number in range(start, min(start + PER_BATCH, events))
        ]
        changes = [
            Change(events=batch[first : first + PER_COMMIT])
            for first in range(0, len(batch), PER_COMMIT)
        ]
        await asyncio.gather(*(store.commit(each, based_on=fleet.revision) for each in changes))
        fleet = store.fleet()


async def commits(store: Store, watchers: int, number: int) -> dict[str, object]:
    """Time commits, and how long each takes to reach the last of the watchers."""
    seen = [0] * watchers
    arrived = asyncio.Event()

    async def watch(place: int) -> None:
        watching = Watching(store, show_node=lambda *_: None, show_pool=lambda *_: None)
        async with aclosing(watching.updates(None)) as updates:
            async for update in updates:
                seen[place] = update.revision
                arrived.set()

    tasks = [asyncio.create_task(watch(place)) for place in range(watchers)]
    await asyncio.sleep(0.1)
    written, delivered = [], []
    for _ in range(number):
        event = Event(at=NOW, about=about("node", "training-1"), kind="node.health", reason="ok")
        start = time.perf_counter()
        fleet = await store.commit(Change(events=[event]), based_on=store.fleet().revision)
        written.append(time.perf_counter() - start)
        while watchers and min(seen) < fleet.revision:
            arrived.clear()
            await arrived.wait()
        delivered.append(time.perf_counter() - start)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {
        "watchers": watchers,
        "commit": milliseconds(written),
        "seen_by_all": milliseconds(delivered),
    }


class BenchClock:
    """The time of the machine, counted from `NOW`."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def now(self) -> datetime:
        """Return the time."""
        return NOW + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self._began

    async def sleep(self, seconds: float) -> None:
        """Sleep in real time."""
        await asyncio.sleep(seconds)


async def pruning(store: Store, file: Path) -> dict[str, object]:
    """Drop what is due while commits arrive: time these, and the stalls of the event loop."""
    clock = BenchClock()
    driver = ControllerDriver(clock, store, RetentionController(clock, store, Retention))
    written: list[float] = []
    stalls: list[float] = []
    pieces = 0

    async def commit() -> None:
        while True:
            event = Event(at=NOW, about=about("node", "training-1"), kind="node.health", reason="")
            call = store.commit(Change(events=[event]), based_on=store.fleet().revision)
            written.append(await took(call))
            await asyncio.sleep(0.02)

    async def tick() -> None:
        while True:
            stalls.append(await took(asyncio.sleep(0.001)) - 0.001)

    others = [asyncio.create_task(commit()), asyncio.create_task(tick())]
    while (due := await driver.reconcile()) is not None and due < clock.now() + LOOK_EVERY / 2:
        pieces += 1
        await asyncio.sleep((due - clock.now()).total_seconds())
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    return {
        "pieces": pieces,
        "seconds": round(clock.monotonic(), 1),
        "commit": milliseconds(written),
        "stall_of_the_loop": milliseconds(stalls),
        "file_mb": megabytes(file),
    }


def megabytes(file: Path) -> float:
    return round(file.stat().st_size / 1e6, 1)


async def measured(folder: Path, events: int, watchers: int, number: int) -> dict[str, object]:
    threads = ThreadOffload("bench")
    with closing(threads), closing(SqliteStore.open(folder, threads, SystemEntropy())) as store:
        # Only what is measured must reach the disk.
        store._database.execute("PRAGMA synchronous = OFF")  # noqa: SLF001
        await fill(store, events)
    start = time.perf_counter()
    with closing(threads), closing(SqliteStore.open(folder, threads, SystemEntropy())) as store:
        opened = time.perf_counter() - start
    threads = ThreadOffload("bench")
    with closing(threads), closing(SqliteStore.open(folder, threads, SystemEntropy())) as store:
        return {
            "events": events,
            "file_mb": megabytes(folder / "navarch.db"),
            "open_s": round(opened, 2),
            "commits": [await commits(store, each, number) for each in (0, watchers)],
            "why_one_node_ms": round(await took(explain(store, about("node", "training-7"))) * 1e3),
            "newest_ms": round(await took(store.events(newest_first=True, limit=50)) * 1e3),
            "pruning": await pruning(store, folder / "navarch.db"),
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--watchers", type=int, default=20)
    parser.add_argument("--commits", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(
            measured(Path(folder), options.events, options.watchers, options.commits)
        )
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()

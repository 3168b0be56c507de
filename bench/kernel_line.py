"""The time from a line in the kernel log to the journal of the control plane, over HTTP.

usage: python -m bench.kernel_line [--lines 200]

One agent with eight simulated GPUs, a log and a disk of its own; a control plane with its SQLite
journal in the same process, so that both share one core. `on_the_wire_ms` ends when the report
arrives at the control plane, `journal_ms` when the agent receives the confirmation of the commit;
both begin when the line is written. Lines come at random times, up to 50 ms after the previous one
is complete.
"""

import argparse
import asyncio
import json
import random
import socket
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, cast

import structlog
from tests.support.local_api import build_local_api, serve_local_api

from navarch.agent.agent import Agent
from navarch.agent.event_sources import EventSources, wake_on_kernel_log
from navarch.agent.settings import Identity
from navarch.agent.spool.disk import FolderDisk
from navarch.agent.transport import open_link
from navarch.agent.transport.http_link import HttpLink
from navarch.api.http.app import HttpApp
from navarch.api.http.exchange import Receive, Scope, Send
from navarch.clock import SystemClock, SystemEntropy, ThreadOffload
from navarch.core.health import HealthReport
from navarch.core.ids import NodeId
from navarch.core.node import NodeStatus
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.xid import XidCheck
from navarch.health.xid.catalogue import xids
from navarch.hosts.kmsg import FileBookmark, Kmsg
from navarch.hosts.simulated import SimulatedHost
from navarch.stores.sqlite import SqliteStore

NODE = NodeId("bench")
DEPENDS = (51, 109)
"""Fatal only with the right words behind them, or when they come again."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=200)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    with tempfile.TemporaryDirectory() as folder:
        sent, kept = asyncio.run(measure(Path(folder), options.lines))
    found = {"lines": len(kept), "on_the_wire_ms": figures(sent), "journal_ms": figures(kept)}
    print(json.dumps(found, indent=2))


class Decisions(Protocol):
    """A wait for the decision about a node."""

    async def begin(self, store: SqliteStore, tasks: asyncio.TaskGroup) -> None:
        """Put a control plane behind the store."""
        ...

    async def made(self) -> float:
        """Return when it was decided, and make the node well again."""
        ...

    def end(self) -> None:
        """Stop the control plane."""
        ...


async def measure(
    folder: Path, lines: int, *, decisions: Decisions | None = None
) -> tuple[list[float], list[float]]:
    """Return for each line how long it took to the door, and to the journal.

    With `decisions`, the second is until something has been decided about it.
    """
    fatal = [code for code, entry in xids().items() if entry.fatal and code not in DEPENDS]
    errors = [(code, gpu) for code in fatal for gpu in range(8)][:lines]
    theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    clock, entropy = SystemClock(), SystemEntropy()
    gpus = SimulatedGpus(clock, entropy, count=8, seed="bench")
    event_sources = EventSources(
        clock,
        gpus,
        [Kmsg(clock, file=ours.detach())],
        bookmark=FileBookmark(folder / "kernel-log" / "bookmark.json"),
        boot_id="boot",
    )
    disk, offload, probe = FolderDisk(folder / "state"), ThreadOffload("d"), ThreadOffload("p")
    commits = ThreadOffload("c")
    store = SqliteStore.open(folder / "data", commits, entropy)
    local, chance = build_local_api(store=store), random.Random(7)
    door = _Door(local.app)
    local.app = cast(HttpApp, door)
    async with serve_local_api(local, grpc=False), asyncio.TaskGroup() as tasks:
        if decisions is not None:
            await decisions.begin(store, tasks)
        link = open_link(local.http_url)
        assert isinstance(link, HttpLink)
        stopwatch = _Stopwatch(link)
        agent = Agent(
            clock,
            entropy,
            stopwatch,
            event_sources,
            SimulatedHost(clock, entropy, NODE),
            disk,
            identity=Identity(node=NODE),
            checks=[XidCheck()],
            offload=offload,
            probe_offload=probe,
            sources=event_sources.sources,
        )
        tasks.create_task(agent.run())
        with wake_on_kernel_log(agent, event_sources):
            await stopwatch.until("xid")
            sent, kept = [], []
            for number, (code, gpu) in enumerate(errors, start=1):
                line = f"NVRM: Xid (PCI:0000:{gpu + 1:02x}:00): {code}, pid=7, name=c, words"
                await asyncio.sleep(chance.uniform(0.0, 0.05))
                began = time.perf_counter()
                theirs.send(f"4,{number},1,-;{line}".encode())
                await stopwatch.until(f"xid/{code}/GPU-bench-{gpu}")
                done = time.perf_counter() if decisions is None else await decisions.made()
                kept.append(done - began)
                sent.append(door.knocked_at - began)
            agent.stop()
            if decisions is not None:
                decisions.end()
    theirs.close()
    event_sources.close()
    disk.close()
    offload.close()
    probe.close()
    commits.close()
    store.close()
    return sent, kept


class _Door:
    """The control plane's application, with a note of when a report last came in."""

    def __init__(self, app: HttpApp) -> None:
        self._app = app
        self.close = app.close
        self.knocked_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/v1/agent/health":
            self.knocked_at = time.perf_counter()
        await self._app(scope, receive, send)


class _Stopwatch(HttpLink):
    """The real link, with a note of what has been acknowledged."""

    def __init__(self, link: HttpLink) -> None:
        self.__dict__.update(link.__dict__)
        self._told: set[str] = set()
        self._news = asyncio.Event()

    async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
        status = await super().report_health(node, report)
        self._told.update(result.check for result in report.results)
        self._news.set()
        return status

    async def until(self, check: str) -> None:
        async with asyncio.timeout(30):
            while check not in self._told:
                self._news.clear()
                await self._news.wait()


def figures(seconds: Sequence[float]) -> dict[str, float]:
    ranked = sorted(1000 * second for second in seconds)
    return {
        "median": round(statistics.median(ranked), 1),
        "p99": round(ranked[int(len(ranked) * 0.99) - 1], 1),
        "max": round(ranked[-1], 1),
    }


if __name__ == "__main__":
    main()

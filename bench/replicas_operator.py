"""An operator who changes the fleet while replicas fail, with a ledger of what was acknowledged."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from random import Random
from typing import TypeVar

from bench.replicas_judge import Ledger, Write, WriteKind
from bench.replicas_machines import Machines
from bench.replicas_network import Link
from bench.replicas_servers import PARKED, POOLS
from navarch.client.connection import ServerConnection, parse_address
from navarch.client.http import HttpFleetClient
from navarch.core.errors import (
    InvalidError,
    NavarchError,
    NotFoundError,
    NotPossibleError,
)
from navarch.core.event import Recorded
from navarch.core.ids import JobName, NodeId, PoolName
from navarch.core.job import Job
from navarch.core.node import Phase
from navarch.ports.api import JobRequest, PoolView, Query

ANSWER_S = 1.5
GIVE_UP_S = 20.0
PAUSE_S = (0.4, 1.4)
PROBE_S = 0.2
PROBE_ANSWER_S = 1.0
SIZE_MAX = 5
PAGE = 1000
FINAL_WITHIN_S = 30.0

T = TypeVar("T")


def _events_after(newest: int) -> Callable[[HttpFleetClient], Awaitable[Sequence[Recorded]]]:
    return lambda client: client.events(after=newest, limit=PAGE)


def _client(url: str, timeout_s: float) -> HttpFleetClient:
    return HttpFleetClient(ServerConnection(parse_address(url), token=None, timeout_s=timeout_s))


class _Way:
    """A client of one replica, and the link to it."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.client = _client(f"http://127.0.0.1:{link.port}", ANSWER_S)


class Operator:
    """Sends one request after another, to any replica that answers."""

    def __init__(self, links: Sequence[Link], machines: Machines, seed: int) -> None:
        """Each link leads to a replica, and has no other client."""
        self._ways = [_Way(link) for link in links]
        self._machines = machines
        self._random = Random(f"operator {seed}")
        self._cordoned: list[NodeId] = []
        self._stopping = asyncio.Event()
        self.sizes = dict.fromkeys(POOLS, 0)
        """The size of each pool that was requested last."""
        self.ledger = Ledger()

    async def close(self) -> None:
        """Close the connections."""
        for way in self._ways:
            await way.client.close()

    async def run(self) -> None:
        """Change something now and then, until stopped."""
        while not self._stopping.is_set():
            await self._change()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._random.uniform(*PAUSE_S)):
                    await self._stopping.wait()

    def stop(self) -> None:
        """End `run` after its present change: one that is cancelled may have an effect later."""
        self._stopping.set()

    async def scale(self, pool: str, size: int) -> bool:
        """Set the size of a pool; return whether it was acknowledged."""
        self.sizes[pool] = size
        return await self._write(
            WriteKind.SCALE,
            pool,
            lambda client, why: client.scale(PoolName(pool), size, reason=why),
            value=size,
        )

    async def wait_for_pools(self) -> None:
        """Return once a replica has read the configuration."""
        deadline = time.monotonic() + FINAL_WITHIN_S
        while not set(POOLS) <= {pool.spec.name for pool in await self.pools()}:
            assert time.monotonic() < deadline, "no replica has read its configuration"
            await asyncio.sleep(0.1)

    async def pools(self) -> Sequence[PoolView]:
        """Return the pools; empty if no replica answers."""
        for way in self._ways:
            try:
                return await way.client.list_pools()
            except NavarchError:
                pass
        return ()

    async def serving(self) -> int:
        """Return how many replicas answer a request."""

        async def answers(client: HttpFleetClient) -> bool:
            try:
                await client.list_pools()
            except NavarchError:
                return False
            return True

        return sum(await asyncio.gather(*map(answers, [way.client for way in self._ways])))

    async def journal(self) -> list[Recorded]:
        """Return every event."""
        found: list[Recorded] = []
        while True:
            newest = found[-1].number if found else 0
            page = await self._read(_events_after(newest))
            if not page:
                return found
            found += page

    async def jobs(self) -> Sequence[Job]:
        """Return every job."""
        return await self._read(lambda client: client.list_jobs(over=True))

    async def in_service(self) -> dict[str, str | None]:
        """Return the nodes that are not leaving, each with the reason for its cordon."""
        page = await self._read(lambda client: client.list_nodes(Query(page_size=PAGE)))
        return {
            str(node.id): node.cordoned
            for node in page.items
            if node.retiring is None and node.phase is not Phase.TERMINATING
        }

    async def _change(self) -> None:
        sound = self._machines.sound
        what = self._random.choices(
            ["scale", "cordon", "uncordon", "retire", "fail"], [12, 2, 2, 2, 2]
        )[0]
        node = self._random.choice(sound) if sound else NodeId("")
        if what == "cordon" and sound:
            if await self._mark(WriteKind.CORDON, node):
                self._cordoned.append(node)
        elif what == "uncordon" and self._cordoned:
            await self._mark(WriteKind.UNCORDON, self._cordoned.pop())
        elif what == "retire" and sound:
            await self._mark(WriteKind.RETIRE, node)
        elif what == "fail" and len(sound) > 1 and not self._machines.broken:
            # One in each schedule: the governor holds back the replacement of more.
            self._machines.fail(node)
        else:
            pool = self._random.choice(POOLS)
            sizes = [size for size in range(1, SIZE_MAX + 1) if size != self.sizes[pool]]
            await self.scale(pool, self._random.choice(sizes))

    async def _mark(self, kind: WriteKind, node: NodeId) -> bool:
        calls: dict[WriteKind, Callable[[HttpFleetClient, str], Awaitable[object]]] = {
            WriteKind.CORDON: lambda client, why: client.cordon(node, reason=why),
            WriteKind.UNCORDON: lambda client, _: client.uncordon(node),
            WriteKind.RETIRE: lambda client, why: client.retire(node, reason=why),
        }
        return await self._write(kind, node, calls[kind])

    async def _write(
        self,
        kind: WriteKind,
        subject: str,
        call: Callable[[HttpFleetClient, str], Awaitable[object]],
        *,
        value: int = 0,
    ) -> bool:
        """Make a change at one replica after another; return whether it was acknowledged."""
        number = len(self.ledger.writes) + 1
        write = Write(number=number, kind=kind, subject=subject, value=value)
        self.ledger.writes.append(write)
        deadline = time.monotonic() + GIVE_UP_S
        while time.monotonic() < deadline:
            way = self._ways[0]
            before = way.link.delivered
            try:
                await call(way.client, write.reason)
            except (InvalidError, NotFoundError, NotPossibleError):
                return False
            except NavarchError:
                if way.link.frozen or way.link.delivered > before:
                    write.unsure = True
                self._ways.append(self._ways.pop(0))
                await asyncio.sleep(PROBE_S)
            else:
                write.acknowledged = True
                return True
        return False

    async def _read(self, request: Callable[[HttpFleetClient], Awaitable[T]]) -> T:
        deadline = time.monotonic() + FINAL_WITHIN_S
        while True:
            try:
                return await request(self._ways[0].client)
            except NavarchError:
                assert time.monotonic() < deadline, "no replica answers"
                self._ways.append(self._ways.pop(0))
                await asyncio.sleep(PROBE_S)


class Probes:
    """Submits jobs to every replica at the same time: each is a record that must not be lost."""

    def __init__(self, urls: Sequence[str], ledger: Ledger) -> None:
        self._clients = [_client(url, PROBE_ANSWER_S) for url in urls]
        self._ledger = ledger
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Submit jobs from now on."""
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._submit(number, client))
            for number, client in enumerate(self._clients)
        ]

    async def close(self) -> None:
        """End the submissions."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._clients:
            await client.close()

    async def _submit(self, replica: int, client: HttpFleetClient) -> None:
        for number in count():
            name = f"record-{replica}-{number}"
            sent = time.monotonic()
            try:
                await client.submit_job(JobRequest(name=JobName(name), pool=PoolName(PARKED)))
            except NavarchError:
                pass
            else:
                self._ledger.jobs[name] = sent
                self._ledger.acknowledged_at.append((sent, time.monotonic()))
            await asyncio.sleep(PROBE_S)

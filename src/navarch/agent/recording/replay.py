"""A recording played into the real agent."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from navarch.agent.agent import Agent
from navarch.agent.disk import MemoryDisk
from navarch.agent.identity import Identity
from navarch.agent.recording.recording import Recording
from navarch.agent.recording.replayed import ReplayedGpus, ReplayedLog
from navarch.agent.witnesses import Witnesses
from navarch.core.ids import NodeId
from navarch.ports.checks import HealthCheck
from navarch.ports.clock import Clock, Entropy
from navarch.ports.host import Host
from navarch.ports.link import Link

T = TypeVar("T")

AFTERMATH_S = 5.0
"""How long the agent goes on after the last record, to tell what it found."""


class Inline:
    """Runs blocking calls where they stand: nothing of a recording blocks."""

    async def run(self, call: Callable[[], T]) -> T:
        """Return what `call` returns."""
        return call()


class Nowhere:
    """A bookmark that is never looked at again."""

    def load(self, boot_id: str) -> int:
        """Begin at the beginning."""
        del boot_id
        return -1

    def save(self, boot_id: str, sequence: int) -> None:
        """Do nothing."""


async def replay(
    clock: Clock,
    entropy: Entropy,
    recording: Recording,
    link: Link,
    host: Host,
    checks: Sequence[HealthCheck],
    *,
    node: NodeId,
) -> Witnesses:
    """Let an agent live through `recording`, on whatever clock; return what its sources saw."""
    witnesses = Witnesses(
        clock,
        ReplayedGpus(clock, recording),
        [ReplayedLog(clock, recording)],
        bookmark=Nowhere(),
        boot_id=recording.boot_id,
    )
    agent = Agent(
        clock,
        entropy,
        link,
        witnesses,
        host,
        MemoryDisk(),
        identity=Identity(node=node, boot_id=recording.boot_id),
        checks=checks,
        offload=Inline(),
        probe_offload=Inline(),
        sources=witnesses.sources,
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(agent.run())
        await clock.sleep(recording.length.total_seconds() + AFTERMATH_S)
        agent.stop()
    return witnesses

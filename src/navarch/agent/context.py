"""What the loops of one agent share."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from navarch.agent.connection import ConnectionState, Signals
from navarch.agent.settings import Identity, Timing
from navarch.agent.spool import Spool
from navarch.agent.spool.disk import Disk
from navarch.ports.agents import Link
from navarch.ports.clock import Clock, Entropy, Offload
from navarch.ports.gpu import GpuError, GpuReader
from navarch.ports.host import Host

T = TypeVar("T")


class HungError(GpuError):
    """The driver does not respond."""


@dataclass(slots=True)
class Probe:
    """Runs one blocking call at a time, with a timeout.

    A hung call cannot be cancelled and keeps its thread. Until it returns, every other call
    raises HungError at once instead of queueing behind it.
    """

    offload: Offload
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _running: bool = False

    @property
    def hung(self) -> bool:
        """Whether a call that timed out is still running."""
        return self._running and not self._lock.locked()

    async def call(self, function: Callable[[], T], *, within_s: float) -> T:
        """Return the result of `function`, or raise HungError after `within_s` seconds."""
        try:
            async with asyncio.timeout(within_s), self._lock:
                if self._running:
                    raise HungError("an earlier call to the driver has not returned")
                self._running = True
                return await self.offload.run(partial(self._run, function))
        except TimeoutError as error:
            raise HungError(f"the driver did not respond within {within_s:g} s") from error

    def _run(self, function: Callable[[], T]) -> T:
        try:
            return function()
        finally:
            self._running = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AgentContext:
    """The machine, the control plane and the state of one running agent."""

    clock: Clock
    entropy: Entropy
    link: Link
    gpus: GpuReader
    host: Host
    disk: Disk
    offload: Offload
    """Runs disk calls, one at a time."""
    probe: Probe
    identity: Identity
    timing: Timing
    boot_id: str
    connection: ConnectionState
    signals: Signals
    spool: Spool

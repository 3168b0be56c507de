"""Measurements that outlive a process, and the timeout of heartbeats across a change of pace."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import structlog

from navarch.control.pools.loads import Loads
from navarch.core.errors import ConflictError, StoreError
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import NodeId
from navarch.ports.clock import Clock, Offload
from navarch.ports.store import Store
from navarch.service.agents import Timing
from navarch.stores.evidence import read_whole, write_whole
from navarch.stores.telemetry import PULSE, TelemetryTable

log = structlog.get_logger(__name__)

TIMEOUT_CURSOR = "heartbeats/silence_ms"
"""The key under which the store holds the last heartbeat timeout, in milliseconds."""

READINGS = "readings"
LOADS = "loads"

LOADS_EVERY = timedelta(minutes=1)
"""The most of the pools' load history that a crash may lose; the history is in quarter hours."""


class Snapshots:
    """The newest readings of every node and the load history of every pool, saved as files.

    Unlike the store they may be lost: they are measurements.
    """

    def __init__(
        self, clock: Clock, data_dir: Path, *, nodes: Iterable[NodeId], silence: timedelta
    ) -> None:
        """Load the saved files; ignore a file that cannot be used."""
        self._clock = clock
        self._readings, self._history = data_dir / READINGS, data_dir / LOADS
        self.telemetry = TelemetryTable(clock, timeout=silence, nodes=list(nodes))
        saved = read_whole(self._readings)
        if saved is not None and not self.telemetry.restore(saved):
            log.warning("server.readings_lost", path=str(self._readings))
        self.loads = Loads()
        saved = read_whole(self._history)
        if saved is not None and not self.loads.restore(saved):
            log.warning("server.loads_lost", path=str(self._history))
        self._loads_due = clock.now() + LOADS_EVERY

    def write(self) -> None:
        """Save everything. Blocking."""
        write_whole(self._history, self.loads.dump())
        write_whole(self._readings, self.telemetry.dump())

    async def save(self, offload: Offload) -> None:
        """Save the readings, and the load history if it is due."""
        data = self.telemetry.dump()
        await offload.run(lambda: write_whole(self._readings, data))
        if self._clock.now() >= self._loads_due:
            self._loads_due = self._clock.now() + LOADS_EVERY
            loads = self.loads.dump()
            await offload.run(lambda: write_whole(self._history, loads))


class PauseWatch:
    """Leaves the time in which this process did not run out of the silence of nodes."""

    def __init__(self, clock: Clock, store: Store, telemetry: TelemetryTable) -> None:
        self._clock = clock
        self._store = store
        self._telemetry = telemetry
        self._unrecorded = timedelta(0)

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            paused = self._telemetry.pulse()
            if paused:
                log.warning("server.paused", seconds=round(paused.total_seconds()))
                self._unrecorded += paused
            if self._unrecorded:
                # The store may be away, and must not end the server.
                with suppress(StoreError, ConflictError):
                    await self._record(self._unrecorded)
                    self._unrecorded = timedelta(0)
            await self._clock.sleep(PULSE.total_seconds())

    async def _record(self, paused: timedelta) -> None:
        event = Event(
            at=self._clock.now(),
            about=about("server", "control plane"),
            kind="server.paused",
            reason=(
                f"the control plane did not run for {paused.total_seconds():.0f} s; the silence of "
                "nodes counts from now"
            ),
        )
        await self._store.commit(Change(events=[event]), based_on=self._store.fleet().revision)


class TimeoutMigration:
    """Changes the heartbeat timeout without marking agents as silent that use the old interval.

    An agent receives its interval when it registers. When the interval becomes shorter, every
    agent is requested to register again; until all have had the time to, the longer timeout
    holds.
    """

    def __init__(
        self,
        clock: Clock,
        store: Store,
        telemetry: TelemetryTable,
        *,
        timing: Callable[[], Timing],
        request_registrations: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._store = store
        self._telemetry = telemetry
        self._timing = timing
        self._request_registrations = request_registrations

    async def adopt(self) -> None:
        """Use the timeout of the present timing, or the previous one while that is longer."""
        silence = self._timing().silence
        known_ms = self._store.cursor(TIMEOUT_CURSOR)
        before = silence if known_ms is None else timedelta(milliseconds=known_ms)
        self._telemetry.timeout = max(before, silence)
        if silence < before:
            self._request_registrations()
        elif silence > before or known_ms is None:
            await self._remember(silence)

    async def run(self) -> None:
        """End the longer timeout once every agent has had the time to register."""
        while True:
            await self._clock.sleep(max(self._telemetry.timeout.total_seconds() * 3, 1.0))
            silence = self._timing().silence
            if self._telemetry.timeout != silence:
                # If the store is away, the longer timeout holds until it is back.
                with suppress(StoreError, ConflictError):
                    await self._remember(silence)
                    self._telemetry.timeout = silence

    async def _remember(self, silence: timedelta) -> None:
        value = silence // timedelta(milliseconds=1)
        change = Change(cursors={TIMEOUT_CURSOR: value})
        await self._store.commit(change, based_on=self._store.fleet().revision)

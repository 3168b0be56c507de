"""Heartbeats and metrics as columns: what changes every few seconds and need not be durable."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from math import inf
from operator import attrgetter

import msgspec
import numpy as np
import numpy.typing as npt

from navarch.core.ids import NodeId
from navarch.core.metrics import GpuMetrics, NodeMetrics, Sample
from navarch.ports.clock import Clock
from navarch.ports.liveness import Sooner

GPUS_PER_ROW = 8
"""A machine with more GPUs takes several rows."""

_READINGS = 4
_UTILIZATION = 2
_readings_of = attrgetter("temperature_c", "power_w", "utilization_pct", "memory_used_bytes")
_FORMAT = 1

Floats = npt.NDArray[np.float32]
Seconds = npt.NDArray[np.float64]


JUMP_S = 1.0
"""A clock that gains or loses more than this between two looks has been set."""


class TelemetryTable:
    """When each node was last heard of, and what it said: a few hundred bytes per node.

    A node is silent from `timeout` after it was last heard of. Time spent while the
    control plane was down does not count against anybody: everyone gets the full timeout
    from the start of this process.
    """

    def __init__(self, clock: Clock, *, timeout: timedelta, nodes: Iterable[NodeId] = ()) -> None:
        self._clock = clock
        self._timeout, self._patience = timeout, timeout.total_seconds()
        self._listeners: list[Sooner] = []
        self._rows: dict[NodeId, int] = {}
        self._spare: list[int] = []
        self._more: dict[NodeId, list[int]] = {}
        self._heard: Seconds = np.full(64, np.inf)
        self._host: Floats = np.zeros((64, 2), np.float32)
        self._gpus: npt.NDArray[np.int16] = np.zeros(64, np.int16)
        self._readings: Floats = np.zeros((64, _READINGS, GPUS_PER_ROW), np.float32)
        self._names: list[NodeId | None] = []
        for node in nodes:
            self._row(node)
        self._mute: dict[NodeId, None] = dict.fromkeys(self._rows)
        """Who was known when this process began, and has not been heard of since."""
        self._wall_s, self._steady_s = clock.now().timestamp(), clock.monotonic()
        self._heard[: len(self._names)] = self._wall_s

    def _now_s(self) -> float:
        """Return the time of day, once all that was heard is dated by the same clock.

        Somebody may set the clock. Silence is a length of time, which that does not change: a
        clock that jumps an hour ahead must not make a whole fleet an hour silent.
        """
        wall_s, steady_s = self._clock.now().timestamp(), self._clock.monotonic()
        jump_s = (wall_s - self._wall_s) - (steady_s - self._steady_s)
        if abs(jump_s) > JUMP_S:
            self._heard += jump_s
        self._wall_s, self._steady_s = wall_s, steady_s
        return wall_s

    @property
    def timeout(self) -> timedelta:
        """How long a node may go unheard before it is overdue."""
        return self._timeout

    @timeout.setter
    def timeout(self, timeout: timedelta) -> None:
        self._timeout, self._patience = timeout, timeout.total_seconds()
        self._tell(self._clock.now())

    def subscribe(self, listener: Sooner) -> None:
        """Call `listener` when somebody may be overdue, or back, sooner than was said."""
        self._listeners.append(listener)

    def has_spoken(self, node: NodeId) -> bool:
        """Return whether `node` was heard of since this process began to listen."""
        return node in self._rows and node not in self._mute

    def _welcome(self, node: NodeId, overdue_at: datetime) -> None:
        """Tell of one that was not known: it is not overdue for a while."""
        del node
        self._tell(overdue_at)

    def _tell(self, moment: datetime) -> None:
        for listener in self._listeners:
            listener(moment)

    def __len__(self) -> int:
        return len(self._rows)

    def heard(self, node: NodeId, metrics: NodeMetrics | None = None) -> None:
        """Note that `node` is alive now."""
        row = self._row(node)
        now_s = self._now_s()
        unheard_s = now_s - self._heard.item(row)
        self._heard[row] = now_s
        if metrics is not None:
            self._write(node, row, metrics)
        if node in self._mute or not 0.0 <= unheard_s < self._patience:
            self._mute.pop(node, None)
            if unheard_s == -inf:
                self._welcome(node, self._overdue_at(now_s))
            else:
                self._tell(_moment(now_s))  # Who was overdue is back.

    def heard_late(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Take the newest of readings from before, if there are none for `node` yet.

        A node that has no row, or no longer has one, is passed over: old readings are no sign of
        life, and a row without one has no date that could be shown.
        """
        row = self._rows.get(node)
        if row is not None and samples and not self._gpus[row]:
            newest = max(samples, key=lambda sample: sample.at)
            self._write(node, row, newest.metrics)

    def take(self, nodes: Sequence[NodeId], hosts: Floats, readings: Floats) -> None:
        """Write the newest readings of many nodes that all have equally many GPUs.

        `hosts` holds CPU and memory use (node, 2), `readings` temperature, power, utilisation
        and memory used in bytes (node, 4, GPU). A node that comes twice keeps the later row; one
        that is not known, or no longer, is passed over.
        """
        known = [(place, node) for place, node in enumerate(nodes) if node in self._rows]
        places = [place for place, _ in known]
        rows = np.array([self._rows[node] for _, node in known], np.int64)
        gpus = readings.shape[2]
        self._host[rows] = hosts[places]
        self._gpus[rows] = gpus
        self._readings[rows, :, : min(gpus, GPUS_PER_ROW)] = readings[places, :, :GPUS_PER_ROW]
        if gpus > GPUS_PER_ROW:
            for place, node in known:
                rest = self._rows_for(node, self._rows[node], gpus)[1:]
                for number, row in enumerate(rest, start=1):
                    part = readings[place, :, number * GPUS_PER_ROW :][:, :GPUS_PER_ROW]
                    self._readings[row, :, : part.shape[1]] = part

    def forget(self, node: NodeId) -> None:
        """Drop a node that is gone."""
        row = self._rows.pop(node, None)
        if row is None:
            return
        self._mute.pop(node, None)
        for used in (row, *self._more.pop(node, [])):
            self._heard[used] = np.inf
            self._names[used] = None
            self._spare.append(used)

    def last_heard(self, node: NodeId) -> datetime | None:
        """Return when `node` was last heard of by this process."""
        row = self._rows.get(node)
        return None if row is None else _moment(self._heard[row])

    def silent_since(self, node: NodeId) -> datetime | None:
        """Return when `node` was last heard of, if it is overdue."""
        row = self._rows.get(node)
        if row is None or self._heard[row] + self._patience > self._now_s():
            return None
        return _moment(self._heard[row])

    def silent(self) -> Mapping[NodeId, datetime]:
        """Return every overdue node with the time it was last heard of."""
        now = self._now_s()
        heard = self._heard[: len(self._names)]
        silent: dict[NodeId, datetime] = {}
        for row in (heard + self._patience <= now).nonzero()[0].tolist():
            node = self._names[row]
            if node is not None:
                silent[node] = _moment(heard[row])
        return silent

    def next_change(self) -> datetime | None:
        """Return when the next node falls silent if nothing more is heard."""
        now = self._now_s()
        heard = self._heard[: len(self._names)]
        coming = heard[(heard + self._patience > now) & np.isfinite(heard)]
        if not coming.size:
            return None
        return self._overdue_at(coming.min())

    def overdue_from(self) -> datetime | None:
        """Return when the first node is overdue if nothing more is heard, or since when one is."""
        self._now_s()
        first_s = self._heard[: len(self._names)].min(initial=np.inf)
        return None if first_s == np.inf else self._overdue_at(first_s)

    def _overdue_at(self, heard_s: float) -> datetime:
        # Rounded up to the microsecond, or a wake-up could come a hair before the change.
        return _moment(heard_s + self._patience) + timedelta(microseconds=1)

    def metrics(self, node: NodeId) -> NodeMetrics | None:
        """Return what `node` said last."""
        row = self._rows.get(node)
        if row is None:
            return None
        rows = [row, *self._more.get(node, [])]
        readings = np.concatenate([self._readings[used] for used in rows], axis=1)
        gpus = readings[:, : int(self._gpus[row])].T.tolist()
        cpu, memory = self._host[row].tolist()
        return NodeMetrics(
            cpu_pct=cpu,
            memory_pct=memory,
            gpus=tuple(
                GpuMetrics(temperature_c=t, power_w=p, utilization_pct=u, memory_used_bytes=m)
                for t, p, u, m in gpus
            ),
        )

    def utilization(self, nodes: Sequence[NodeId]) -> list[float | None]:
        """Return the average over each node's GPUs, in percent; None if it never said."""
        if len(nodes) == 1:
            return [self._utilization(nodes[0])]
        found: list[float | None] = [None] * len(nodes)
        known = self._rows.get
        rows = np.array([known(node, -1) for node in nodes], np.int64)
        gpus = np.where(rows < 0, 0, self._gpus[rows])
        few = np.flatnonzero((gpus > 0) & (gpus <= GPUS_PER_ROW))
        used = self._readings[rows[few], _UTILIZATION]
        # Slots past a machine's last GPU may hold what another machine once said.
        used = np.where(np.arange(GPUS_PER_ROW) < gpus[few, None], used, 0)
        means = used.sum(axis=1, dtype=np.float64) / gpus[few]
        for place, mean in zip(few.tolist(), means.tolist(), strict=True):
            found[place] = mean
        for place in np.flatnonzero(gpus > GPUS_PER_ROW).tolist():
            said = self.metrics(nodes[place])
            assert said is not None, nodes[place]
            found[place] = sum(gpu.utilization_pct for gpu in said.gpus) / len(said.gpus)
        return found

    def _utilization(self, node: NodeId) -> float | None:
        """Return one node's average: reports ask for one at a time, a thousand in a storm."""
        row = self._rows.get(node, -1)
        gpus = 0 if row < 0 else int(self._gpus[row])
        if gpus == 0:
            return None
        used: list[float] = self._readings[row, _UTILIZATION, :gpus].tolist()
        if gpus > GPUS_PER_ROW:
            for more in self._more[node]:
                used += self._readings[more, _UTILIZATION].tolist()
        return sum(used[:gpus]) / gpus

    def bytes_per_node(self) -> float:
        """Return what one node costs in memory, its name in the index included."""
        per_row = sum(
            column.itemsize * int(np.prod(column.shape[1:]))
            for column in (self._heard, self._host, self._gpus, self._readings)
        )
        slots = len(self._heard) / max(len(self._rows), 1)
        index = (self._rows.__sizeof__() + self._names.__sizeof__()) / max(len(self._rows), 1)
        return per_row * slots + index

    def dump(self) -> bytes:
        """Return everything as it is now, for `restore`."""
        count = len(self._names)
        head = msgspec.json.encode({"format": _FORMAT, "names": self._names, "more": self._more})
        columns = (self._heard, self._host, self._gpus, self._readings)
        body = [np.ascontiguousarray(column[:count]).tobytes() for column in columns]
        return b"".join((len(head).to_bytes(8, "little"), head, *body))

    def restore(self, dumped: bytes) -> bool:
        """Take back the metrics of known nodes; return whether `dumped` could be read.

        The times are left alone: nobody is blamed for what happened while we were away.
        """
        try:
            data = memoryview(dumped)
            size = int.from_bytes(data[:8], "little")
            head = msgspec.json.decode(data[8 : 8 + size])
            if head["format"] != _FORMAT:
                return False
            names, more, rest = head["names"], head["more"], data[8 + size :]
            count = len(names)
            saved = []
            for column in (self._heard, self._host, self._gpus, self._readings):
                shape = (count, *column.shape[1:])
                length = int(np.prod(shape)) * column.itemsize
                saved.append(np.frombuffer(rest[:length], column.dtype).reshape(shape))
                rest = rest[length:]
        except (ValueError, KeyError, TypeError, msgspec.DecodeError):
            # Only readings are lost, and the next heartbeats bring new ones.
            return False
        self._take(names, more, saved[1:])
        return True

    def _take(
        self,
        names: list[str | None],
        more: dict[str, list[int]],
        saved: list[npt.NDArray[np.generic]],
    ) -> None:
        old = {NodeId(name): row for row, name in enumerate(names) if name is not None}
        known = [node for node in self._rows if node in old and node not in more]
        target = np.array([self._rows[node] for node in known], np.int64)
        source = np.array([old[node] for node in known], np.int64)
        host, gpus, readings = saved
        self._host[target] = host[source]
        self._gpus[target] = gpus[source]
        self._readings[target] = readings[source]

    def _write(self, node: NodeId, row: int, metrics: NodeMetrics) -> None:
        self._host[row] = metrics.cpu_pct, metrics.memory_pct
        self._gpus[row] = gpus = len(metrics.gpus)
        said = chain.from_iterable(map(_readings_of, metrics.gpus))
        readings = np.fromiter(said, np.float32, gpus * _READINGS).reshape(gpus, _READINGS).T
        if gpus <= GPUS_PER_ROW:
            self._readings[row, :, :gpus] = readings
            return
        for place, used in enumerate(self._rows_for(node, row, gpus)):
            part = readings[:, place * GPUS_PER_ROW :][:, :GPUS_PER_ROW]
            self._readings[used, :, : part.shape[1]] = part

    def _rows_for(self, node: NodeId, row: int, gpus: int) -> list[int]:
        more = self._more.setdefault(node, [])
        while (1 + len(more)) * GPUS_PER_ROW < gpus:
            more.append(self._new_row(None))
        return [row, *more]

    def _row(self, node: NodeId) -> int:
        row = self._rows.get(node)
        if row is None:
            row = self._rows[node] = self._new_row(node)
        return row

    def _new_row(self, name: NodeId | None) -> int:
        if self._spare:
            row = self._spare.pop()
            self._names[row] = name
            self._heard[row] = np.inf
            self._host[row] = 0
            self._gpus[row] = 0
            return row
        row = len(self._names)
        self._names.append(name)
        if row == len(self._heard):
            self._grow()
        return row

    def _grow(self) -> None:
        # By a quarter: doubling would leave up to half of the memory unused.
        extra = max(64, len(self._heard) // 4)
        self._heard = np.concatenate([self._heard, np.full(extra, np.inf)])
        self._host = np.concatenate([self._host, np.zeros((extra, 2), np.float32)])
        self._gpus = np.concatenate([self._gpus, np.zeros(extra, np.int16)])
        empty = np.zeros((extra, _READINGS, GPUS_PER_ROW), np.float32)
        self._readings = np.concatenate([self._readings, empty])


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)

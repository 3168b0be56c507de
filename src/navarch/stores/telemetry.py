"""Heartbeats and metrics as columns: values that change every few seconds and are not durable."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from math import inf, isfinite
from operator import attrgetter

import msgspec
import numpy as np
import numpy.typing as npt

from navarch.core.ids import NodeId
from navarch.core.instance import GpuMetrics, NodeMetrics, Reading, Sample
from navarch.ports.agents import Sooner
from navarch.ports.clock import Clock

GPUS = 8
"""The GPUs of a row at first. Rows become wider with the first machine that has more."""

GPUS_MAX = 64
"""The most GPUs of a row, as in a heartbeat: one odd report must not make every row huge."""

_READINGS = len(Reading)
_readings_of = attrgetter("temperature_c", "power_w", "utilization_pct", "memory_used_bytes")
_FORMAT = 1

Floats = npt.NDArray[np.float32]
Seconds = npt.NDArray[np.float64]


JUMP_S = 1.0
"""A wall clock that gains or loses more than this between two readings has been set."""


PULSE = timedelta(seconds=2)
"""How often a process that receives heartbeats calls `pulse`."""

_PULSE_S = PULSE.total_seconds()

PAUSE_MIN_S = 10.0
"""A process whose pulse is later than this did not run, or was too busy to receive heartbeats. With
a short timeout, a third of it is enough."""


class TelemetryTable:
    """The last heartbeat and the last metrics of each node: a few hundred bytes per node.

    A node is silent from `timeout` after its last heartbeat. Time during which the control plane
    was down or did not run does not count: every node has the full timeout from the start of this
    process, or from the end of the pause.
    """

    def __init__(self, clock: Clock, *, timeout: timedelta, nodes: Iterable[NodeId] = ()) -> None:
        self._clock = clock
        self._timeout, self._timeout_s = timeout, timeout.total_seconds()
        self._listeners: list[Sooner] = []
        self._rows: dict[NodeId, int] = {}
        self._spare: list[int] = []
        self._beats_s: Seconds = np.full(64, np.inf)
        self._host: Floats = np.zeros((64, 2), np.float32)
        self._gpus: npt.NDArray[np.int16] = np.zeros(64, np.int16)
        self._readings: Floats = np.zeros((64, _READINGS, GPUS), np.float32)
        self._names: list[NodeId | None] = []
        for node in nodes:
            self._row(node)
        self._unseen: dict[NodeId, None] = dict.fromkeys(self._rows)
        """The nodes known at the start of this process without a heartbeat since."""
        self._wall_s, self._steady_s = clock.now().timestamp(), clock.monotonic()
        self._beats_s[: len(self._names)] = self._wall_s
        self._pulse_s = inf
        """When the process last ran for certain, if that is watched."""
        self._paused_s = 0.0
        """The length of the pauses since the last pulse."""
        self._before_pause_s: dict[NodeId, float] = {}
        """The last heartbeats of the nodes that have sent none since a pause."""

    def _now_s(self) -> float:
        """Return the time of day, after moving the recorded times along with a clock that was set.

        Silence is a duration, which setting the clock does not change: a clock that jumps an hour
        ahead must not make a whole fleet an hour silent.
        """
        wall_s, steady_s = self._clock.now().timestamp(), self._clock.monotonic()
        jump_s = (wall_s - self._wall_s) - (steady_s - self._steady_s)
        if abs(jump_s) > JUMP_S:
            self._beats_s += jump_s
            moved = self._before_pause_s.items()
            self._before_pause_s = {node: last_s + jump_s for node, last_s in moved}
        self._wall_s, self._steady_s = wall_s, steady_s
        late_s = steady_s - self._pulse_s - _PULSE_S
        if late_s > min(PAUSE_MIN_S, self._timeout_s / 3):
            self._leave_out(steady_s - self._pulse_s)
        return wall_s

    def _leave_out(self, paused_s: float) -> None:
        """Do not count a pause that ends now as silence.

        Nodes that were silent before stay so; the others have the full timeout from now on.
        """
        for node, row in self._rows.items():
            self._before_pause_s.setdefault(node, float(self._beats_s[row]))
        began_s = self._wall_s - paused_s
        was_silent = self._beats_s + self._timeout_s <= began_s
        counts_from_s = np.maximum(self._beats_s, self._wall_s)
        self._beats_s = np.where(was_silent, self._beats_s + paused_s, counts_from_s)
        self._pulse_s = self._steady_s
        self._paused_s += paused_s

    def pulse(self) -> timedelta:
        """Record that this process runs; return how long it did not since the last call.

        A process that is stopped, a virtual machine that is moved, or a busy event loop receives
        no heartbeats, whatever the nodes send.
        """
        self._now_s()
        paused_s, self._paused_s = self._paused_s, 0.0
        self._pulse_s = self._steady_s
        return timedelta(seconds=paused_s)

    @property
    def timeout(self) -> timedelta:
        """How long after its last heartbeat a node is overdue."""
        return self._timeout

    @timeout.setter
    def timeout(self, timeout: timedelta) -> None:
        self._timeout, self._timeout_s = timeout, timeout.total_seconds()
        self._notify(self._clock.now())

    def subscribe(self, listener: Sooner) -> None:
        """Call `listener` when a result may change sooner than `next_change` returned."""
        self._listeners.append(listener)

    def has_reported(self, node: NodeId) -> bool:
        """Return whether `node` has sent a heartbeat since this process started."""
        return node in self._rows and node not in self._unseen

    def _welcome(self, node: NodeId, overdue_at: datetime) -> None:
        """Notify listeners of a new node: it is overdue at `overdue_at` at the earliest."""
        del node
        self._notify(overdue_at)

    def _notify(self, moment: datetime) -> None:
        for listener in self._listeners:
            listener(moment)

    def __len__(self) -> int:
        return len(self._rows)

    def record_heartbeat(self, node: NodeId, metrics: NodeMetrics | None = None) -> None:
        """Record a heartbeat of `node`."""
        row = self._row(node)
        now_s = self._now_s()
        since_s = now_s - self._beats_s.item(row)
        self._beats_s[row] = now_s
        if self._before_pause_s:
            self._before_pause_s.pop(node, None)
        if metrics is not None:
            self._write(row, metrics)
        if node in self._unseen or not 0.0 <= since_s < self._timeout_s:
            self._unseen.pop(node, None)
            if since_s == -inf:
                self._welcome(node, self._overdue_at(now_s))
            else:
                self._notify(_moment(now_s))  # An overdue node is back.

    def record_late_samples(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Record the newest of earlier readings, if there are none for `node` yet.

        Old readings are no heartbeat, so a node without a row is ignored.
        """
        row = self._rows.get(node)
        if row is not None and samples and not self._gpus[row]:
            newest = max(samples, key=lambda sample: sample.at)
            self._write(row, newest.metrics)

    def take(self, nodes: Sequence[NodeId], hosts: Floats, readings: Floats) -> None:
        """Record the newest readings of many nodes that have the same number of GPUs.

        `hosts` holds CPU and memory use (node, 2), `readings` temperature, power, utilisation
        and memory used in bytes (node, 4, GPU). NaN leaves the value before. For a node given
        twice the later row counts; unknown nodes are ignored.
        """
        known = [(place, node) for place, node in enumerate(nodes) if node in self._rows]
        places = [place for place, _ in known]
        rows = np.array([self._rows[node] for _, node in known], np.int64)
        gpus = readings.shape[2]
        self._widen(gpus)
        is_other = self._gpus[rows] != gpus
        self._host[rows] = _filled(hosts[places], lambda: self._host[rows])
        self._readings[rows, :, :gpus] = _filled(
            readings[places], lambda: self._readings[rows, :, :gpus], is_other
        )
        self._gpus[rows] = gpus

    def forget(self, node: NodeId) -> None:
        """Drop a node that is gone."""
        row = self._rows.pop(node, None)
        if row is None:
            return
        self._unseen.pop(node, None)
        self._before_pause_s.pop(node, None)
        self._beats_s[row] = np.inf
        self._names[row] = None
        self._spare.append(row)

    def last_heartbeat(self, node: NodeId) -> datetime | None:
        """Return the time of the last heartbeat of `node` in this process."""
        row = self._rows.get(node)
        if row is None:
            return None
        return _moment(self._before_pause_s.get(node, self._beats_s[row]))

    def heartbeat_times(self, nodes: Sequence[NodeId]) -> list[float | None]:
        """Return when each node last sent a heartbeat, in seconds since 1970; None if unknown."""
        rows = np.array([self._rows.get(node, -1) for node in nodes], np.int64)
        self._now_s()
        seen_s = np.where(rows < 0, np.inf, self._beats_s[rows]).tolist()
        before = self._before_pause_s
        if before:
            seen_s = [before.get(node, at) for node, at in zip(nodes, seen_s, strict=True)]
        return [at if isfinite(at) else None for at in seen_s]

    def silent_since(self, node: NodeId) -> datetime | None:
        """Return the time from which the silence of `node` counts, if it is overdue."""
        row = self._rows.get(node)
        if row is None or self._beats_s[row] + self._timeout_s > self._now_s():
            return None
        return _moment(self._beats_s[row])

    def silent(self) -> Mapping[NodeId, datetime]:
        """Return every overdue node with the time from which its silence counts."""
        now = self._now_s()
        seen_s = self._beats_s[: len(self._names)]
        silent: dict[NodeId, datetime] = {}
        for row in (seen_s + self._timeout_s <= now).nonzero()[0].tolist():
            node = self._names[row]
            if node is not None:
                silent[node] = _moment(seen_s[row])
        return silent

    def next_change(self) -> datetime | None:
        """Return when the next node becomes overdue unless heartbeats arrive."""
        now = self._now_s()
        seen_s = self._beats_s[: len(self._names)]
        coming = seen_s[(seen_s + self._timeout_s > now) & np.isfinite(seen_s)]
        if not coming.size:
            return None
        return self._overdue_at(coming.min())

    def overdue_from(self) -> datetime | None:
        """Return when the first node becomes overdue unless heartbeats arrive, or has become so."""
        self._now_s()
        first_s = self._beats_s[: len(self._names)].min(initial=np.inf)
        return None if first_s == np.inf else self._overdue_at(first_s)

    def _overdue_at(self, seen_s: float) -> datetime:
        # Rounded up to the microsecond, so that a timer never fires before the change.
        return _moment(seen_s + self._timeout_s) + timedelta(microseconds=1)

    def metrics(self, node: NodeId) -> NodeMetrics | None:
        """Return the last metrics of `node`."""
        row = self._rows.get(node)
        if row is None:
            return None
        gpus = self._readings[row, :, : self._gpus[row]].T.tolist()
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
        """Return the mean utilization of each node's GPUs, in percent; None without readings."""
        found: list[float | None] = [None] * len(nodes)
        rows = np.array([self._rows.get(node, -1) for node in nodes], np.int64)
        gpus = np.where(rows < 0, 0, self._gpus[rows])
        known = np.flatnonzero(gpus)
        used = self._readings[rows[known], Reading.UTILIZATION_PCT]
        # Slots past a machine's last GPU may hold readings of an earlier machine.
        used = np.where(np.arange(used.shape[1]) < gpus[known, None], used, 0)
        means = used.sum(axis=1, dtype=np.float64) / gpus[known]
        for place, mean in zip(known.tolist(), means.tolist(), strict=True):
            found[place] = mean
        return found

    def gpu_readings(self, nodes: Sequence[NodeId], reading: Reading) -> list[list[float]]:
        """Return the last values of each node, one per GPU; none for a node that is silent."""
        rows = np.array([self._rows.get(node, -1) for node in nodes], np.int64)
        is_current = (rows >= 0) & (self._beats_s[rows] + self._timeout_s > self._now_s())
        gpus = np.where(is_current, self._gpus[rows], 0).tolist()
        values = self._readings[rows, reading].tolist()
        return [each[:count] for each, count in zip(values, gpus, strict=True)]

    def bytes_per_node(self) -> float:
        """Return the memory per node, including its name in the index."""
        per_row = sum(
            column.itemsize * int(np.prod(column.shape[1:]))
            for column in (self._beats_s, self._host, self._gpus, self._readings)
        )
        slots = len(self._beats_s) / max(len(self._rows), 1)
        index = (self._rows.__sizeof__() + self._names.__sizeof__()) / max(len(self._rows), 1)
        return per_row * slots + index

    def dump(self) -> bytes:
        """Return the contents, for `restore`."""
        count = len(self._names)
        width = self._readings.shape[2]
        head = msgspec.json.encode({"format": _FORMAT, "names": self._names, "width": width})
        columns = (self._beats_s, self._host, self._gpus, self._readings)
        body = [np.ascontiguousarray(column[:count]).tobytes() for column in columns]
        return b"".join((len(head).to_bytes(8, "little"), head, *body))

    def restore(self, dumped: bytes) -> bool:
        """Restore the metrics of known nodes; return whether `dumped` could be read.

        The times of heartbeats stay as they are: the downtime of this process does not count.
        """
        try:
            data = memoryview(dumped)
            size = int.from_bytes(data[:8], "little")
            head = msgspec.json.decode(data[8 : 8 + size])
            if head["format"] != _FORMAT:
                return False
            names, rest = head["names"], data[8 + size :]
            # In older files, the GPUs of a machine with more than eight are in "more" rows.
            more = head.get("more", ())
            self._widen(head.get("width", GPUS))
            count = len(names)
            saved = []
            for column in (self._beats_s, self._host, self._gpus, self._readings):
                shape = (count, *column.shape[1:])
                length = int(np.prod(shape)) * column.itemsize
                saved.append(np.frombuffer(rest[:length], column.dtype).reshape(shape))
                rest = rest[length:]
        except (ValueError, KeyError, TypeError, msgspec.DecodeError):
            # Only readings are lost; the next heartbeats bring new ones.
            return False
        old = {NodeId(name): row for row, name in enumerate(names) if name is not None}
        known = [node for node in self._rows if node in old and node not in more]
        target = np.array([self._rows[node] for node in known], np.int64)
        source = np.array([old[node] for node in known], np.int64)
        _, host, gpus, readings = saved
        self._host[target] = host[source]
        self._gpus[target] = gpus[source]
        self._readings[target] = readings[source]
        return True

    def _write(self, row: int, metrics: NodeMetrics) -> None:
        host = np.array((metrics.cpu_pct, metrics.memory_pct), np.float32)
        self._host[row] = _filled(host, lambda: self._host[row])
        gpus = min(len(metrics.gpus), GPUS_MAX)
        values = chain.from_iterable(map(_readings_of, metrics.gpus[:GPUS_MAX]))
        readings = np.fromiter(values, np.float32, gpus * _READINGS).reshape(gpus, _READINGS).T
        self._widen(gpus)
        is_other = np.array(self._gpus[row] != gpus)
        self._readings[row, :, :gpus] = _filled(
            readings, lambda: self._readings[row, :, :gpus], is_other
        )
        self._gpus[row] = gpus

    def _widen(self, gpus: int) -> None:
        """Make room for machines with that many GPUs."""
        extra = gpus - self._readings.shape[2]
        if extra > 0:
            self._readings = np.pad(self._readings, ((0, 0), (0, 0), (0, extra)))

    def _row(self, node: NodeId) -> int:
        """Return the row of `node`; a new node gets a spare one, if there is one."""
        row = self._rows.get(node)
        if row is not None:
            return row
        if self._spare:
            row = self._spare.pop()
            self._names[row] = node
            self._beats_s[row] = np.inf
            self._host[row] = 0
            self._gpus[row] = 0
        else:
            row = len(self._names)
            self._names.append(node)
            if row == len(self._beats_s):
                self._grow()
        self._rows[node] = row
        return row

    def _grow(self) -> None:
        # By a quarter: doubling would leave up to half of the memory unused.
        extra = max(64, len(self._beats_s) // 4)
        self._beats_s = np.concatenate([self._beats_s, np.full(extra, np.inf)])
        self._host = np.concatenate([self._host, np.zeros((extra, 2), np.float32)])
        self._gpus = np.concatenate([self._gpus, np.zeros(extra, np.int16)])
        empty = np.zeros((extra, *self._readings.shape[1:]), np.float32)
        self._readings = np.concatenate([self._readings, empty])


def _filled(
    new: Floats, before: Callable[[], Floats], is_other: npt.NDArray[np.bool_] | None = None
) -> Floats:
    """Return `new` with the values before in place of NaN.

    A GPU that fails to report its load must not look idle. Where `is_other`, the values before
    are of other GPUs, and NaN becomes zero.
    """
    missing = np.isnan(new)
    if not missing.any():
        return new
    kept = before()
    if is_other is not None:
        kept = np.where(is_other.reshape(*is_other.shape, 1, 1), np.float32(0), kept)
    return np.where(missing, kept, new)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)

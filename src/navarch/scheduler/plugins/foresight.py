"""Foresight: places a task where it takes least from the tasks that arrive later.

The policy that `make bench-packing` measures (docs/scheduler/packing.md), on a live cluster. It
estimates future demand from the jobs of the snapshot, running and pending.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from navarch.scheduler.framework.node_table import (
    CPU_COLUMN,
    GPU_COLUMN,
    MEMORY_COLUMN,
    Column,
    NodeTable,
    Rows,
)
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.job import Task
from navarch.scheduler.model.node import WHOLE_GPU, Node
from navarch.scheduler.model.quantity import GPU, Amounts
from navarch.scheduler.model.request import GpuKind, Request
from navarch.scheduler.packing.shape import WHOLE, Numbers, Shape
from navarch.scheduler.packing.slots import SlotKinds
from navarch.scheduler.packing.waste import Contention, Shortage, expected_waste
from navarch.scheduler.plugins import scores
from navarch.scheduler.plugins.node_scores import BuiltInPlugin

MIB: Final = 1 << 20
PER_HUNDREDTH: Final = WHOLE // GPU
"""Packing uses thousandths of GPUs, sessions use hundredths."""

HALF_WAY: Final = float(WHOLE)
"""A gain or loss of this many thousandths of GPUs is half-way to the end of the score band."""

KINDS_MAX: Final = 8
FEW: Final = 16
"""Equal nodes are grouped by comparing all nodes with the first one, for at most `KINDS_MAX`
groups; the rest, or at most `FEW` nodes, are grouped one by one."""


@dataclass
class Foresight(BuiltInPlugin):
    """Scores nodes, and GPUs to share, by what they leave for other tasks. It rejects no node."""

    name: ClassVar[str] = "foresight"

    _session: Session = field(init=False, repr=False)
    _outlook: _Outlook = field(init=False, repr=False)

    def on_session_open(self, session: Session) -> None:
        """Estimate demand from the jobs of the session, and register the scores."""
        self._session = session
        self._outlook = _Outlook(session)
        vector = self._scores if self._outlook.is_plain else None
        session.add_node_order_fn(self._score, scope="node", vector=vector)
        session.add_gpu_order_fn(self._score_gpu, scope="node")

    def _score(self, task: Task, node: Node) -> float:
        """Return the gain as a score within the density band."""
        return _in_band(self._outlook.gain(shape_of(task), self._outlook.left_on(node)))

    def _scores(self, task: Task, nodes: NodeTable) -> Column:
        """Return the scores of many nodes; equal nodes share one computation."""
        shape, found = shape_of(task), np.empty(len(nodes))
        for left, rows in self._outlook.left_on_each(nodes):
            found[rows] = _in_band(self._outlook.gain(shape, left))
        return found

    def _score_gpu(self, task: Task, node: Node, gpu: str) -> float:
        left = WHOLE if gpu == WHOLE_GPU else left_of(node, gpu)
        return self._outlook.gpu_gain(left, shape_of(task).gpu_milli)


def _in_band(gain: float) -> float:
    # Rounded, so that equal nodes tie and are filled one after another by name.
    gain = round(gain, 3)
    return scores.MAX_DENSITY / 2 * (1 + gain / (HALF_WAY + abs(gain)))


_Alike = tuple[tuple[int, int, int, int], tuple[str | None, ...]]
"""The properties of a kind of node: CPU, memory in MiB, GPUs, MiB of each, and labels."""


class _Room(NamedTuple):
    """The free resources of a node of a kind; equal rooms have equal slots."""

    kind: int
    cpu: int
    memory: int
    whole: int


_Left = tuple[_Room, tuple[int, ...]]
"""The room of a node, and the rest of each of its GPUs that is not full."""


class _Outlook:
    """The demand expected after the jobs of a session, and the value of free room for it.

    Computed once, when the session opens: scarcity hardly changes within a cycle, and a score that
    depends on its node alone can be cached until the node changes.
    """

    def __init__(self, session: Session) -> None:
        seen: Counter[tuple[Shape, tuple[tuple[str, str], ...]]] = Counter()
        shared = False
        for spec, count in session.jobs.looks():
            shared = shared or spec.request.gpu.shared
            quota = spec.request.quota_on(session.min_gpu_memory_mib)
            selector = tuple(sorted(spec.node_selector.items()))
            seen[_shape(spec.request, quota), selector] += count
        requested: Counter[int] = Counter()
        for (shape, _), count in seen.items():
            if shape.gpus:
                requested[shape.gpu_milli] += count
        self._waste = expected_waste(requested)
        demand = sum(shape.demand * count for (shape, _), count in seen.items())
        cpu = sum(shape.cpu_milli * count for (shape, _), count in seen.items() if shape.gpus)
        self._shortage = Shortage(cpu / demand if demand else 0.0)

        self._labels = sorted({key for _, selector in seen for key, _ in selector})
        """Only labels that tasks select distinguish kinds of nodes."""
        self.is_plain = not self._labels and not shared
        """True if amounts alone describe a node: no task shares GPUs or selects labels."""
        table = session.node_table() if self.is_plain else None
        in_kind: dict[_Alike, int]
        if table is None:
            in_kind = Counter(map(self._alike, session.nodes.values()))
        else:
            kinds = _together(_sizes(table))
            in_kind = {((c, m, g, each), ()): len(rows) for (c, m, g, each), rows in kinds}
        self._kind_of = {alike: number for number, alike in enumerate(in_kind)}
        """The number of each kind of node, in order of occurrence."""
        sizes = [(cpu, memory, gpus, str(each)) for (cpu, memory, gpus, each), _ in in_kind]
        labels = [dict(zip(self._labels, values, strict=True)) for _, values in in_kind]
        could_use = np.array(
            [
                [shape.could_use(size) and has.items() >= set(selector) for shape, selector in seen]
                for size, has in zip(sizes, labels, strict=True)
            ],
            dtype=bool,
        ).reshape(len(sizes), len(seen))
        shapes = [shape for shape, _ in seen]
        self._slots = SlotKinds(shapes, sizes, dict(enumerate(in_kind.values())), could_use)
        self._slots_with: dict[_Room, Numbers] = {}
        self._gain_with: dict[tuple[Shape, _Left], float] = {}
        self._left_at: dict[str, tuple[int, _Left]] = {}
        """What was left of each node, with the version of the node."""
        contention = Contention(shapes, could_use)
        for index, ((shape, _), count) in enumerate(seen.items()):
            self._slots.count(index, shape.demand * count)
            contention.count(index, shape.demand * count)
        free, there = np.zeros(len(sizes)), np.zeros(len(self._slots))
        # Both are sums of whole numbers, so the order of summation does not matter.
        for (room, left), count in self._count_left(session, table):
            free[room.kind] += count * sum(left)
            there += count * self._slots_in(room)
        more = float(free.sum()) / demand if demand else 0.0
        self._price = contention.prices(free, more)
        self._worth = self._slots.worth(there, more)

    def _alike(self, node: Node) -> _Alike:
        size = node.allocatable
        selected_by = tuple([node.labels.get(key) for key in self._labels])
        return (size.cpu, size.memory // MIB, size.gpu // GPU, node.gpu_memory_mib), selected_by

    def _count_left(self, session: Session, table: NodeTable | None) -> Iterable[tuple[_Left, int]]:
        """Return what is left of nodes, with the number of nodes for each."""
        if table is None:
            return Counter(map(self.left_on, session.nodes.values())).items()
        return [(left, len(rows)) for left, rows in self.left_on_each(table)]

    def left_on(self, node: Node) -> _Left:
        """Return what is left of a node, cached until the node changes."""
        known = self._left_at.get(node.name)
        if known is None or known[0] != node.version:
            room = _Room(
                self._kind_of[self._alike(node)],
                node.idle.cpu + node.releasing.cpu,
                (node.idle.memory + node.releasing.memory) // MIB,
                node.whole_gpus_free,
            )
            known = self._left_at[node.name] = (node.version, (room, tuple(gpus_left(node))))
        return known[1]

    def left_on_each(self, nodes: NodeTable) -> Iterator[tuple[_Left, Rows]]:
        """Yield what is left of nodes with the rows of these nodes; requires `is_plain`."""
        gpus, coming = nodes.idle[:, GPU_COLUMN], nodes.free[:, GPU_COLUMN]
        amounts = [
            nodes.free[:, CPU_COLUMN],
            nodes.free[:, MEMORY_COLUMN] // MIB,
            gpus // GPU + (coming - gpus) // GPU,
        ]
        for (cpu, memory, whole, *size), rows in _together([*amounts, *_sizes(nodes)]):
            kind = self._kind_of[(size[0], size[1], size[2], size[3]), ()]
            yield (_Room(kind, cpu, memory, whole), (WHOLE,) * max(0, whole)), rows

    def gain(self, shape: Shape, left_on: _Left) -> float:
        """Return the gain, in thousandths of GPUs, of placing the shape there."""
        # Many nodes of a large fleet are equal, so the gain is cached by what is left.
        gain = self._gain_with.get((shape, left_on))
        if gain is None:
            gain = self._gain_with[shape, left_on] = self._gain(shape, *left_on)
        return gain

    def _gain(self, shape: Shape, room: _Room, left: Sequence[int]) -> float:
        total, cpu = sum(left), room.cpu
        short = self._shortage.of_each(
            np.array([cpu, cpu - shape.cpu_milli], dtype=float),
            np.array([total, total - shape.demand], dtype=float),
        )
        gained, opened = self._gpu_part(shape, left)
        after = _Room(
            room.kind,
            room.cpu - shape.cpu_milli,
            room.memory - shape.memory_mib,
            room.whole - opened,
        )
        lost = np.maximum(self._slots_in(room) - self._slots_in(after), 0)
        price = float(self._price[room.kind]) * shape.demand
        return gained + float(short[0] - short[1]) - price - float(self._worth @ lost)

    def gpu_gain(self, left: int, milli: int) -> float:
        """Return how much the expected waste of a GPU shrinks if `milli` of it is allocated."""
        return float(self._waste[left] - self._waste[max(0, left - milli)])

    def _gpu_part(self, shape: Shape, left: Sequence[int]) -> tuple[float, int]:
        """Return the gain on the node's GPUs, and how many unused GPUs are opened."""
        if not shape.gpus:
            return 0.0, 0
        if shape.gpu_milli == WHOLE:
            return shape.gpus * self.gpu_gain(WHOLE, WHOLE), shape.gpus
        ranked = sorted(
            (milli for milli in left if milli >= shape.gpu_milli),
            key=lambda milli: (-self.gpu_gain(milli, shape.gpu_milli), milli),
        )[: shape.gpus]
        gained = sum(self.gpu_gain(milli, shape.gpu_milli) for milli in ranked)
        return gained, ranked.count(WHOLE)

    def _slots_in(self, room: _Room) -> Numbers:
        """Return the slots of a node with this room."""
        slots = self._slots_with.get(room)
        if slots is None:
            slots = self._slots_with[room] = self._slots.on(
                room.kind,
                cpu=max(0, room.cpu),
                memory=max(0, room.memory),
                whole=max(0, room.whole),
            )
        return slots


def shape_of(task: Task) -> Shape:
    """Return the request of the task in the units of packing."""
    return _shape(task.request, task.pending_quota)


def _shape(request: Request, quota: Amounts) -> Shape:
    """Return a request, which counts for `quota` in its queue, in the units of packing.

    Requests for GPU memory count as a part of the cluster's smallest GPU, MIG slices and claims as
    the GPUs that they use of a queue's quota.
    """
    cpu, memory = request.cpu_milli, request.memory_bytes // MIB
    if not request.requires_gpu:
        return Shape(cpu, memory, 0, 0)
    if request.gpu.shared:
        devices = request.gpu.devices
        part = int(quota.gpu) * PER_HUNDREDTH // devices
        return Shape(cpu, memory, devices, min(max(part, 1), WHOLE))
    if request.gpu.kind is GpuKind.WHOLE:
        return Shape(cpu, memory, request.gpu.count, WHOLE)
    return Shape(cpu, memory, max(1, int(quota.gpu) // GPU), WHOLE)


def left_of(node: Node, group: str) -> int:
    """Return the thousandths of a shared GPU that are left after leaving tasks are gone."""
    used = node.groups[group].promised_memory * WHOLE // node.gpu_memory_mib
    return min(max(0, WHOLE - used), WHOLE)


def gpus_left(node: Node) -> list[int]:
    """Return the rest of each GPU of the node that is not full."""
    if not node.groups:
        return [WHOLE] * max(0, node.whole_gpus_free)
    shared = [
        left_of(node, group) for group, gpu in sorted(node.groups.items()) if not gpu.vacating
    ]
    return [WHOLE] * max(0, node.whole_gpus_free) + [left for left in shared if left]


def _sizes(nodes: NodeTable) -> list[npt.NDArray[np.int64]]:
    """Return the columns that decide the kind of a node, labels aside."""
    cpu, memory, gpu = (nodes.total[:, n] for n in (CPU_COLUMN, MEMORY_COLUMN, GPU_COLUMN))
    return [cpu, memory // MIB, gpu // GPU, nodes.gpu_memory]


def _together(columns: list[npt.NDArray[np.int64]]) -> Iterator[tuple[list[int], Rows]]:
    """Yield the values of equal rows with these rows, in order of occurrence."""
    table = np.column_stack(columns)
    left = np.arange(len(table))
    for _ in range(KINDS_MAX):
        if len(left) <= FEW:
            break
        alike = (table[left] == table[left[0]]).all(axis=1)
        yield table[left[0]].tolist(), left[alike]
        left = left[~alike]
    found: dict[tuple[int, ...], list[int]] = {}
    for row, values in zip(left.tolist(), table[left].tolist(), strict=True):
        found.setdefault(tuple(values), []).append(row)
    for values, rows in found.items():
        yield list(values), np.array(rows, dtype=np.intp)

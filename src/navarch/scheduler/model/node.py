"""A node inside a session: what is idle, what is coming free, and which tasks hold it.

`idle` is available now, `releasing` comes free later. A task that waits for another to leave is
booked against `releasing`, so `idle + releasing` is what is left to promise. All amounts are whole
numbers, so bookings can be reverted in any order and leave no trace.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from navarch.scheduler.model.change_log import ChangeLog
from navarch.scheduler.model.cluster import NodeSpec
from navarch.scheduler.model.job import UNPLACED, Task
from navarch.scheduler.model.placement import Booking, Hold, Placement
from navarch.scheduler.model.quantity import GPU, Amounts
from navarch.scheduler.model.request import Request, mig_slices
from navarch.scheduler.model.shared_gpus import SharedGpu
from navarch.scheduler.model.status import TaskStatus

WHOLE_GPU: Final = "-2"
"""Means 'any whole free GPU' in the place of the id of a shared GPU."""


# Built for every node that receives a task: keyword arguments take three times as long.
_placement = tuple.__new__
_booking = tuple.__new__
ALLOCATED, BINDING, PIPELINED = TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.PIPELINED
NOW, NEXT = Hold.NOW, Hold.NEXT


Need = tuple[int, int, int, int]
"""How much CPU, memory, GPUs and pods one task needs."""


class Resources:
    """Amounts of everything a node has."""

    __slots__ = ("cpu", "gpu", "memory", "mig", "pods")

    def __init__(
        self, cpu: int, memory: int, gpu: int, pods: int, mig: Mapping[str, int] | None = None
    ) -> None:
        self.cpu = cpu
        self.memory = memory
        self.gpu = gpu
        self.pods = pods
        self.mig: dict[str, int] = dict(mig) if mig else {}

    def add(self, request: Request, sign: int) -> None:
        """Add what `request` takes whole, or with `sign` -1 take it away."""
        self.cpu += sign * request.cpu_milli
        self.memory += sign * request.memory_bytes
        self.pods += sign * request.pods
        gpu = request.gpu
        self.gpu += sign * gpu.whole
        for profile, count in gpu.mig.items():
            self.mig[profile] = self.mig.get(profile, 0) + sign * count

    def take(self, need: Need, count: int) -> None:
        """Take away `count` times what one task needs; with a negative count, give it back."""
        cpu, memory, gpu, pods = need
        self.cpu -= count * cpu
        self.memory -= count * memory
        self.gpu -= count * gpu
        self.pods -= count * pods

    def state(self) -> tuple[int, int, int, int, tuple[tuple[str, int], ...]]:
        """Return everything that matters, for comparison."""
        mig = tuple(sorted((name, count) for name, count in self.mig.items() if count))
        return (self.cpu, self.memory, self.gpu, self.pods, mig)


class Node:
    """One node and its books."""

    __slots__ = (
        "_promised",
        "_taken",
        "_tasks",
        "allocatable",
        "bound",
        "gpu_memory_mib",
        "groups",
        "idle",
        "index",
        "labels",
        "log",
        "name",
        "releasing",
        "spec",
        "version",
    )

    def __init__(self, spec: NodeSpec, index: int = 0, log: ChangeLog | None = None) -> None:
        self.spec = spec
        self.index = index
        """Its place among the session's nodes."""
        self.log = log or ChangeLog()
        self.name = spec.name
        self.labels = spec.labels
        self.gpu_memory_mib = spec.gpu_memory_mib
        cpu, memory, gpu, pods = spec.cpu_milli, spec.memory_bytes, spec.gpus * GPU, spec.pods
        self.allocatable = Resources(cpu, memory, gpu, pods, spec.mig)
        self.idle = Resources(cpu, memory, gpu, pods, spec.mig)
        self.releasing = Resources(0, 0, 0, 0)
        self.groups: dict[str, SharedGpu] = {}
        self._tasks: dict[str, tuple[Task, int]] = {}
        self._taken: Placement | None = None
        self._promised: Placement | None = None
        self.bound = UNPLACED[BINDING]
        """The placement of a task that `allocate_whole` has put here, once that is committed."""
        self.version = 0
        """Changes with every booking, so that derived values can be kept until then."""

    @property
    def tasks(self) -> dict[str, tuple[Task, int]]:
        """The tasks here, each with its bookings: two while it leaves one GPU for another."""
        if self.log.enter_all is not None:
            self.log.enter_all()
        return self._tasks

    def enter(self, task: Task) -> None:
        """Enter a task here; what it holds has been booked before."""
        self._tasks[task.uid] = (task, 1)

    @property
    def taken(self) -> Placement:
        """The placement of a task without shared GPUs or devices that a statement has put here."""
        taken = self._taken
        if taken is None:
            name = self.name
            bookings = (_booking(Booking, (name, NOW, (), ())),)
            taken = self._taken = _placement(Placement, (ALLOCATED, name, (), bookings, True))
            self.bound = _placement(Placement, (BINDING, name, (), bookings, False))
        return taken

    @property
    def promised(self) -> Placement:
        """The placement of such a task that a statement has only promised a place here."""
        promised = self._promised
        if promised is None:
            name = self.name
            bookings = (_booking(Booking, (name, NEXT, (), ())),)
            promised = _placement(Placement, (PIPELINED, name, (), bookings, True))
            self._promised = promised
        return promised

    def allocate_whole(self, need: Need, tasks: Sequence[Task]) -> None:
        """Put tasks of equal needs on what is idle here."""
        self.idle.take(need, len(tasks))
        self.version += len(tasks)
        self.log.rows.append(self.index)
        here, taken = self._tasks, self._taken or self.taken
        for task in tasks:
            here[task.uid] = (task, 1)
            task.placement = taken

    def release_whole(self, need: Need, tasks: Sequence[Task]) -> None:
        """Take back what `allocate_whole` has booked."""
        self.idle.take(need, -len(tasks))
        self.version += len(tasks)
        self.log.rows.append(self.index)
        self.log.grown += 1
        for task in tasks:
            del self._tasks[task.uid]

    def try_tasks(
        self, need: Need, tasks: Sequence[Task], ask: Callable[[Task, "Node"], float | None]
    ) -> list[float | None]:
        """Return the results of `ask` with the first task here, with the second as well, and so on.

        Afterwards none of them is here.
        """
        answers: list[float | None] = []
        put: list[Task] = []
        try:
            for task in tasks:
                self.idle.take(need, 1)
                self.version += 1
                self._tasks[task.uid] = (task, 1)
                put.append(task)
                answers.append(ask(task, self))
        finally:
            self.idle.take(need, -len(put))
            self.version += 1
            for task in put:
                del self._tasks[task.uid]
        return answers

    def book(self, task: Task, booking: Booking, sign: int = 1, *, loading: bool = False) -> None:
        """Write `booking` into the books, or with `sign` -1 take it out."""
        self.log.rows.append(self.index)
        if sign < 0:
            self.log.grown += 1
        if booking.hold is not Hold.NOW:
            self.log.waits = True
        self.show(task, booking, sign)
        if booking.gpu_groups:
            self.log.shares = True
            memory = task.request.gpu.memory_on(self.gpu_memory_mib)
            for group in booking.gpu_groups:
                self._book_group(group, booking.hold, memory, sign, opened_here=not loading)

    def show(self, task: Task, booking: Booking, sign: int) -> None:
        """Add or remove a booking, except for its part of a shared GPU.

        The caller updates the change log; without that, derived figures stay as they are.
        """
        self.version += 1
        if booking.hold is not Hold.NEXT:
            self.idle.add(task.request, -sign)
        if booking.hold is Hold.LEAVING:
            self.releasing.add(task.request, sign)
        elif booking.hold is Hold.NEXT:
            self.releasing.add(task.request, -sign)
        _, bookings = self._tasks.get(task.uid, (task, 0))
        if bookings + sign:
            self._tasks[task.uid] = (task, bookings + sign)
        else:
            del self._tasks[task.uid]

    def _book_group(
        self, group: str, hold: Hold, memory: int, sign: int, *, opened_here: bool
    ) -> None:
        shared = self.groups.get(group)
        if shared is None:
            shared = self.groups[group] = SharedGpu(opened_here=opened_here)
        taken, freed = shared.weights()
        shared.add(hold, memory, sign)
        taken_after, freed_after = shared.weights()
        self.idle.gpu -= (taken_after - taken) * GPU
        self.releasing.gpu += (freed_after - freed) * GPU
        if shared.opened_here:
            # Its reservation pod takes a slot of its own, now or when the GPU comes free.
            self.idle.pods -= taken_after - taken
            self.releasing.pods += min(freed_after, 0) - min(freed, 0)
        if shared.members == 0:
            del self.groups[group]

    def fits_eventually(self, request: Request) -> bool:
        """Return whether the request fits once all leaving tasks have gone."""
        idle, releasing = self.idle, self.releasing
        if request.cpu_milli > idle.cpu + releasing.cpu:
            return False
        if request.memory_bytes > idle.memory + releasing.memory:
            return False
        if request.pods > idle.pods + releasing.pods:
            return False
        gpu = request.gpu
        if gpu.shared:
            free = self.whole_gpus_free + len(self.groups_with_room(request))
            return free >= gpu.devices
        if gpu.whole > idle.gpu + releasing.gpu:
            return False
        return not gpu.mig or all(
            count <= idle.mig.get(profile, 0) + releasing.mig.get(profile, 0)
            for profile, count in gpu.mig.items()
        )

    def fits_now(self, request: Request) -> bool:
        """Return whether the request fits on what is idle."""
        if not self._fits_now_beside_gpus(request):
            return False
        gpu = self.idle.gpu
        if request.gpu.shared:
            free = gpu // GPU + sum(
                self.group_fits_now(group, request) for group in self.groups_with_room(request)
            )
            return free >= request.gpu.devices
        return request.gpu.whole <= gpu

    def _fits_now_beside_gpus(self, request: Request) -> bool:
        idle = self.idle
        if request.cpu_milli > idle.cpu or request.memory_bytes > idle.memory:
            return False
        if request.pods > idle.pods:
            return False
        mig = request.gpu.mig
        return not mig or all(count <= idle.mig.get(name, 0) for name, count in mig.items())

    @property
    def whole_gpus_free(self) -> int:
        """How many whole GPUs are idle or will come free unpromised."""
        return self.idle.gpu // GPU + self.releasing.gpu // GPU

    def groups_with_room(self, request: Request) -> list[str]:
        """Return the shared GPUs with room for the request once those leaving have gone, by id."""
        room = self.gpu_memory_mib - request.gpu.memory_on(self.gpu_memory_mib)
        return sorted(
            name
            for name, shared in self.groups.items()
            if shared.promised_memory <= room and not shared.vacating
        )

    def group_fits_now(self, group: str, request: Request) -> bool:
        """Return whether the shared GPU and the rest of the node can take the request at once.

        A shared GPU that is only promised cannot: its GPU is still to come free.
        """
        shared = self.groups[group]
        need = request.gpu.memory_on(self.gpu_memory_mib)
        free = self.gpu_memory_mib - shared.occupied_memory
        return shared.taken and need <= free and self._fits_now_beside_gpus(request)

    def can_open_now(self, count: int, request: Request) -> bool:
        """Return whether the request can start on `count` idle GPUs that become shared with it.

        Each of these GPUs takes one more pod slot, for the pod that reserves it.
        """
        if count == 0:
            return True
        return count <= self.idle.gpu // GPU and request.pods + count <= self.idle.pods

    def group_used(self, group: str) -> float:
        """Return which part of the shared GPU is in use, from 0 to 1."""
        return self.groups[group].occupied_memory / self.gpu_memory_mib

    @property
    def is_cpu_only(self) -> bool:
        """Whether the node has no GPU of any kind."""
        return self.allocatable.gpu == 0 and not self.is_mig and self.spec.dra_gpus == 0

    @property
    def is_mig(self) -> bool:
        """Whether the node's GPUs are cut into MIG slices."""
        return bool(self.spec.mig_strategy) or bool(self.allocatable.mig)

    def has_available_gpus(self) -> bool:
        """Return whether a GPU, whole, shared or sliced, is idle or coming free."""
        if self.whole_gpus_free > 0 or self.spec.dra_gpus > 0:
            return True
        if any(s.promised_memory < self.gpu_memory_mib for s in self.groups.values()):
            return True
        free = (n + self.releasing.mig.get(p, 0) for p, n in self.idle.mig.items())
        return any(count > 0 for count in free)

    def gpu_to_spare(self) -> int:
        """Return hundredths of GPUs, whole, shared or sliced, that are or will be unpromised."""
        spare = self.idle.gpu + self.releasing.gpu
        for shared in self.groups.values():
            free = self.gpu_memory_mib - shared.promised_memory
            spare += 0 if shared.vacating else max(0, free) * GPU // self.gpu_memory_mib
        for profile, count in self.idle.mig.items():
            free = count + self.releasing.mig.get(profile, 0)
            spare += max(0, free) * mig_slices(profile) * GPU
        return spare

    def gpu_utilization(self) -> float:
        """Return which part of the node's GPUs is not idle, from 0 to 1."""
        if self.allocatable.gpu == 0:
            return 0.0
        return 1.0 - self.idle.gpu / self.allocatable.gpu

    def quota_of(self, request: Request) -> Amounts:
        """Return what a queue is charged for `request` on this node."""
        return request.quota_on(self.gpu_memory_mib)

    def capacity(self) -> Amounts:
        """Return what the node adds to what queues share."""
        slices = sum(mig_slices(name) * n for name, n in self.allocatable.mig.items())
        gpu = self.allocatable.gpu + slices * GPU
        return Amounts(self.allocatable.cpu, self.allocatable.memory, gpu)

    def state(self) -> tuple[object, ...]:
        """Return everything that a booking changes, for comparison."""
        groups = tuple((name, shared.state()) for name, shared in sorted(self.groups.items()))
        tasks = tuple((uid, count) for uid, (_, count) in sorted(self.tasks.items()))
        return (self.name, self.idle.state(), self.releasing.state(), groups, tasks)

    def __repr__(self) -> str:
        idle, releasing = self.idle.gpu / GPU, self.releasing.gpu / GPU
        return f"Node({self.name}, idle={idle:g}, releasing={releasing:g})"

"""Device claims: the devices, their holders, and the devices that a task would get."""

from collections.abc import Hashable
from typing import TypeVar

from navarch.scheduler.model.cluster import Cluster, Device, ResourceClaim
from navarch.scheduler.model.job import Task
from navarch.scheduler.model.placement import Booking, Hold

Devices = tuple[Device, ...]

Counts = dict[tuple[Hold, str | Device], int]

K = TypeVar("K", bound=Hashable)


class Claims:
    """Every claim and device of the cluster, with holders by how they hold.

    A claim that several tasks use is allocated once; its devices come free when the last of them
    leaves. Holders are counted, so that bookings can be undone in any order.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._claims: dict[tuple[str, str], ResourceClaim] = {
            (claim.namespace, claim.name): claim for claim in cluster.resource_claims
        }
        self._devices: dict[tuple[str, str], list[Device]] = {}
        for piece in sorted(cluster.resource_slices, key=lambda piece: piece.name):
            key = (piece.node or "", piece.device_class)
            self._devices.setdefault(key, []).extend(
                Device(driver=piece.driver, pool=piece.pool, name=name) for name in piece.devices
            )
        self._on_device: dict[Device, Counts] = {}
        """Per device, how many hold it, by claim and how they hold."""
        self._in_claim: dict[str, Counts] = {}
        """Per claim, its devices and its users, by how they hold."""
        self._outside: set[Device] = set()
        if not cluster.resource_claims:
            return
        known = {task.uid for job in cluster.jobs for task in job.tasks}
        for claim in cluster.resource_claims:
            if claim.allocation and not known.intersection(claim.reserved_for):
                self._outside.update(claim.allocation)

    def find(self, namespace: str, name: str) -> ResourceClaim | None:
        """Return the claim of that name, if it exists."""
        return self._claims.get((namespace, name))

    def claims_of(self, task: Task) -> list[tuple[str, ResourceClaim | None]]:
        """Return the task's claims by name, with nothing where one does not exist."""
        return [(use.claim, self.find(task.namespace, use.claim)) for use in task.spec.claims]

    def reservations(self, task: Task, claim: ResourceClaim) -> int:
        """Return how many others the claim is reserved for."""
        users = {
            uid: hold for hold, uid in self._in_claim.get(_key(claim), {}) if isinstance(uid, str)
        }
        staying = {uid for uid, hold in users.items() if hold is not Hold.LEAVING}
        found = {uid for uid in claim.reserved_for if users.get(uid) is not Hold.LEAVING}
        return len((staying | found) - {task.uid})

    def choose(self, task: Task, node: str, *, now: bool) -> tuple[tuple[str, Devices], ...] | None:
        """Return devices for every claim of the task on `node`, or `None` if there are too few.

        With `now`, devices that a leaving task still holds are not considered.
        """
        chosen: list[tuple[str, Devices]] = []
        taken: set[Device] = set()
        for _, claim in self.claims_of(task):
            if claim is None:
                return None
            devices = self._devices_for(claim, node, taken, now=now)
            if devices is None:
                return None
            taken.update(devices)
            chosen.append((_key(claim), devices))
        return tuple(chosen)

    def _devices_for(
        self, claim: ResourceClaim, node: str, taken: set[Device], *, now: bool
    ) -> Devices | None:
        own = self._devices.get((node, claim.device_class), [])
        offered = [*own, *self._devices.get(("", claim.device_class), [])]
        held = self._allocated(claim)
        if held is not None:
            return held if set(held) <= set(offered) else None
        free = [
            device
            for device in offered
            if device not in taken
            and device not in self._outside
            and all(hold is Hold.LEAVING and not now for hold, _ in self._on_device.get(device, {}))
        ]
        return tuple(free[: claim.count]) if len(free) >= claim.count else None

    def _allocated(self, claim: ResourceClaim) -> Devices | None:
        """Return the devices of the claim, as long as a user stays on them."""
        devices = sorted(
            {
                device
                for hold, device in self._in_claim.get(_key(claim), {})
                if isinstance(device, Device) and hold is not Hold.LEAVING
            }
        )
        if devices:
            return tuple(devices)
        if claim.allocation and self._outside.issuperset(claim.allocation):
            return claim.allocation
        return None

    def loaded(self, task: Task) -> tuple[tuple[str, Devices], ...]:
        """Return the devices that the snapshot lists for the task's claims."""
        if not task.spec.claims:
            return ()
        return tuple(
            (_key(claim), claim.allocation)
            for _, claim in self.claims_of(task)
            if claim is not None and claim.allocation
        )

    def apply(self, task: Task, booking: Booking, sign: int) -> None:
        """Write a booking's devices into the books, or with `sign` -1 take them out."""
        for claim, devices in booking.devices:
            _count(self._in_claim, claim, (booking.hold, task.uid), sign)
            for device in devices:
                _count(self._in_claim, claim, (booking.hold, device), sign)
                _count(self._on_device, device, (booking.hold, claim), sign)

    def allocation_of(self, claim: ResourceClaim) -> tuple[Devices | None, tuple[str, ...]]:
        """Return the claim's devices and users as they are now."""
        members = {member for _, member in self._in_claim.get(_key(claim), {})}
        devices = sorted(member for member in members if isinstance(member, Device))
        users = sorted(member for member in members if isinstance(member, str))
        return (tuple(devices) or None, tuple(users))

    def state(self) -> tuple[object, ...]:
        """Return everything that a booking changes, for comparison."""
        return tuple(
            sorted(
                (claim, sorted(map(repr, counts.items())))
                for claim, counts in self._in_claim.items()
            )
        )


def _key(claim: ResourceClaim) -> str:
    return f"{claim.namespace}/{claim.name}"


def _count(books: dict[K, Counts], key: K, entry: tuple[Hold, str | Device], sign: int) -> None:
    """Add to one entry of one book, leaving no zeros behind."""
    counts = books.setdefault(key, {})
    counts[entry] = counts.get(entry, 0) + sign
    if counts[entry] == 0:
        del counts[entry]
    if not counts:
        del books[key]

"""A simulated cloud, with the faults of real ones.

It runs on the clock it is given: virtual time in simulations, the system's clock behind
`provider: fake`. Every fault is drawn from its own entropy, so a seed repeats it.
"""

import asyncio
import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from navarch.core.budget import cost
from navarch.core.errors import (
    CapacityError,
    InstanceNotFoundError,
    OutcomeUnknownError,
    ProviderError,
    QuotaError,
    RejectedError,
    TransientError,
)
from navarch.core.ids import InstanceId, ProviderName, Token
from navarch.core.instance import (
    Instance,
    InstanceCheck,
    InstanceHealth,
    InstanceStatus,
    Notice,
    Topology,
)
from navarch.core.records import evolve
from navarch.ports.clock import Clock, Entropy
from navarch.ports.provider import Announcement, ProvisionRequest


class ApiFailure(StrEnum):
    """The ways in which calls fail during an outage of a provider's API."""

    FAIL = "fail"
    """An error at once, without an effect."""
    TIME_OUT = "time_out"
    """No effect and no answer: the client gives up after a minute."""
    HANG = "hang"
    """The call is carried out and answered ten minutes late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How a cloud behaves: durations in seconds, faults as the share of affected calls."""

    boot_s: tuple[float, float] = (60.0, 180.0)
    """How long a machine is pending."""
    setup_s: tuple[float, float] = (0.0, 0.0)
    """How long a machine runs before its agent starts."""
    step_s: float = 0.0
    """How often its boot script reports a step meanwhile; 0: it reports nothing."""
    call_s: tuple[float, float] = (0.1, 3.0)
    listing_lag_s: float = 0.0
    """The longest that a new machine is missing, or a terminated one listed as running."""
    listed_after_end: timedelta = timedelta(hours=6)
    """How long a terminated machine stays listed, as terminated."""
    refuses: type[ProviderError] | None = None
    """The error that every launch fails with, if any."""
    sold_out: float = 0.0
    transient: float = 0.0
    mute: float = 0.0
    """The call does nothing, and its outcome is unknown."""
    lie: float = 0.0
    """The call takes effect, and its outcome is unknown."""
    both: float = 0.0
    """The launch is refused, but a machine starts nevertheless."""
    hang: float = 0.0
    """The call takes effect but does not return for many minutes."""
    dead_on_arrival: float = 0.0
    """The machine runs and costs money, but its agent never starts."""
    dead_zones: frozenset[str] = frozenset()
    """Zones in which no agent ever starts."""
    remembers_tokens: bool = True
    """True if a launch can be repeated safely with the same token, as at most clouds."""
    machines_per_call: int = 1
    """The most machines of one call; with 1, every machine needs a call of its own."""
    remembers_shared_tokens: bool = True
    """True if a launch of a call for several machines can be repeated safely by itself."""
    covers_zones: bool = False
    """True if one call can start machines in several zones."""
    stock: Mapping[str, int] | None = None
    """The most concurrent machines of each type; None: no limit. An entry `TYPE spot` counts spot
    machines separately, and an entry `ZONE/TYPE` those of that zone."""
    reservations: Mapping[str, int] = field(default_factory=dict)
    """The number of machines in each reservation, in addition to the stock."""
    blocks: Mapping[str, int] | None = None
    """The number of machines that fit into each network block; None: the cloud reports no blocks.
    The block `ZONE/NAME` is in that zone; a block without a zone is in every zone."""
    quotas: Mapping[str, int] = field(default_factory=dict)
    """The most concurrent machines of each type that the account may have; `TYPE spot` for spot."""
    outages: Mapping[str, ApiFailure] = field(default_factory=dict)
    """How calls fail now, by the zone of the machine; the entry "" is for all calls."""
    surveyed_after_s: float = 0.0
    """How long after its launch the cloud reports a machine's position."""
    unchecked: bool = False
    """Whether the status checks of machines are not available at present."""
    announces: bool = False
    """True if a simulation polls this cloud for announcements."""

    def calm(self) -> "Habits":
        """Return the same cloud without faults."""
        return replace(
            self,
            refuses=None,
            sold_out=0.0,
            transient=0.0,
            mute=0.0,
            lie=0.0,
            both=0.0,
            hang=0.0,
            dead_on_arrival=0.0,
            dead_zones=frozenset(),
            stock=None,
            quotas={},
            outages={},
        )


HANG_S = 600.0
TIME_OUT_S = 60.0

FOUND_DEAD_AFTER = timedelta(seconds=90)
"""How long after a machine dies its status check fails. EC2 checks once per minute."""


@dataclass(slots=True)
class Machine:
    """One machine of the simulated cloud."""

    id: InstanceId
    request: ProvisionRequest
    launched_at: datetime
    boots_at: datetime
    listed_at: datetime
    price_per_hour: Decimal
    setup_s: float = 0.0
    step_s: float = 0.0
    dead_on_arrival: bool = False
    denied: bool = False
    """True if the launch was refused although the machine started."""
    block: str = ""
    """Its network block, at a cloud that has blocks."""
    died_at: datetime | None = None
    """When its operating system died, although it still runs and costs money."""
    ended_at: datetime | None = None
    end_listed_at: datetime | None = None
    number: int = 0

    @property
    def alive(self) -> bool:
        """True if it runs and costs money."""
        return self.ended_at is None

    @property
    def private_address(self) -> str:
        """Its address in the network of the cloud."""
        number = self.number
        return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


@dataclass(slots=True)
class SimulatedCloud:
    """One account at a simulated cloud."""

    clock: Clock
    entropy: Entropy
    habits: Habits = field(default_factory=Habits)
    name: str = "sim"
    prices: Mapping[str, Decimal] = field(default_factory=dict)
    spot_prices: Mapping[str, Decimal] = field(default_factory=dict)
    """A type without an entry has its on-demand price as spot, too."""
    price_per_hour: Decimal = Decimal("98.32")
    on_launch: Callable[[Machine], None] = lambda _: None
    on_end: Callable[[Machine], None] = lambda _: None
    on_boot: Callable[[Machine, str], None] = lambda _machine, _how: None
    on_relabel: Callable[[Machine], None] = lambda _: None
    """Called when a machine restarts, with `reboot` or `power_cycle`."""
    machines: dict[InstanceId, Machine] = field(default_factory=dict)
    tokens: dict[Token, InstanceId] = field(default_factory=dict)
    reachable: bool = True
    """Whether there is a network between the control plane and the API."""
    _at: dict[str, Machine] = field(default_factory=dict)
    """The machines by their private address."""
    _listed: dict[InstanceId, Instance] = field(default_factory=dict)
    _due: list[tuple[datetime, int, InstanceId]] = field(default_factory=list)
    """The times at which the listing changes, and the machine that changes it."""
    _shared_calls: dict[tuple[Token, ...], list[Machine | None]] = field(default_factory=dict)
    """The machines of each call for several."""
    _forgotten: set[Token] = field(default_factory=set)
    """Tokens of shared calls that the cloud does not recognise by themselves."""
    _orphaned: dict[str, Callable[[], object]] = field(default_factory=dict)
    announced: dict[InstanceId, list[Notice]] = field(default_factory=dict)

    @property
    def listing_lag(self) -> timedelta:
        """The longest that a listing can lag."""
        return timedelta(seconds=self.habits.listing_lag_s)

    @property
    def buys_once_per_token(self) -> bool:
        """True if a launch can be repeated safely with the same token."""
        return self.habits.remembers_tokens

    @property
    def machines_per_call(self) -> int:
        """The most machines of one call."""
        return self.habits.machines_per_call

    @property
    def buys_many_once_per_token(self) -> bool:
        """True if a launch of a shared call can be repeated safely by itself."""
        return self.habits.remembers_tokens and self.habits.remembers_shared_tokens

    async def provision(self, request: ProvisionRequest) -> Instance:
        """Start one machine, or fail with a drawn fault."""
        await self._suffer_outage(request.zone)
        refusal = self._refusal(request)
        trouble = self._trouble("both", "mute", "lie", "hang")
        effect = refusal is None and trouble != "mute"
        await self._travel(request.token, lambda: self._sell(request) if effect else None)
        if refusal is not None:
            raise refusal
        if trouble == "mute":
            raise OutcomeUnknownError("the connection was lost")
        if self._over_quota(request) or not self._in_stock(request):
            raise self._refused(request)
        machine = self._launch(request)
        if trouble == "both":
            machine.denied = True
            raise CapacityError(f"no {request.instance_type} today")
        await self._answer(trouble)
        return self._instance(machine, InstanceStatus.PENDING)

    @property
    def covers_zones(self) -> bool:
        """True if one call can start machines in several zones."""
        return self.habits.covers_zones

    async def provision_many(
        self, requests: Sequence[ProvisionRequest]
    ) -> Sequence[Instance | ProviderError]:
        """Start as many of these machines as there are, or fail with a drawn fault."""
        assert len(requests) <= self.habits.machines_per_call, len(requests)
        assert len(requests) > 1 or requests[0].zones, requests[0].token
        assert not requests[0].zones or self.habits.covers_zones, requests[0].token
        await self._suffer_outage(requests[0].zone)
        refusal = self._refusal(requests[0])
        trouble = self._trouble("both", "mute", "lie", "hang")
        effect = refusal is None and trouble != "mute"
        await self._travel(requests[0].token, lambda: self._sell_many(requests) if effect else None)
        if refusal is not None:
            raise refusal
        if trouble == "mute":
            raise OutcomeUnknownError("the connection was lost")
        machines = self._sell_many(requests)
        if trouble == "both":
            for machine in machines:
                if machine is not None:
                    machine.denied = True
            raise CapacityError(f"no {requests[0].instance_type} today")
        await self._answer(trouble)
        return [
            self._instance(machine, InstanceStatus.PENDING) if machine else self._refused(request)
            for request, machine in zip(requests, machines, strict=True)
        ]

    async def terminate(self, instance: InstanceId) -> None:
        """Terminate one machine, or fail with a drawn fault."""
        await self._suffer_outage(self._zone_of(instance))
        trouble = self._trouble("transient", "mute", "lie", "hang")
        effect = trouble not in ("transient", "mute")
        await self._travel(instance, lambda: self.end(instance) if effect else None)
        self._reach(instance, trouble)
        self.end(instance)
        await self._answer(trouble)

    async def reboot(self, instance: InstanceId) -> None:
        """Reboot a machine, or fail with a drawn fault."""
        await self._boot_again(instance, "reboot")

    async def power_cycle(self, instance: InstanceId) -> None:
        """Power-cycle a machine, or fail with a drawn fault."""
        await self._boot_again(instance, "power_cycle")

    async def _boot_again(self, instance: InstanceId, how: str) -> None:
        await self._suffer_outage(self._zone_of(instance))
        trouble = self._trouble("transient", "mute", "lie")
        await self._answer()
        self.on_boot(self._reach(instance, trouble), how)
        await self._answer(trouble)

    async def put_label(self, instance: InstanceId, key: str, value: str) -> None:
        """Label a machine, or fail with a drawn fault."""
        await self._relabel(instance, lambda labels: {**labels, key: value})

    async def remove_label(self, instance: InstanceId, key: str, value: str) -> None:
        """Remove a label if it has that value, or fail with a drawn fault."""
        item = (key, value)
        await self._relabel(
            instance, lambda labels: {x: y for x, y in labels.items() if (x, y) != item}
        )

    async def _relabel(
        self, instance: InstanceId, change: Callable[[Mapping[str, str]], dict[str, str]]
    ) -> None:
        await self._suffer_outage(self._zone_of(instance))
        trouble = self._trouble("transient", "mute", "lie")
        await self._answer()
        machine = self._reach(instance, trouble)
        machine.request = evolve(machine.request, labels=change(machine.request.labels))
        self._will_differ(machine, self.clock.now())
        self.on_relabel(machine)
        await self._answer(trouble)

    def _reach(self, instance: InstanceId, trouble: str | None) -> Machine:
        """Return the machine of a call, or raise the fault that keeps the call from it."""
        if trouble == "transient":
            raise TransientError("too many requests")
        if trouble == "mute":
            raise OutcomeUnknownError("the connection was lost")
        machine = self.machines.get(instance)
        if machine is None or not machine.alive:
            raise InstanceNotFoundError(f"no machine {instance}")
        return machine

    async def list_instances(self) -> Sequence[Instance]:
        """Return the listing as of now, which may lag."""
        await self._suffer_outage()
        await self._answer(self._trouble("transient"))
        self._catch_up(self.clock.now())
        return tuple(self._listed.values())

    def take_over(
        self, machines: Mapping[InstanceId, Machine], tokens: Mapping[Token, InstanceId]
    ) -> None:
        """Adopt the machines of a simulated cloud from an earlier process."""
        self.machines.update(machines)
        self.tokens.update(tokens)
        for machine in machines.values():
            self._at[machine.private_address] = machine
            self._will_differ(machine, machine.listed_at)
            self._will_differ(machine, machine.boots_at)
            if machine.ended_at is not None and machine.end_listed_at is not None:
                self._will_differ(machine, machine.end_listed_at)
                self._will_differ(machine, machine.ended_at + self.habits.listed_after_end)

    async def notices(self) -> Sequence[Announcement]:
        """Return the announcements about machines that still run."""
        await self._suffer_outage()
        await self._answer(self._trouble("transient"))
        return [
            Announcement(instance=name, notice=notice)
            for name, notices in self.announced.items()
            if self.machines[name].alive
            for notice in notices
        ]

    async def topology(self, instances: Sequence[InstanceId]) -> Mapping[InstanceId, Topology]:
        """Return the position of machines: four per rack, eight racks per block."""
        await self._answer()
        known = timedelta(seconds=self.habits.surveyed_after_s)
        found = [self.machines[name] for name in instances if name in self.machines]
        return {
            machine.id: Topology(
                block=machine.block,
                rack=f"{machine.block}-rack-{machine.number // 4 % 8}",
                switch=f"{machine.block}-switch-{machine.number // 2 % 16}",
            )
            for machine in found
            if machine.block and self.clock.now() >= machine.launched_at + known
        }

    async def instance_checks(
        self, instances: Sequence[InstanceId]
    ) -> Mapping[InstanceId, InstanceCheck]:
        """Return the status check of machines. It fails if the machine itself has died."""
        await self._suffer_outage("")
        await self.clock.sleep(self.habits.call_s[1])
        if self.habits.unchecked:
            raise TransientError("the status checks are not available")
        known = [self.machines[name] for name in instances if name in self.machines]
        return {machine.id: self._check(machine) for machine in known}

    def _check(self, machine: Machine) -> InstanceCheck:
        now, health, reason, since = self.clock.now(), InstanceHealth.OK, "", None
        if machine.ended_at is not None and machine.end_listed_at is not None:
            if now >= machine.end_listed_at:
                health, reason, since = InstanceHealth.TERMINATED, "terminated", machine.ended_at
        elif now < machine.boots_at:
            health, reason = InstanceHealth.INITIALIZING, "starting"
        elif machine.died_at is not None and now >= machine.died_at + FOUND_DEAD_AFTER:
            health, since = InstanceHealth.IMPAIRED, machine.died_at + FOUND_DEAD_AFTER
            reason = f"running, with a status check that failed at {since:%H:%M:%S} UTC"
        reason = f"{self.name} reports the instance as {reason or 'running'}"
        return InstanceCheck(health=health, reason=reason, since=since)

    def announce(self, instance: InstanceId, notice: Notice) -> None:
        """Publish a notice about a machine. The caller makes it come true."""
        self.announced.setdefault(instance, []).append(notice)

    def end(self, instance: InstanceId) -> None:
        """Terminate a machine at once: by request, by reclaim, or by accident."""
        machine = self.machines.get(instance)
        if machine is None or not machine.alive:
            return
        machine.ended_at = self.clock.now()
        machine.end_listed_at = machine.ended_at + self._lag()
        self._will_differ(machine, machine.end_listed_at)
        self._will_differ(machine, machine.ended_at + self.habits.listed_after_end)
        self.on_end(machine)

    def bill(self, now: datetime) -> Decimal:
        """Return the cost of all machines until `now`."""
        return sum(
            (
                cost(m.price_per_hour, m.launched_at, m.ended_at or now)
                for m in self.machines.values()
            ),
            Decimal(0),
        )

    def alive(self) -> list[Machine]:
        """Return the machines that cost money."""
        return [machine for machine in self.machines.values() if machine.alive]

    def alive_at(self, address: str) -> Machine | None:
        """Return the machine with a private address, if it costs money."""
        machine = self._at.get(address)
        return machine if machine is not None and machine.alive else None

    def _refusal(self, request: ProvisionRequest) -> ProviderError | None:
        known = request.token in self.tokens and request.token not in self._forgotten
        if known and self.habits.remembers_tokens:
            return None
        if self.habits.refuses is not None:
            return self.habits.refuses(f"no {request.instance_type} for you")
        if request.reservation and request.reservation not in self.habits.reservations:
            return RejectedError(f"there is no reservation {request.reservation}")
        if self._strikes(self.habits.transient):
            return TransientError("too many requests")
        if self._strikes(self.habits.sold_out):
            return CapacityError(f"no {request.instance_type} today")
        return None

    def _over_quota(self, request: ProvisionRequest) -> bool:
        limit = self.habits.quotas.get(_shelf(request))
        if limit is None or request.token in self.tokens:
            return False
        return sum(_shelf(machine.request) == _shelf(request) for machine in self.alive()) >= limit

    def _refused(self, request: ProvisionRequest) -> ProviderError:
        if self._over_quota(request):
            return QuotaError(f"the quota of {_shelf(request)} is used up")
        return _sold_out(request)

    def _in_stock(self, request: ProvisionRequest, machines: int = 1) -> bool:
        """Return whether that many machines of one group can start, or a known one is returned."""
        if request.token in self.tokens and request.token not in self._forgotten:
            return True
        if self.habits.blocks is not None and not self._blocks_with_room(request, machines):
            return False
        return self._left(request) >= machines

    def _left(self, request: ProvisionRequest) -> float:
        """Return how many machines of that kind are left, apart from the room in blocks."""
        if request.reservation:
            used = sum(m.request.reservation == request.reservation for m in self.alive())
            return self.habits.reservations.get(request.reservation, 0) - used
        stock = self.habits.stock
        if stock is None:
            return math.inf
        bought = [m.request for m in self.alive() if not m.request.reservation]
        in_zone = f"{request.zone}/{request.instance_type}"
        if in_zone in stock:
            return stock[in_zone] - sum(f"{x.zone}/{x.instance_type}" == in_zone for x in bought)
        if _shelf(request) in stock:
            return stock[_shelf(request)] - sum(_shelf(x) == _shelf(request) for x in bought)
        kind = request.instance_type
        shared = [
            x for x in bought if x.instance_type == kind and _shelf(x) not in {*stock} - {kind}
        ]
        return stock.get(kind, 0) - len(shared)

    def _blocks_with_room(self, request: ProvisionRequest, machines: int = 1) -> list[str]:
        """Return the blocks with room: only the group's block once the group has one."""
        assert self.habits.blocks is not None
        placed = [machine for machine in self.alive() if machine.block]
        mates = [m.block for m in placed if request.group and m.request.group == request.group]
        taken = [machine.block for machine in placed]
        return [
            block
            for block, room in self.habits.blocks.items()
            if taken.count(block) + machines <= room
            and block in (mates[:1] or [block])
            and block.rpartition("/")[0] in ("", request.zone)
        ]

    def _draw_block(self, request: ProvisionRequest, machines: int) -> str:
        blocks = self._blocks_with_room(request, machines)
        return blocks[int(self.entropy.uniform(0, len(blocks) - 1e-9))]

    def _sell(self, request: ProvisionRequest) -> None:
        if self._in_stock(request) and not self._over_quota(request):
            self._launch(request)

    def _sell_many(self, requests: Sequence[ProvisionRequest]) -> list[Machine | None]:
        """Start these machines; None for those without stock. A whole group starts or none of it.

        A cloud that forgets shared tokens recognises only the repetition of the whole call.
        """
        tokens = tuple(request.token for request in requests)
        if self.habits.remembers_tokens and tokens in self._shared_calls:
            return self._shared_calls[tokens]
        first = requests[0]
        whole = bool(first.group) and first.group_size == len(requests)
        machines: list[Machine | None] = []
        for request in requests:
            wanted = len(requests) - sum(x is not None for x in machines) if whole else 1
            placed = [request, *(_in_zone(request, zone) for zone in request.zones)]
            in_stock = [x for x in placed if self._in_stock(x, wanted)]
            sold = in_stock and not self._over_quota(request)
            machines.append(self._launch(in_stock[0], wanted) if sold else None)
        self._shared_calls[tokens] = machines
        if not self.habits.remembers_shared_tokens:
            self._forgotten.update(tokens)
        return machines

    def _trouble(self, *kinds: str) -> str | None:
        """Draw the fault of this call, if any."""
        draw = self.entropy.uniform(0, 1)
        for kind in kinds:
            draw -= getattr(self.habits, kind)
            if draw < 0:
                return kind
        return None

    async def _suffer_outage(self, zone: str = "") -> None:
        """Fail or delay a call while the whole API, or that zone of it, is out."""
        if not self.reachable:
            raise TransientError(f"no route to {self.name}")
        failure = self.habits.outages.get(zone) or self.habits.outages.get("")
        if failure is ApiFailure.FAIL:
            await self.clock.sleep(self.entropy.uniform(*self.habits.call_s))
            raise TransientError(f"{zone or self.name}: the service is unavailable")
        if failure is ApiFailure.TIME_OUT:
            await self.clock.sleep(TIME_OUT_S)
            raise OutcomeUnknownError(f"{zone or self.name}: no answer within {TIME_OUT_S:.0f} s")
        if failure is ApiFailure.HANG:
            await self.clock.sleep(HANG_S)

    def _zone_of(self, instance: InstanceId) -> str:
        machine = self.machines.get(instance)
        return "" if machine is None else machine.request.zone

    async def _travel(self, what: str, arrive: Callable[[], object]) -> None:
        """Delay the request. After a cancellation, half of the requests arrive nevertheless.

        Callers that are cancelled together have no deterministic order, so their requests are
        carried out in the order of their names, after all cancellations.
        """
        arrives_anyway = self._strikes(0.5)
        try:
            await self.clock.sleep(self.entropy.uniform(*self.habits.call_s))
        except asyncio.CancelledError:
            if arrives_anyway:
                if not self._orphaned:
                    asyncio.get_running_loop().call_soon(self._run_orphaned)
                self._orphaned[what] = arrive
            raise

    def _run_orphaned(self) -> None:
        orphaned, self._orphaned = self._orphaned, {}
        for what in sorted(orphaned):
            orphaned[what]()

    async def _answer(self, trouble: str | None = None) -> None:
        """Delay the response, or lose it."""
        hangs = trouble == "hang"
        await self.clock.sleep(HANG_S if hangs else self.entropy.uniform(*self.habits.call_s))
        if trouble == "transient":
            raise TransientError("too many requests")
        if trouble == "lie":
            raise OutcomeUnknownError("the connection was lost")

    def _launch(self, request: ProvisionRequest, machines: int = 1) -> Machine:
        known = None if request.token in self._forgotten else self.tokens.get(request.token)
        if known is not None and self.habits.remembers_tokens:
            return self.machines[known]
        now = self.clock.now()
        kind = request.instance_type
        price = self.prices.get(kind, self.price_per_hour)
        machine = Machine(
            id=InstanceId(self.entropy.new_id("i")),
            request=request,
            launched_at=now,
            boots_at=now + timedelta(seconds=self.entropy.uniform(*self.habits.boot_s)),
            setup_s=self.entropy.uniform(*self.habits.setup_s) if any(self.habits.setup_s) else 0.0,
            step_s=self.habits.step_s,
            listed_at=now + self._lag(),
            price_per_hour=self.spot_prices.get(kind, price) if request.spot else price,
            block="" if self.habits.blocks is None else self._draw_block(request, machines),
            dead_on_arrival=self._strikes(self.habits.dead_on_arrival)
            or request.zone in self.habits.dead_zones,
            number=len(self.machines) + 1,
        )
        self.machines[machine.id] = machine
        self._at[machine.private_address] = machine
        self.tokens[request.token] = machine.id
        self._will_differ(machine, machine.listed_at)
        self._will_differ(machine, machine.boots_at)
        self.on_launch(machine)
        return machine

    def _will_differ(self, machine: Machine, at: datetime) -> None:
        heapq.heappush(self._due, (at, machine.number, machine.id))

    def _catch_up(self, now: datetime) -> None:
        """Update the entries of the listing that changed until `now`."""
        while self._due and self._due[0][0] <= now:
            _, _, name = heapq.heappop(self._due)
            machine = self.machines[name]
            status = self._status(machine, now)
            if status is None:
                self._listed.pop(name, None)
            else:
                self._listed[name] = self._instance(machine, status)

    def _status(self, machine: Machine, now: datetime) -> InstanceStatus | None:
        if now < machine.listed_at:
            return None
        if machine.ended_at is not None and machine.end_listed_at is not None:
            if now >= machine.ended_at + self.habits.listed_after_end:
                return None
            if now >= machine.end_listed_at:
                return InstanceStatus.TERMINATED
        return InstanceStatus.PENDING if now < machine.boots_at else InstanceStatus.RUNNING

    def _instance(self, machine: Machine, status: InstanceStatus) -> Instance:
        number = machine.number
        ended = status is InstanceStatus.TERMINATED
        return Instance(
            id=machine.id,
            provider=ProviderName(self.name),
            status=status,
            instance_type=machine.request.instance_type,
            region=machine.request.region,
            zone=machine.request.zone,
            public_address=f"198.51.{number >> 8 & 255}.{number & 255}",
            private_address=machine.private_address,
            labels=machine.request.labels,
            launched_at=machine.launched_at,
            ended_at=machine.ended_at if ended else None,
            price_per_hour=machine.price_per_hour,
        )

    def _lag(self) -> timedelta:
        return timedelta(seconds=self.entropy.uniform(0, self.habits.listing_lag_s))

    def _strikes(self, share: float) -> bool:
        return self.entropy.uniform(0, 1) < share


def _in_zone(request: ProvisionRequest, zone: str) -> ProvisionRequest:
    """Return the request for that zone alone."""
    return evolve(request, zone=zone, zones=())


def _shelf(request: ProvisionRequest) -> str:
    """Return the stock entry of a request: spot machines may be counted separately."""
    if request.reservation:
        return f"{request.instance_type} reserved"
    return f"{request.instance_type} spot" if request.spot else request.instance_type


def _sold_out(request: ProvisionRequest) -> CapacityError:
    kind = request.instance_type
    if request.reservation:
        return CapacityError(f"reservation {request.reservation} is used up")
    if request.group:
        return CapacityError(f"no room for {kind} in the block of {request.group}")
    return CapacityError(f"{kind} is sold out")

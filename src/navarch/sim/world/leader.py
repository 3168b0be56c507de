"""The control plane's connections to the outside, which a crash cuts for good."""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ParamSpec, TypeVar

from navarch.core.errors import ConflictError, ProviderError
from navarch.core.event import Recorded, Subject
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import InstanceId, NodeId, PoolName
from navarch.core.instance import Instance, InstanceCheck, Inventory, Topology
from navarch.core.launch import Launch
from navarch.core.ownership import Cluster
from navarch.core.recovery import RecoveryState, RecoveryStep
from navarch.ports.clock import Entropy
from navarch.ports.notifier import WorkloadNotifier
from navarch.ports.provider import Announcement, Provider, ProvisionRequest
from navarch.ports.store import PRUNED_AT_ONCE, Committed, Store, StoreInfo
from navarch.providers.simulated import SimulatedCloud

P = ParamSpec("P")
T = TypeVar("T")

Laws = Callable[[], AbstractContextManager[None]]
"""Opens a block in which a broken law ends the world."""


class Crash(BaseException):
    """The control plane's process has died at this call."""


@dataclass(slots=True)
class CrashPoint:
    """Crashes the control plane at one of its calls to the outside, counted from zero."""

    at: int | None = None
    after: bool = False
    """Whether the call has had its effect."""
    calls: int = 0
    dead: bool = False
    log: list[str] = field(default_factory=list)
    keeps_log: bool = True
    """Whether calls are logged; long runs do without."""
    on_crash: Callable[[], object] = lambda: None
    on_disconnect: list[Callable[[], None]] = field(default_factory=list)
    """Called when nothing more is reported to this process: they cancel its subscriptions."""

    def call(
        self,
        what: str,
        effect: Callable[P, Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Coroutine[Any, Any, T]:
        """Make a call to the outside, unless this is where the process dies."""
        if self.dead:
            # Code that still runs here belongs to a dead process.
            raise Crash(what)
        number = self.calls
        self.calls = number + 1
        if self.keeps_log:
            self.log.append(what)
        if self.after:
            # The effect itself may select its call as the one to crash at.
            return self._perhaps_die_after(number, what, effect(*args, **kwargs))
        if number == self.at:
            self.kill()
            raise Crash(what)
        return effect(*args, **kwargs)

    def kill(self) -> None:
        """Kill the process: it makes no more calls and receives no more commits."""
        self.dead = True
        self.disconnect()
        self.on_crash()

    def disconnect(self) -> None:
        """Report nothing more to the process, dead or alive: another one writes from now on."""
        for leave in self.on_disconnect:
            leave()

    def next_process(self) -> "CrashPoint":
        """Return the next process's crash point, which continues the count and never fires."""
        return CrashPoint(calls=self.calls, log=self.log, keeps_log=self.keeps_log)

    async def _perhaps_die_after(self, number: int, what: str, answer: Awaitable[T]) -> T:
        try:
            return await answer
        finally:
            # Also when the answer is an error: the process dies before it can act on it.
            if number == self.at and not self.dead:
                self.kill()
                raise Crash(what)


@dataclass(slots=True)
class LeaderStore:
    """The store as one process uses it; a share of its commits conflicts."""

    store: Store
    crash_point: CrashPoint
    entropy: Entropy
    conflicts: float = 0.0
    fleet: Callable[[], Fleet] = field(init=False)
    """Returns the newest fleet, directly from the store because it is called often."""

    def __post_init__(self) -> None:
        self.fleet = self.store.fleet

        def stand_still() -> None:
            """Keep the fleet as it is: another process writes, and does not report to this one."""
            seen = self.store.fleet()
            self.fleet = lambda: seen

        self.crash_point.on_disconnect.append(stand_still)

    @property
    def cluster(self) -> Cluster:
        """The identity under which machines are bought."""
        return self.store.cluster

    @property
    def term(self) -> int:
        """The number of the present leader's term."""
        return self.store.term

    def commit(self, change: Change, *, based_on: int) -> Coroutine[Any, Any, Fleet]:
        """Write a change."""
        if self.conflicts and self.entropy.uniform(0, 1) < self.conflicts:
            raise ConflictError("another writer was faster")
        what = "commit"
        if self.crash_point.keeps_log:
            what += " " + ("+".join(event.kind for event in change.events) or "records")
        return self.crash_point.call(what, self.store.commit, change, based_on=based_on)

    async def info(self) -> StoreInfo:
        """Return what the store is."""
        return await self.store.info()

    async def confirm(self) -> None:
        """Raise SupersededError if another process leads."""
        await self.store.confirm()

    def subscribe(self, listener: Callable[[Committed], None]) -> Callable[[], None]:
        """Call `listener` after each commit for as long as this process lives."""
        if self.crash_point.dead:
            return lambda: None
        leave = self.store.subscribe(listener)
        self.crash_point.on_disconnect.append(leave)
        return leave

    async def events(
        self,
        *,
        after: int = 0,
        after_revision: int = 0,
        before: int | None = None,
        about: Subject | None = None,
        newest_first: bool = False,
        limit: int = 1000,
    ) -> Sequence[Recorded]:
        """Return a piece of the journal."""
        return await self.store.events(
            after=after,
            after_revision=after_revision,
            before=before,
            about=about,
            newest_first=newest_first,
            limit=limit,
        )

    def cursor(self, reader: str) -> int | None:
        """Return how far into the journal `reader` has read."""
        return self.store.cursor(reader)

    @property
    def journal_start(self) -> int:
        """The revision after which the journal is complete."""
        return self.store.journal_start

    def prune(self, before: datetime, *, limit: int = PRUNED_AT_ONCE) -> Coroutine[Any, Any, bool]:
        """Drop a piece of the oldest part of the journal."""
        return self.crash_point.call("prune", self.store.prune, before, limit=limit)

    async def shrink(self) -> bool:
        """Give freed space back."""
        return await self.store.shrink()

    async def launches(
        self,
        *,
        pool: PoolName | None = None,
        after: Launch | None = None,
        limit: int | None = None,
    ) -> Sequence[Launch]:
        """Return the launches that are over."""
        return await self.store.launches(pool=pool, after=after, limit=limit)

    async def inventory(self, node: NodeId) -> Inventory | None:
        """Return what an agent found."""
        return await self.store.inventory(node)

    async def inventories(self, nodes: Collection[NodeId]) -> Mapping[NodeId, Inventory]:
        """Return what the agents of some nodes found."""
        return await self.store.inventories(nodes)


@dataclass(slots=True)
class LeaderProvider:
    """A provider as one process uses it; checks that intents are committed before effects."""

    cloud: SimulatedCloud
    store: Store
    crash_point: CrashPoint
    laws: Laws = nullcontext

    @property
    def name(self) -> str:
        """The provider's name."""
        return self.cloud.name

    @property
    def listing_lag(self) -> timedelta:
        """How stale its listings can be."""
        return self.cloud.listing_lag

    @property
    def buys_once_per_token(self) -> bool:
        """Whether a repeated request with one token is safe."""
        return self.cloud.buys_once_per_token

    def provision(self, request: ProvisionRequest) -> Coroutine[Any, Any, Instance]:
        """Start one machine, which must have been written down."""
        self._check_intent(request)
        return self.crash_point.call("provision", self.cloud.provision, request)

    def _check_intent(self, request: ProvisionRequest) -> None:
        name = request.name
        with self.laws():
            node = self.store.fleet().nodes.get(NodeId(name))
            assert node is not None, f"{name} was bought before it was written down"
            assert node.launch is not None, f"{name} was bought without a launch"
            assert node.launch.token == request.token, f"{name} was bought under another token"

    @property
    def machines_per_call(self) -> int:
        """The most machines of one call."""
        return self.cloud.machines_per_call

    @property
    def buys_many_once_per_token(self) -> bool:
        """Whether a launch of a shared call can be repeated by itself."""
        return self.cloud.buys_many_once_per_token

    @property
    def covers_zones(self) -> bool:
        """Whether one call can start machines in several zones."""
        return self.cloud.covers_zones

    def provision_many(
        self, requests: Sequence[ProvisionRequest]
    ) -> Coroutine[Any, Any, Sequence[Instance | ProviderError]]:
        """Start machines, which must have been written down."""
        for request in requests:
            self._check_intent(request)
        return self.crash_point.call("provision", self.cloud.provision_many, requests)

    def terminate(self, instance: InstanceId) -> Coroutine[Any, Any, None]:
        """End one machine, which no node may need any more."""
        with self.laws():
            for node in self.store.fleet().nodes.values():
                if node.launch is not None and node.launch.instance == instance:
                    assert not node.counts, (
                        f"{instance} is the machine of {node.id}, which is {node.phase}"
                    )
        return self.crash_point.call("terminate", self.cloud.terminate, instance)

    def reboot(self, instance: InstanceId) -> Coroutine[Any, Any, None]:
        """Restart one machine, which must have been written down."""
        with self.laws():
            self._check_ordered(instance, RecoveryStep.REBOOT)
        return self.crash_point.call("reboot", self.cloud.reboot, instance)

    def power_cycle(self, instance: InstanceId) -> Coroutine[Any, Any, None]:
        """Switch one machine off and on, which must have been written down."""
        with self.laws():
            self._check_ordered(instance, RecoveryStep.POWER_CYCLE)
        return self.crash_point.call("power cycle", self.cloud.power_cycle, instance)

    def _check_ordered(self, instance: InstanceId, step: RecoveryStep) -> None:
        fleet = self.store.fleet()
        (node,) = [x for x in fleet.nodes.values() if x.instance == instance and not x.gone]
        recovery = fleet.recoveries[node.recovery] if node.recovery else None
        assert recovery is not None, f"{node.id}: {step} without a recovery"
        assert (recovery.step, recovery.state) == (step, RecoveryState.ORDERED), (
            f"{node.id}: {step}, but {recovery.step} is {recovery.state}"
        )
        assert recovery.ordered_boot == node.boot_id, f"{node.id}: {step} on a later boot"

    def list_instances(self) -> Coroutine[Any, Any, Sequence[Instance]]:
        """List every machine."""
        return self.crash_point.call("list", self.cloud.list_instances)

    def instance_checks(
        self, instances: Sequence[InstanceId]
    ) -> Coroutine[Any, Any, Mapping[InstanceId, InstanceCheck]]:
        """Return the status checks of machines."""
        return self.crash_point.call("checks", self.cloud.instance_checks, instances)


@dataclass(slots=True)
class AnnouncingProvider(LeaderProvider):
    """A provider that also announces notices and topology."""

    def notices(self) -> Coroutine[Any, Any, Sequence[Announcement]]:
        """Return what is announced."""
        return self.crash_point.call("notices", self.cloud.notices)

    def topology(
        self, instances: Sequence[InstanceId]
    ) -> Coroutine[Any, Any, Mapping[InstanceId, Topology]]:
        """Return where machines stand."""
        return self.crash_point.call("topology", self.cloud.topology, instances)


@dataclass(slots=True)
class LeaderNotifier:
    """The workload system as one incarnation sees it."""

    notifier: WorkloadNotifier
    crash_point: CrashPoint

    @property
    def name(self) -> str:
        """The workload system's name."""
        return self.notifier.name

    def cordon(self, node: NodeId, reason: str) -> Coroutine[Any, Any, None]:
        """Start nothing new on `node`."""
        return self.crash_point.call("cordon", self.notifier.cordon, node, reason)

    def uncordon(self, node: NodeId) -> Coroutine[Any, Any, None]:
        """Start work on `node` again."""
        return self.crash_point.call("uncordon", self.notifier.uncordon, node)

    def drain(self, node: NodeId, reason: str) -> Coroutine[Any, Any, None]:
        """Move the work on `node` elsewhere."""
        return self.crash_point.call("drain", self.notifier.drain, node, reason)

    def is_drained(self, node: NodeId) -> Coroutine[Any, Any, bool]:
        """Return whether nothing runs on `node`."""
        return self.crash_point.call("is_drained", self.notifier.is_drained, node)


def leader_provider(
    cloud: SimulatedCloud, store: Store, crash_point: CrashPoint, laws: Laws = nullcontext
) -> Provider:
    """Return `cloud` as one incarnation of the control plane sees it."""
    announces = cloud.habits.announces or cloud.habits.blocks is not None
    kind = AnnouncingProvider if announces else LeaderProvider
    return kind(cloud, store, crash_point, laws)

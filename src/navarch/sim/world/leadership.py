"""The control planes of a world: one leads, and another takes over when it dies."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from navarch.app.control_plane import Opinions, Plane
from navarch.control.alerts import AlertSetup
from navarch.control.nodes.bringup import BringUp
from navarch.control.pools.loads import Loads
from navarch.core.errors import SupersededError
from navarch.core.ids import PoolName
from navarch.health.policy.engine import PolicySet
from navarch.meters.pools import CombinedMeter, HeartbeatMeter
from navarch.ports.autoscaler import Autoscaler, MetricsSource
from navarch.ports.store import Store
from navarch.providers.simulated import SimulatedCloud
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.world.effects import SimWorkloads
from navarch.sim.world.hosts import SimulatedHosts
from navarch.sim.world.laws import Laws
from navarch.sim.world.leader import (
    Crash,
    CrashPoint,
    LeaderNotifier,
    LeaderStore,
    leader_provider,
)
from navarch.stores.memory import MemoryStore

RESTART_S = 5.0
"""The time from a crash of the control plane to its restart."""


@dataclass(slots=True, kw_only=True)
class Leadership:
    """The product's control plane, started again after every crash."""

    seed: int
    clock: SimClock
    tasks: asyncio.TaskGroup
    store: Store
    clouds: Callable[[], Sequence[SimulatedCloud]]
    workloads: Callable[[], SimWorkloads]
    hosts: SimulatedHosts
    laws: Laws
    crash_point: CrashPoint
    conflicts: float | None = None
    """The share of commits that fail; a quarter of the error rate of messages if None."""
    strict: bool = True
    """Whether a bug in the control plane, or in a remediator, ends the story."""
    policies: PolicySet | None = None
    """The health policies; the built-in ones if None."""
    opinions: Opinions = field(default_factory=Opinions)
    autoscalers: dict[PoolName, Autoscaler] = field(default_factory=dict)
    metrics: MetricsSource | None = None
    """A source of metrics besides the agents."""
    loads: Loads = field(default_factory=Loads)
    """The load history that survives a restart."""
    alerts: AlertSetup | None = None
    """How alerts reach people; None: they are not tracked."""
    bringup: BringUp | None = None
    """How machines are set up. With it, an agent starts only when it is installed."""
    down_s: float = RESTART_S
    replicas: int = 1
    """The number of control planes; all but one stand by."""
    takeover_s: float = 1.0
    """The time that a standby takes to lead."""
    control: Plane | None = None
    crashes: int = 0
    takeovers: int = 0
    _taken_over: asyncio.Event = field(default_factory=asyncio.Event)
    _running: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Run the control plane; when it dies, a standby leads, or it is started again."""
        back_at_s: list[float] = []
        """When crashed replicas stand by again."""
        while True:
            crash_point = self.crash_point
            await self._until_lost(crash_point)
            self.crash_point = crash_point.next_process()
            if self._taken_over.is_set():
                # The former leader continues, and fails with its next write.
                self.takeovers += 1
                crash_point.disconnect()
                continue
            self.control = None
            # Heartbeats that are due before the restart fail, and are retried sooner.
            for node in list(self.hosts.suspended):
                self.hosts.wake(node)
            self.crashes += 1
            now_s = self.clock.monotonic()
            back_at_s = sorted([*(at for at in back_at_s if at > now_s), now_s + self.down_s])
            if len(back_at_s) < self.replicas:
                await self.clock.sleep(self.takeover_s)
            else:
                await self.clock.sleep(back_at_s.pop(0) - now_s)

    async def _until_lost(self, crash_point: CrashPoint) -> None:
        """Lead until the process dies or another takes over."""
        self._taken_over = asyncio.Event()
        leading = self.tasks.create_task(self._lead(crash_point), name="control plane")
        taken_over = self.tasks.create_task(self._taken_over.wait())
        try:
            await asyncio.wait([leading, taken_over], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            leading.cancel()
            raise
        finally:
            taken_over.cancel()

    def split_brain_takeover(self) -> None:
        """Let another control plane lead at once, while the present leader continues unaware."""
        self._taken_over.set()

    def stop(self) -> None:
        """Stop the control plane that leads."""
        if self._running is not None:
            self._running.cancel()

    async def _lead(self, crash_point: CrashPoint) -> None:
        if isinstance(self.store, MemoryStore):
            # The former leader can write no more.
            self.store = self.store.take_over()
        self.control = control = self._build(crash_point)
        try:
            async with asyncio.TaskGroup() as tasks:
                self._running = tasks.create_task(control.run())
                crash_point.on_crash = self._running.cancel
        except BaseExceptionGroup as group:
            _, rest = group.split((Crash, SupersededError))
            if rest is not None:
                raise rest from None

    def _build(self, crash_point: CrashPoint) -> Plane:
        life, led = self.crashes + self.takeovers, self.store
        conflicts = self.hosts.error_rate() / 4 if self.conflicts is None else self.conflicts
        chance = SeededEntropy(f"{self.seed}/conflicts/{life}")
        store = LeaderStore(led, crash_point, chance, conflicts)
        known = [n.id for n in led.fleet().nodes.values() if n.registered_at and not n.gone]
        liveness = self.hosts.new_liveness(known)
        metrics = None
        if self.hosts.load is not None:
            others = [] if self.metrics is None else [self.metrics]
            metrics = CombinedMeter([*others, HeartbeatMeter(store, liveness)])
        policies = self.policies
        return Plane(
            self.clock,
            SeededEntropy(f"{self.seed}/control/{life}"),
            store,
            providers=[
                leader_provider(cloud, led, crash_point, self.laws.enforce)
                for cloud in self.clouds()
            ],
            notifier=LeaderNotifier(self.workloads(), crash_point),
            liveness=liveness,
            timing=lambda: self.hosts.timing,
            opinions=replace(self.opinions, autoscalers=self.autoscalers),
            metrics_source=metrics,
            loads=self.loads,
            policies=None if policies is None else lambda: policies,
            alerts=self.alerts,
            bringup=self.bringup,
            on_probe=self.hosts.wake,
            strict=self.strict,
        )

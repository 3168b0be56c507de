"""`type: fake`: a simulated cloud; its machines run the real agent over real HTTP."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from navarch.agent.agent import Agent
from navarch.agent.remediation import Permissions
from navarch.agent.settings import Identity
from navarch.agent.spool.disk import FolderDisk
from navarch.agent.transport import LINKS, LinkFactory, http_link, open_link
from navarch.app.fake_list import MachineList
from navarch.config.provider import SIMULATED_GPU_HOUR, FakeConfig
from navarch.core.errors import InvalidError, NavarchError, NotPossibleError
from navarch.core.health import CheckResult, Health
from navarch.core.ids import InstanceId, NodeId, ProviderName
from navarch.core.launch import Offering
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.standard import standard_checks
from navarch.hosts.simulated import SimulatedEffects, SimulatedFacts, SimulatedHost
from navarch.http.tls import MakeContext
from navarch.ports.checks import HealthCheck, MachineView
from navarch.ports.clock import Clock, Entropy, Offload
from navarch.providers.simulated import Habits, Machine, SimulatedCloud

log = structlog.get_logger(__name__)

BLOCKS = {f"block-{number}": 10_000 for number in range(1, 5)}
"""The blocks of simulated machines, with more room than any fleet needs."""

FIRST_FAULT_S = (1.0, 4.0)
"""The time from the boot of a faulty machine to its first fault."""


@dataclass(slots=True)
class InjectedFaults:
    """A check that reports the faults injected into a machine."""

    name: str = "injected"
    interval: timedelta | None = None
    results: dict[str, CheckResult] = field(default_factory=dict)

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Report the injected faults."""
        del view
        yield from self.results.values()


@dataclass(slots=True, kw_only=True)
class _Life:
    gpus: SimulatedGpus
    faults: InjectedFaults
    agent: Agent
    disk: FolderDisk
    task: asyncio.Task[None]


class FakeMachines:
    """The machines of one simulated cloud, run by this process.

    They survive a restart of the server: a file lists them, and the next process starts them
    with the same names, the same GPUs and the buffers of their agents.
    """

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        tasks: asyncio.TaskGroup,
        config: FakeConfig,
        *,
        directory: Path,
        server: str,
        token: Callable[[], str | None],
        offload: Offload,
        probe_offload: Offload,
        extra_checks: Sequence[HealthCheck] = (),
        tls: MakeContext | None = None,
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._tasks = tasks
        self._config = config
        self._boot_s = (config.boot_min.total_seconds(), config.boot_max.total_seconds())
        self._directory = directory
        self._server = server
        self._links: Mapping[str, LinkFactory] = {**LINKS, "https": partial(http_link, tls=tls)}
        self._token = token
        self._offload = offload
        self._probe_offload = probe_offload
        self._extra_checks = tuple(extra_checks)
        self._lives: dict[InstanceId, _Life] = {}
        self._boots: dict[InstanceId, int] = {}
        self._list = MachineList(directory)
        self.cloud = SimulatedCloud(
            clock,
            entropy,
            Habits(
                boot_s=self._boot_s,
                call_s=(0.05, 0.4),
                dead_on_arrival=config.bad_boot_share,
                stock=config.stock,
                reservations=config.reservations,
                blocks=BLOCKS if config.blocks is None else config.blocks,
            ),
            name=config.name,
            prices={
                **{f"h100-{n}x": SIMULATED_GPU_HOUR * n for n in (config.gpu_count, 1)},
                **config.prices,
            },
            spot_prices=config.spot_prices,
            price_per_hour=SIMULATED_GPU_HOUR * config.gpu_count,
            on_launch=self._launched,
            on_end=self._ended,
            on_boot=lambda machine, _how: self._boot_again(machine),
            on_relabel=self._list.note,
        )
        self._to_start: deque[Machine] = deque()

    def restore(self) -> int:
        """Start the machines of the previous process; return their number."""
        machines = self._list.read()
        self._list.begin(machines, self._clock.now())
        self.cloud.take_over(
            {machine.id: machine for machine in machines},
            {machine.request.token: machine.id for machine in machines},
        )
        alive = self.cloud.alive()
        for machine in alive:
            self._start_soon(machine)
        return len(alive)

    async def offerings(self) -> Sequence[Offering]:
        """Return what this cloud sells: machines of the configured size and of one GPU."""
        return [
            Offering(
                provider=ProviderName(self._config.name),
                instance_type=f"h100-{gpus}x",
                region="local",
                gpus=gpus,
                gpu_type="h100",
                price_per_hour=self.cloud.prices[f"h100-{gpus}x"],
            )
            for gpus in sorted({self._config.gpu_count, 1})
        ]

    async def inject(self, node: NodeId, result: CheckResult) -> None:
        """Inject a fault into the machine of `node`, or clear it."""
        machines = [machine.id for machine in self.cloud.alive() if machine.request.name == node]
        life = next((self._lives[name] for name in machines if name in self._lives), None)
        if life is None:
            raise NotPossibleError(f"node {node} has no simulated machine that is up")
        kind, _, rest = result.check.partition("/")
        if kind == "xid":
            code, _, index = rest.partition("/")
            if not code.isdecimal() or (index and not index.isdecimal()):
                raise InvalidError(f"check: an XID is named xid/CODE/GPU, not xid/{rest}")
            gpu = int(index or 0)
            if gpu >= life.gpus.count:
                raise InvalidError(
                    f"gpu: node {node} has GPUs 0 to {life.gpus.count - 1}, no {gpu}"
                )
            # A healthy result that lasts is an XID without a hardware fault, and is injected too.
            if result.health is Health.HEALTHY and not result.lasting:
                life.gpus.repair()
            else:
                life.gpus.xid(int(code), index=gpu)
        else:
            life.faults.results[result.check] = result
        life.agent.run_all_checks()

    def _launched(self, machine: Machine) -> None:
        self._list.note(machine)
        self._start_soon(machine)

    def _start_soon(self, machine: Machine) -> None:
        """Start a machine after those before it.

        One call may launch hundreds of machines, and a restart finds thousands. To start one takes
        a millisecond; the rest of the server runs in between.
        """
        self._to_start.append(machine)
        if len(self._to_start) == 1:
            self._run(self._start_each(), "start of machines")

    async def _start_each(self) -> None:
        while self._to_start:
            await self._clock.sleep(0)
            machine = self._to_start[0]
            if machine.alive:
                self._start(machine)
            self._to_start.popleft()

    def _run(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None] | None:
        """Run `work` beside the server; None if it is stopping."""
        try:
            return self._tasks.create_task(work, name=name)
        except RuntimeError:
            work.close()  # The next process starts the machine.
            return None

    def _ended(self, machine: Machine) -> None:
        self._list.note(machine)
        life = self._lives.pop(machine.id, None)
        if life is not None:
            life.task.cancel()

    def _boot_again(self, machine: Machine) -> None:
        """Reboot a machine. Its faults may recur after the boot, as on a real machine."""
        life = self._lives.pop(machine.id, None)
        if life is not None:
            self._tasks.create_task(self._go_down_and_up(machine, life))

    async def _go_down_and_up(self, machine: Machine, life: _Life) -> None:
        life.task.cancel()
        # The agent uses the disk until it has ended.
        await asyncio.wait([life.task])
        life.disk.close()
        self._boots[machine.id] = self._boots.get(machine.id, 1) + 1
        if machine.alive:
            self._start(machine, boot_s=self._entropy.uniform(*self._boot_s))

    def _start(self, machine: Machine, *, boot_s: float | None = None) -> None:
        # The number of GPUs is part of the instance type: `h100-8x` has eight.
        size = machine.request.instance_type.rpartition("-")[2].removesuffix("x")
        gpus = SimulatedGpus(
            self._clock,
            self._entropy,
            count=int(size) if size.isdecimal() else self._config.gpu_count,
            seed=machine.id,
            model=self._config.gpu_type,
        )
        faults = InjectedFaults()
        disk = FolderDisk(self._directory / machine.id)
        agent = self._agent(machine, gpus, faults, disk)
        task = self._run(self._live(machine, gpus, agent, boot_s), f"machine {machine.id}")
        if task is None:
            return
        # The agent uses the disk until it has ended; then another process may start the machine.
        task.add_done_callback(lambda _: disk.close())
        self._lives[machine.id] = _Life(gpus=gpus, faults=faults, agent=agent, disk=disk, task=task)

    async def _live(
        self, machine: Machine, gpus: SimulatedGpus, agent: Agent, boot_s: float | None
    ) -> None:
        if boot_s is None:
            boot_s = (machine.boots_at - self._clock.now()).total_seconds() + machine.setup_s
        await self._clock.sleep(max(boot_s, 0.0))

        async def fall_off_the_bus() -> None:
            await self._clock.sleep(self._entropy.uniform(*FIRST_FAULT_S))
            gpus.xid(79, index=0)

        async with asyncio.TaskGroup() as tasks:
            if machine.dead_on_arrival:
                tasks.create_task(fall_off_the_bus())
            try:
                await agent.run()
            except NavarchError as error:
                log.warning("fake.agent_failed", machine=machine.id, error=str(error))

    def _agent(
        self, machine: Machine, gpus: SimulatedGpus, faults: InjectedFaults, disk: FolderDisk
    ) -> Agent:
        request = machine.request
        boot = f"boot-{machine.id}-{self._boots.get(machine.id, 1)}"
        host = SimulatedHost(self._clock, self._entropy, request.name, boot=boot)
        loop = asyncio.get_running_loop()

        def reboot() -> None:
            # Called on a thread; machines belong to the event loop.
            loop.call_soon_threadsafe(self._boot_again, machine)

        identity = Identity(
            node=NodeId(request.name),
            token=request.token,
            labels={
                key: value
                for key, value in request.labels.items()
                if not key.startswith("navarch-")
            },
            gpus_expected=len(gpus.list_gpus()),
        )
        return Agent(
            self._clock,
            self._entropy,
            open_link(self._server, token=self._token, links=self._links),
            gpus,
            host,
            disk,
            identity=identity,
            checks=(*standard_checks(), faults, *self._extra_checks),
            offload=self._offload,
            probe_offload=self._probe_offload,
            on_terminate=lambda: None,
            effects=SimulatedEffects(
                on_reset=lambda _: gpus.repair(),
                on_reboot=reboot,
            ),
            permissions=Permissions(restart_app=True, reset=True, reboot=True),
            facts=SimulatedFacts(host=host, log=gpus.kernel_log, bus=gpus.on_bus),
        )

"""One schedule played against real servers, a real database pair and a local EC2."""

import asyncio
import shutil
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.support.ec2_server import Ec2Server

from bench.replicas_databases import DatabasePair
from bench.replicas_judge import CONVERGED_S, Disruption, Records
from bench.replicas_machines import Machines
from bench.replicas_network import Path as LinkPath
from bench.replicas_operator import Operator, Probes
from bench.replicas_schedule import (
    ON_CLIENT_LINKS,
    ON_DATABASE_LINKS,
    ON_DATABASES,
    ON_PEER_LINKS,
    ON_SERVERS,
    Fault,
    Kind,
    make_schedule,
)
from bench.replicas_servers import POOLS, Replica
from navarch.core.ids import PoolName

REPLICAS = 3
UP_S = 60.0
ANOTHER_UP_S = 15.0
"""How long a fault is put off until another server works."""
ANSWERED_S = 20.0
PATHS = {
    Kind.DATABASE_CUT: LinkPath.CUT,
    Kind.DATABASE_FREEZE: LinkPath.FROZEN,
    Kind.CLIENT_CUT: LinkPath.CUT,
    Kind.CLIENT_FREEZE: LinkPath.FROZEN,
    Kind.PEER_CUT: LinkPath.CUT,
    Kind.PEER_FREEZE: LinkPath.FROZEN,
}
CLOUD = {
    Kind.CLOUD_LOST: {"lost": "after"},
    Kind.CLOUD_UNSENT: {"lost": "before"},
}


class LateError(Exception):
    """Something did not happen in time."""


@dataclass(kw_only=True)
class Stage:
    """Everything that runs during one schedule."""

    cloud: Ec2Server
    databases: DatabasePair
    replicas: Sequence[Replica]
    machines: Machines
    operator: Operator
    probes: Probes
    log: list[str] = field(default_factory=list)
    """What was done to whom, and when."""
    disruptions: list[Disruption] = field(default_factory=list)
    harmed: set[int] = field(default_factory=set)
    """The replicas that do not work because of a fault."""
    all_answer: bool = False
    """Whether every replica answers requests, and not the leader only."""
    _began: float = field(default_factory=time.monotonic)
    _leader: Replica | None = None

    def note(self, text: str) -> None:
        """Record what happens."""
        self.log.append(f"{time.monotonic() - self._began:.1f} s: {text}")

    async def play(self, faults: Sequence[Fault]) -> None:
        """Play all faults; return when the last one has ended."""
        self._began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for fault in faults:
                await asyncio.sleep(max(self._began + fault.at_s - time.monotonic(), 0.0))
                if fault.kind in ON_DATABASES:
                    await self._harm_database(fault)
                elif fault.kind in ON_SERVERS:
                    target = await self._target(fault)
                    if target is not None:
                        self.harmed.add(target.number)
                        tasks.create_task(self._harm_server(fault, target))
                else:
                    self.note(f"{fault}")
                    how = CLOUD.get(fault.kind, {"late_s": fault.lasts_s})
                    actions = ("RunInstances", "TerminateInstances")
                    await asyncio.to_thread(
                        self.cloud.set, faults=[{"action": x, **how} for x in actions]
                    )

    async def answered(self) -> None:
        """Return once a write was acknowledged after the last disruption, or it takes too long."""
        last = max((each.since for each in self.disruptions), default=0.0)

        async def acknowledged() -> bool:
            return any(sent > last for sent, _ in self.operator.ledger.acknowledged_at)

        with suppress(LateError):
            await self.until("a write is acknowledged", acknowledged, ANSWERED_S)

    async def working(self) -> set[int]:
        """Return the replicas that could take over now."""
        connected = await self.connected()
        if not self.all_answer:
            return connected
        ready = await asyncio.gather(*(each.ready() for each in self.replicas))
        return {x.number for x, is_ready in zip(self.replicas, ready, strict=True) if is_ready}

    async def connected(self) -> set[int]:
        """Return the replicas with a session at the database, and note the leader."""
        sessions = await self.databases.sessions()
        lock = {port for port, holds in sessions.items() if holds}
        self._leader = next((x for x in self.replicas if x.reaches(lock)), self._leader)
        return {each.number for each in self.replicas if each.reaches(set(sessions))}

    async def until(
        self, what: str, holds: Callable[[], Awaitable[bool]], within_s: float = UP_S
    ) -> float:
        """Return how long it took until `holds`."""
        began = time.monotonic()
        while not await holds():
            if time.monotonic() > began + within_s:
                raise LateError(f"{what}: not within {within_s:g} s")
            await asyncio.sleep(0.1)
        return time.monotonic() - began

    async def _target(self, fault: Fault) -> Replica | None:
        """Return the server for a fault, once another one works that no fault has harmed."""
        deadline = time.monotonic() + ANOTHER_UP_S
        while time.monotonic() < deadline:
            working = await self.working() - self.harmed
            leader = self._leader
            if leader is not None and leader.number in working and len(working) > 1:
                others = [x for x in self.replicas if x.number in working and x is not leader]
                return leader if fault.on_leader else others[0]
            await asyncio.sleep(0.1)
        self.note(f"left out, since no other server works: {fault}")
        return None

    async def _harm_server(self, fault: Fault, target: Replica) -> None:
        leads = target is self._leader
        self.note(f"{fault} ({target.name}{', the leader' * leads})")
        since = time.monotonic()
        if fault.kind in ON_CLIENT_LINKS:
            target.link_clients(PATHS[fault.kind])
            await asyncio.sleep(fault.lasts_s)
            target.link_clients(LinkPath.OPEN)
            # A leader without clients still leads, and on standby nothing answers.
            since = since if self.all_answer else time.monotonic()
        elif fault.kind in ON_DATABASE_LINKS:
            target.link_databases(PATHS[fault.kind])
            self._disrupt(fault, since, leads=leads)
            await asyncio.sleep(fault.lasts_s)
            target.link_databases(LinkPath.OPEN)
        elif fault.kind in ON_PEER_LINKS:
            target.peers.become(PATHS[fault.kind])
            self._disrupt(fault, since, leads=leads)
            await asyncio.sleep(fault.lasts_s)
            target.peers.become(LinkPath.OPEN)
        elif fault.kind is Kind.STOP:
            target.send(signal.SIGSTOP)
            self._disrupt(fault, since, leads=leads)
            await asyncio.sleep(fault.lasts_s)
            target.send(signal.SIGCONT)
        else:
            number = signal.SIGKILL if fault.kind is Kind.KILL else signal.SIGTERM
            process = target.process
            target.send(number, down_for_s=fault.lasts_s)
            self._disrupt(fault, since, leads=leads)
            assert process is not None
            await process.wait()
        if fault.kind in ON_CLIENT_LINKS:
            self._disrupt(fault, since, leads=leads)
        starts = target.starts
        # A server that lost the leadership ends, and is started again.
        await asyncio.sleep(1.0)

        async def works() -> bool:
            return target.number in await self.working()

        await self.until(f"{target.name} works again", works)
        self.note(f"{target.name} works again{' (new process)' * (target.starts > starts)}")
        self.harmed.discard(target.number)

    async def _harm_database(self, fault: Fault) -> None:
        self.note(f"{fault}")
        if fault.kind is Kind.FAILOVER:
            since = await self.databases.fail_over()
        else:
            mode = "fast" if fault.kind is Kind.RESTART_FAST else "immediate"
            since = await self.databases.restart(mode)
        self.note("the database accepts commits")
        self._disrupt(fault, since, leads=True)

    def _disrupt(self, fault: Fault, since: float, *, leads: bool) -> None:
        if leads:
            self.disruptions.append(Disruption(fault=str(fault), since=since))


@asynccontextmanager
async def open_stage(cloud: Ec2Server, seed: int, logs: Path) -> AsyncIterator[Stage]:
    """Start everything for one schedule, and end it afterwards; `logs` keeps what servers wrote."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="navarch-replicas-")))
        stack.callback(_keep_logs, folder, logs)
        await asyncio.to_thread(cloud.reset)
        # Not in a thread: one that is interrupted there would be left behind.
        databases = DatabasePair()
        stack.callback(databases.close)
        stack.callback(databases.keep_logs, logs)
        stack.push_async_callback(databases.unwatch)
        replicas = [
            Replica(number, folder, cloud.url, databases.ports) for number in range(REPLICAS)
        ]
        for replica in replicas:
            stack.push_async_callback(replica.close)
            await replica.start()
        machines = Machines(cloud, [replica.url for replica in replicas])
        stack.push_async_callback(machines.close)
        machines.start()
        operator = Operator([replica.operator for replica in replicas], machines, seed)
        stack.push_async_callback(operator.close)
        probes = Probes([replica.url for replica in replicas], operator.ledger)
        stack.push_async_callback(probes.close)
        stage = Stage(
            cloud=cloud,
            databases=databases,
            replicas=replicas,
            machines=machines,
            operator=operator,
            probes=probes,
        )
        for replica in replicas:
            replica.note = stage.note
        yield stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What one schedule left behind."""

    seed: int
    schedule: Sequence[Fault]
    records: Records
    log: Sequence[str]
    wall_s: float
    all_answer: bool


def _keep_logs(folder: Path, logs: Path) -> None:
    for log in folder.glob("replica-*/serve-*.log"):
        shutil.copy(log, logs / f"{log.parent.name}-{log.name}")


async def play_schedule(cloud: Ec2Server, seed: int, logs: Path) -> Played:
    """Play the schedule of a seed; `logs` is a folder for what the servers write."""
    began = time.monotonic()
    schedule, random = make_schedule(seed), Random(f"sizes {seed}")
    async with open_stage(cloud, seed, logs) as stage:
        operator, machines = stage.operator, stage.machines

        async def all_connected() -> bool:
            return len(await stage.connected()) == REPLICAS

        async def all_run() -> bool:
            return len(machines.alive) == sum(operator.sizes.values()) == len(machines.sound)

        await stage.until("all servers are connected", all_connected)
        await operator.wait_for_pools()
        stage.all_answer = await operator.serving() == REPLICAS
        for pool in POOLS:
            await operator.scale(pool, 2)
        await stage.until("the first machines run", all_run)
        stage.probes.start()
        changing = asyncio.create_task(operator.run())
        await stage.play(schedule)
        operator.stop()
        await changing
        for pool in POOLS:
            # A size that the pool has already would leave no event.
            sizes = [size for size in (1, 2, 3, 4) if size != operator.sizes[pool]]
            await operator.scale(pool, random.choice(sizes))
        await stage.answered()
        await stage.probes.close()
        converged_s = await _converge(stage)
        records = Records(
            ledger=operator.ledger,
            journal=await operator.journal(),
            jobs={str(job.name) for job in await operator.jobs()},
            in_service=await operator.in_service(),
            effects=machines.effects,
            broken=set(machines.broken),
            ended_by_itself=[text for each in stage.replicas for text in each.ended_by_itself],
            ends_without_database=sum(each.ends_without_database for each in stage.replicas),
            converged_s=converged_s,
            disruptions=stage.disruptions,
        )
    return Played(
        seed=seed,
        schedule=schedule,
        records=records,
        log=stage.log,
        wall_s=time.monotonic() - began,
        all_answer=stage.all_answer,
    )


async def _converge(stage: Stage) -> float | None:
    """Return how long it took until each pool had the machines that were requested."""

    async def converged() -> bool:
        await stage.machines.look()
        alive = list(stage.machines.alive.values())
        pools = {pool.spec.name: pool for pool in await stage.operator.pools()}
        return all(
            name in pools
            and pools[PoolName(name)].size == size == alive.count(name)
            and pools[PoolName(name)].serving + pools[PoolName(name)].cordoned == size
            for name, size in stage.operator.sizes.items()
        )

    try:
        return await stage.until("the fleet is as requested", converged, CONVERGED_S)
    except LateError:
        for pool in await stage.operator.pools():
            stage.note(f"not as requested: {pool}")
        stage.note(f"machines: {stage.machines.alive}")
        return None

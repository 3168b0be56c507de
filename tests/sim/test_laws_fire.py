"""Each law of the simulator ends a world that breaks it.

Every test runs one world twice. Without its bad habit the world is clean; with the habit the law
ends the run. So a law that no longer fires fails its test here, and so does one that always fires.
"""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from navarch.app.control_plane import Opinions
from navarch.control.nodes.launch import LaunchController
from navarch.control.pools.sizing import PoolPlanningController
from navarch.control.providers.guard import GuardedProvider
from navarch.core.autoscaling import Autoscaling, ReactiveSettings
from navarch.core.disruption import Disruption
from navarch.core.errors import CapacityError, InvariantError, ProviderError
from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.health import CheckResult, Health
from navarch.core.ids import InstanceId, NodeId, PoolName, RecoveryId, Token
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.launch import Gang, Launch
from navarch.core.node import Node, Phase, Retirement
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.core.recovery import Recovery, RecoveryState, RecoveryStep, Remediation
from navarch.fleet.plan import (
    Abandon,
    Action,
    Cordon,
    Drain,
    Plan,
    Recover,
    Release,
    Request,
    Retire,
    RetryLaunch,
    Terminate,
)
from navarch.fleet.planner import plan_pool
from navarch.ports.provider import ProvisionRequest
from navarch.ports.remediator import Remedy, Treatment
from navarch.ports.store import Committed
from navarch.providers.simulated import Habits, Machine, SimulatedCloud
from navarch.service.views import pool_spec
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy
from navarch.sim.runner.outcome import Outcome
from navarch.sim.runner.runner import run_scenario
from navarch.sim.scenario.loading import parse_scenario
from navarch.sim.world.leader import CrashPoint, leader_provider
from navarch.sim.world.world import Story, World, simulate
from navarch.stores.memory import MemoryStore
from navarch.stores.sqlite import SqliteStore
from navarch.stores.state_cache import Listener
from navarch.testing.worlds import H100, a_pool

POOL = PoolName("training")
FIRST, SECOND = NodeId("training-0"), NodeId("training-1")
EXTRA = NodeId("training-9")
"""A name that the pool itself does not reach in these stories."""

Law = type[AssertionError] | type[InvariantError]


@contextlib.contextmanager
def broken(law: str, kind: Law = AssertionError) -> Iterator[None]:
    """Expect that a broken law ends the world, and nothing else does."""
    with pytest.raises(BaseExceptionGroup) as caught:
        yield
    found = {(type(error), str(error)) for error in leaves(caught.value)}
    assert len(found) == 1, found
    ((found_kind, reason),) = found
    assert found_kind is kind
    assert re.search(law, reason), reason


def leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error


def at_cloud(twin: type[SimulatedCloud]) -> Callable[[World], None]:
    """Return a function that replaces the simulated cloud by one with a bad habit."""

    def prepare(world: World) -> None:
        world.cloud = twin(**{each.name: getattr(world.cloud, each.name) for each in fields(twin)})

    return prepare


async def whole(world: World, nodes: int = 2) -> None:
    await world.until(lambda: len(world.serving(POOL)) == nodes, within_s=3600)


async def replace_one(world: World) -> None:
    """Let one machine fail and the pool replace it."""
    await whole(world)
    world.fail(FIRST, "XID 79")
    await world.until(lambda: FIRST not in world.serving(POOL), within_s=600)
    await whole(world)
    await world.clock.sleep(600)


async def retire_one(world: World) -> None:
    """Let one machine fail, and stop while its work leaves it."""
    world.workloads.drain_s = (250.0, 250.0)
    await whole(world)
    world.fail(FIRST, "XID 79")
    await world.until(lambda: world.fleet().nodes[FIRST].phase is Phase.DRAINING, within_s=600)


# Launches, terminations and bills of the cloud


class ForgetsTokens(SimulatedCloud):
    """Promises one machine per token, and sells another one at each repeated request."""

    @property
    def buys_once_per_token(self) -> bool:
        return True


class SellsTwo(SimulatedCloud):
    """Starts two machines for one request."""

    def _launch(self, request: ProvisionRequest, machines: int = 1) -> Machine:
        super()._launch(request, machines)
        return super()._launch(request, machines)


class KeepsRunning(SimulatedCloud):
    """Lists a machine as ended, and lets it run and charges for it."""

    def end(self, instance: InstanceId) -> None:
        machine = self.machines[instance]
        machine.end_listed_at = self.clock.now()
        self._will_differ(machine, machine.end_listed_at)

    def _status(self, machine: Machine, now: datetime) -> InstanceStatus | None:
        if machine.end_listed_at is not None:
            return InstanceStatus.TERMINATED
        return super()._status(machine, now)


class EndsNothing(SimulatedCloud):
    """Accepts that a machine is to end, and lets it run."""

    def end(self, instance: InstanceId) -> None:
        pass


class Overcharges(SimulatedCloud):
    """Charges a dollar more per hour than it reports."""

    def _instance(self, machine: Machine, status: InstanceStatus) -> Instance:
        listed = super()._instance(machine, status)
        return evolve(listed, price_per_hour=machine.price_per_hour - 1)


@pytest.mark.parametrize("twin", [ForgetsTokens, SellsTwo])
def test_a_machine_that_is_bought_twice_ends_the_world(twin: type[SimulatedCloud]) -> None:
    # Each answer is lost, so the launch must be repeated or looked up.
    habits = Habits(remembers_tokens=False, lie=1.0, listing_lag_s=120.0)

    def play(cloud: type[SimulatedCloud]) -> None:
        simulate(whole, seed=1, pools=[a_pool()], habits=habits, prepare=at_cloud(cloud))

    play(SimulatedCloud)
    with broken(f"{FIRST} was bought twice"):
        play(twin)


def test_a_pool_with_more_machines_than_its_maximum_ends_the_world() -> None:
    def play(cloud: type[SimulatedCloud]) -> World:
        pool = a_pool(size=2, nodes_max=2)
        return simulate(replace_one, seed=1, pools=[pool], prepare=at_cloud(cloud))

    assert len(play(SimulatedCloud).alive()) == 2
    with broken("3 machines of 2 in training"):
        play(KeepsRunning)


@pytest.mark.parametrize("twin", [Overcharges, KeepsRunning])
def test_a_bill_that_differs_from_the_ledger_ends_the_world(twin: type[SimulatedCloud]) -> None:
    def play(cloud: type[SimulatedCloud]) -> None:
        simulate(replace_one, seed=1, pools=[a_pool()], prepare=at_cloud(cloud))

    play(SimulatedCloud)
    with broken("seed 1: bill=.* ledger="):
        play(twin)


# Coming to rest


async def cordoned(world: World) -> None:
    await whole(world)
    await world.ask(lambda fleet: fleet.cordon(FIRST, reason="to be looked at"))


async def without_a_control_plane(world: World) -> None:
    await whole(world)
    world.leadership.down_s = 7200.0
    world.crash()


@pytest.mark.parametrize(
    ("clean", "spoiled", "twin", "found"),
    [
        (replace_one, replace_one, KeepsRunning, f"unwanted machine .* for {FIRST}"),
        (replace_one, replace_one, EndsNothing, f"{FIRST}: terminating"),
        (whole, cordoned, SimulatedCloud, f"{FIRST}: ready .* cordoned=to be looked at"),
        (whole, without_a_control_plane, SimulatedCloud, "control=down"),
    ],
    ids=["a leaked machine", "a node too many", "a node out of service", "no control plane"],
)
def test_a_world_does_not_come_to_rest_with(
    clean: Story, spoiled: Story, twin: type[SimulatedCloud], found: str
) -> None:
    def play(before: Story, cloud: type[SimulatedCloud]) -> None:
        async def story(world: World) -> None:
            await before(world)
            await world.converge(within_s=900)

        simulate(story, seed=1, pools=[a_pool()], prepare=at_cloud(cloud))

    play(clean, SimulatedCloud)
    with broken(f"(?s)seed 1: not within 900 s.*{found}"):
        play(spoiled, twin)


# Commits


def written(world: World, *nodes: Node, pools: Sequence[Pool] = ()) -> Change:
    """Return a change with a reason."""
    at = world.clock.now()
    event = Event(at=at, about=about("pool", POOL), kind="test.written", reason="a test")
    return Change(nodes=nodes, pools=pools, events=[event])


def first(world: World) -> Node:
    return world.fleet().nodes[FIRST]


def the_pool(world: World) -> Pool:
    return world.fleet().pools[POOL]


def requested(name: NodeId, now: datetime) -> Node:
    """Return a node that is requested now."""
    launch = Launch(
        token=Token(f"launch-{name}"), node=name, pool=POOL, offering=H100, asked_at=now
    )
    return Node(id=name, pool=POOL, phase=Phase.REQUESTED, since=now, created_at=now, launch=launch)


async def forget_one(world: World) -> None:
    """Let a node be replaced and forgotten."""
    await replace_one(world)
    forget = evolve(written(world), forget_nodes=[FIRST])
    await world.store.commit(forget, based_on=world.fleet().revision)


async def forget_one_from_before(world: World) -> None:
    """Let a node be replaced and forgotten that is older than the checkers' records."""
    await replace_one(world)
    world.checkers.born.clear()
    forget = evolve(written(world), forget_nodes=[FIRST])
    await world.store.commit(forget, based_on=world.fleet().revision)


@dataclass(frozen=True, kw_only=True)
class Writing:
    """A change that keeps a law, and one that breaks it."""

    before: Story = whole
    keeps: Callable[[World], Change]
    breaks: Callable[[World], Change]
    law: str
    nodes_max: int = 3


SURPLUS = Retirement(reason="too many", surplus=True)
URGENT = Retirement(reason="reclaimed", urgent=True)

WRITINGS = {
    "a phase that does not follow": Writing(
        keeps=lambda world: written(
            world, first(world).move_to(Phase.DRAINING, at=world.clock.now(), retiring=URGENT)
        ),
        breaks=lambda world: written(world, evolve(first(world), phase=Phase.BOOTING)),
        law=f"{FIRST}: ready->booting",
    ),
    "a retirement that is called off": Writing(
        before=retire_one,
        keeps=lambda world: written(world, first(world)),
        breaks=lambda world: written(world, evolve(first(world), retiring=None)),
        law=f"{FIRST} was given back and kept",
    ),
    "a second registration": Writing(
        keeps=lambda world: written(world, first(world)),
        breaks=lambda world: written(world, evolve(first(world), registered_at=world.clock.now())),
        law=f"{FIRST} was born again",
    ),
    "a change without an event": Writing(
        keeps=lambda world: written(world, first(world)),
        breaks=lambda world: Change(nodes=[first(world)]),
        law=f"'{FIRST}'.* were changed without a reason",
    ),
    "the name of a node that is forgotten": Writing(
        before=forget_one,
        keeps=lambda world: written(world, requested(EXTRA, world.clock.now())),
        breaks=lambda world: written(world, requested(FIRST, world.clock.now())),
        law=f"the name {FIRST} was used twice",
    ),
    "the name of a node from before the watch": Writing(
        before=forget_one_from_before,
        keeps=lambda world: written(world, requested(EXTRA, world.clock.now())),
        breaks=lambda world: written(world, requested(FIRST, world.clock.now())),
        law=f"the name {FIRST} was used twice",
    ),
    "a node above the maximum": Writing(
        nodes_max=2,
        keeps=lambda world: written(
            world,
            requested(EXTRA, world.clock.now()),
            pools=[evolve(the_pool(world), nodes_max=3)],
        ),
        breaks=lambda world: written(world, requested(EXTRA, world.clock.now())),
        law="training: 3 of 2 nodes",
    ),
    "a surplus in a pool that has none": Writing(
        keeps=lambda world: written(
            world,
            evolve(first(world), retiring=SURPLUS),
            pools=[evolve(the_pool(world), nodes_min=1)],
        ),
        breaks=lambda world: written(world, evolve(first(world), retiring=SURPLUS)),
        law="training shrank to 1 serving nodes",
    ),
    "a node that changes its pool": Writing(
        keeps=lambda world: written(world, first(world)),
        breaks=lambda world: written(world, evolve(first(world), pool=PoolName("batch"))),
        law=f"{FIRST} changed pool",
    ),
    "one of two nodes that changes its pool": Writing(
        keeps=lambda world: written(world, first(world), world.fleet().nodes[SECOND]),
        breaks=lambda world: written(
            world,
            evolve(first(world), pool=PoolName("batch")),
            world.fleet().nodes[SECOND],
        ),
        law=f"{FIRST} changed pool",
    ),
}


@pytest.mark.parametrize("writing", WRITINGS.values(), ids=WRITINGS.keys())
def test_the_world_ends_with_a_commit_of(writing: Writing) -> None:
    def play(change: Callable[[World], Change]) -> None:
        async def story(world: World) -> None:
            await writing.before(world)
            await world.store.commit(change(world), based_on=world.fleet().revision)
            world.workloads.drain_s = (0.0, 1.0)
            await world.converge()

        simulate(story, seed=1, pools=[a_pool(nodes_max=writing.nodes_max)])

    play(writing.keeps)
    with broken(writing.law):
        play(writing.breaks)


def test_a_law_that_is_broken_in_a_durable_store_ends_the_world(tmp_path: Path) -> None:
    """Such a store reports commits from a separate task, so callers do not see its errors."""
    writing = WRITINGS["a change without an event"]

    def play(directory: Path, change: Callable[[World], Change]) -> None:
        async def story(world: World) -> None:
            await whole(world)
            # A commit that breaks a law never returns.
            async with asyncio.timeout(60):
                await world.store.commit(change(world), based_on=world.fleet().revision)

        opened = SqliteStore.open(directory, InlineOffload(), SeededEntropy("cluster"))
        with contextlib.closing(opened) as store:
            simulate(story, seed=1, pools=[a_pool()], store=lambda _: store)

    play(tmp_path / "clean", writing.keeps)
    with broken(writing.law):
        play(tmp_path / "spoiled", writing.breaks)


class ReplacesAnything:
    """Replaces every node that is not healthy."""

    def remediate(self, _pool: Pool, _node: Node) -> Treatment:
        return Treatment(remedy=Remedy.REPLACE, reason="less than healthy")


def test_a_node_that_is_not_broken_and_is_given_back_ends_the_world() -> None:
    async def story(world: World) -> None:
        await whole(world)
        world.agent(FIRST).results["remap"] = CheckResult(
            check="remap", health=Health.DEGRADED, reason="a row is remapped"
        )
        await world.until(lambda: first(world).health is Health.DEGRADED, within_s=600)
        await world.converge()

    simulate(story, seed=1, pools=[a_pool()])
    with broken(f"{FIRST} was degraded and ready, but is given back: less than healthy"):
        opinions = Opinions(remediator=ReplacesAnything())
        simulate(story, seed=1, pools=[a_pool()], opinions=opinions)


class RequestsAnother(MemoryStore):
    """Requests another node when the first one is gone."""

    async def commit(self, change: Change, *, based_on: int) -> Fleet:
        gone = [node for node in change.nodes if node.gone]
        if gone and EXTRA not in self.fleet().nodes:
            change = evolve(change, nodes=[*change.nodes, requested(EXTRA, gone[0].since)])
        return await super().commit(change, based_on=based_on)


def test_a_pool_that_grows_while_it_is_above_its_maximum_ends_the_world() -> None:
    async def story(world: World) -> None:
        await whole(world, 3)
        lower = replace(pool_spec(the_pool(world)), nodes_min=2, nodes_max=2)
        await world.ask(lambda fleet: fleet.put_pool(lower, reason="less to do"))
        await world.converge()

    simulate(story, seed=1, pools=[a_pool(size=3)])
    with broken("training wants 3 of 2"):
        simulate(story, seed=1, pools=[a_pool(size=3)], store=RequestsAnother)


class DropsReport(MemoryStore):
    """Leaves out the report of one commit."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        def listen(committed: Committed) -> None:
            if committed.after.revision != 5:
                listener(committed)

        return super().subscribe(listen)


class MergesReports(MemoryStore):
    """Reports two commits as one, after the first few."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        held: list[Committed] = []

        def listen(committed: Committed) -> None:
            if committed.after.revision < 5:
                listener(committed)
            elif held:
                listener(evolve(committed, before=held.pop().before))
            else:
                held.append(committed)

        return super().subscribe(listen)


@pytest.mark.parametrize("twin", [DropsReport, MergesReports])
def test_a_revision_that_is_not_reported_ends_the_world(twin: type[MemoryStore]) -> None:
    simulate(whole, seed=1, pools=[a_pool()])
    with broken("a revision was skipped"):
        simulate(whole, seed=1, pools=[a_pool()], store=twin)


# Calls to the provider


Call = Callable[[World, GuardedProvider], Awaitable[object]]


@dataclass(frozen=True, kw_only=True)
class ProviderCall:
    """A call to a provider that keeps a law, and one that breaks it."""

    before: Story = whole
    keeps: Call
    breaks: Call
    law: str


def request_of(world: World, **other: object) -> ProvisionRequest:
    """Return the request that bought the first machine, or one that differs from it."""
    return evolve(world.machine(FIRST).request, **other)  # type: ignore[arg-type]


async def refused_one(world: World) -> None:
    """Wait until the cloud has refused a machine."""
    world.cloud.habits = replace(world.cloud.habits, refuses=CapacityError)
    await whole(world, 0)
    await world.until(
        lambda: FIRST in world.fleet().nodes and first(world).launch is None, within_s=600
    )


async def leave_alone(_world: World, _provider: GuardedProvider) -> None:
    """Make no call."""


def ordered(**other: object) -> Story:
    """Return a story that records a reboot of the first machine, or a variation of it."""

    async def before(world: World) -> None:
        await whole(world)
        node, now = first(world), world.clock.now()
        recovery = Recovery(
            id=RecoveryId("r-1"),
            node=FIRST,
            check="xid",
            cause="XID 79",
            boot_id=node.boot_id,
            step=RecoveryStep.REBOOT,
            state=RecoveryState.ORDERED,
            since=now,
            begun_at=now,
            deadline=now + timedelta(minutes=10),
            ordered_boot=node.boot_id,
        )
        change = evolve(
            written(world, evolve(node, recovery=recovery.id)),
            recoveries=[evolve(recovery, **other)],  # type: ignore[arg-type]
        )
        await world.store.commit(change, based_on=world.fleet().revision)

    return before


PROVIDER_CALLS = {
    "a machine of which nothing is written": ProviderCall(
        keeps=lambda world, provider: provider.provision(request_of(world)),
        breaks=lambda world, provider: provider.provision(request_of(world, name=EXTRA)),
        law=f"{EXTRA} was bought before it was written down",
    ),
    "a machine under another token": ProviderCall(
        keeps=lambda world, provider: provider.provision(request_of(world)),
        breaks=lambda world, provider: provider.provision(
            request_of(world, token=Token("launch-other"))
        ),
        law=f"{FIRST} was bought under another token",
    ),
    "a machine for a node that waits": ProviderCall(
        before=refused_one,
        keeps=leave_alone,
        breaks=lambda _, provider: provider.provision(
            ProvisionRequest(token=Token("launch-other"), name=FIRST, instance_type="h100-8x")
        ),
        law=f"{FIRST} was bought without a launch",
    ),
    "the end of a machine that is wanted": ProviderCall(
        before=retire_one,
        keeps=lambda world, provider: provider.terminate(world.machine(FIRST).id),
        breaks=lambda world, provider: provider.terminate(world.machine(SECOND).id),
        law=f"is the machine of {SECOND}, which is ready",
    ),
    "a reboot that is not written": ProviderCall(
        before=ordered(),
        keeps=lambda world, provider: provider.reboot(world.machine(FIRST).id),
        breaks=lambda world, provider: provider.reboot(world.machine(SECOND).id),
        law=f"{SECOND}: reboot without a recovery",
    ),
    "a power cycle where a reboot is written": ProviderCall(
        before=ordered(),
        keeps=lambda world, provider: provider.reboot(world.machine(FIRST).id),
        breaks=lambda world, provider: provider.power_cycle(world.machine(FIRST).id),
        law=f"{FIRST}: power_cycle, but reboot is ordered",
    ),
    "a reboot that has happened": ProviderCall(
        before=ordered(state=RecoveryState.VERIFYING),
        keeps=leave_alone,
        breaks=lambda world, provider: provider.reboot(world.machine(FIRST).id),
        law=f"{FIRST}: reboot, but reboot is verifying",
    ),
    "a reboot of a later boot": ProviderCall(
        before=ordered(ordered_boot="boot-0"),
        keeps=leave_alone,
        breaks=lambda world, provider: provider.reboot(world.machine(FIRST).id),
        law=f"{FIRST}: reboot on a later boot",
    ),
}


@pytest.mark.parametrize("call_pair", PROVIDER_CALLS.values(), ids=PROVIDER_CALLS.keys())
def test_the_world_ends_with_a_provider_call_for(call_pair: ProviderCall) -> None:
    def play(call: Call) -> None:
        async def story(world: World) -> None:
            await call_pair.before(world)
            watched = leader_provider(world.cloud, world.store, CrashPoint(), world.laws.enforce)
            # The control plane takes whatever goes wrong in a call as an unknown outcome.
            with contextlib.suppress(ProviderError):
                await call(world, GuardedProvider(watched))
            world.workloads.drain_s = (0.0, 1.0)
            await world.converge()

        simulate(story, seed=1, pools=[a_pool()])

    play(call_pair.keeps)
    with broken(call_pair.law):
        play(call_pair.breaks)


def test_a_control_plane_that_buys_under_another_token_ends_the_world(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written_down = LaunchController._request

    def other(self: LaunchController, launch: Launch, pool: Pool) -> ProvisionRequest:
        return evolve(written_down(self, launch, pool), token=Token("launch-other"))

    simulate(whole, seed=1, pools=[a_pool()])
    monkeypatch.setattr(LaunchController, "_request", other)
    with broken(f"{FIRST} was bought under another token"):
        simulate(whole, seed=1, pools=[a_pool()])


# Plans


ROOMY = a_pool(size=2, nodes_max=3)
CALM = Habits()


@dataclass(frozen=True, kw_only=True)
class Planning:
    """A plan that keeps a law, and one that breaks it."""

    pool: Pool = ROOMY
    habits: Habits = CALM
    before: Story = whole
    keeps: Callable[[World], Sequence[Action]]
    spoiled: Story | None = None
    """The story before the plan that breaks the law, if it differs from `before`."""
    breaks: Callable[[World], Sequence[Action]]
    law: str


def launch_of(name: NodeId, world: World, **other: object) -> Launch:
    launch = requested(name, world.clock.now()).launch
    assert launch is not None
    return evolve(launch, **other)  # type: ignore[arg-type]


def request(name: NodeId, world: World, gang: Gang | None = None) -> Request:
    waits = gang is not None
    return Request(launch=launch_of(name, world, gang=gang), reason="a test", waiting=waits)


def retry_launch(name: NodeId, world: World) -> RetryLaunch:
    return RetryLaunch(launch=launch_of(name, world, token=Token("again")), reason="a test")


async def retry_slowly(world: World) -> None:
    """Wait until a launch is retried, and make its answer slow."""
    await refused_one(world)
    world.cloud.habits = replace(world.cloud.habits, refuses=None, call_s=(50.0, 50.0))
    await world.until(lambda: first(world).launch is not None, within_s=600)


async def give_up_one(world: World) -> None:
    """Wait until a node is abandoned that never had a machine."""
    await refused_one(world)
    none = replace(pool_spec(the_pool(world)), nodes_min=0)
    await world.ask(lambda fleet: fleet.put_pool(none, reason="nothing to do"))
    await world.until(lambda: first(world).gone, within_s=600)
    assert first(world).launch is None


async def mend_one(world: World) -> None:
    """Begin to repair one machine, and stop while its work leaves it."""
    world.workloads.drain_s = (250.0, 250.0)
    await whole(world)
    world.fail(FIRST, "XID 79")
    await world.until(lambda: first(world).recovery is not None, within_s=600)


def mend(name: NodeId, world: World) -> Recover:
    (known,) = world.fleet().recoveries.values()
    same = name == known.node
    return Recover(recovery=known if same else evolve(known, id=RecoveryId("r-2"), node=name))


async def begin_gang(world: World) -> None:
    """Wait until the machines of a gang boot."""
    await world.until(
        lambda: [node.phase for node in world.nodes(POOL)] == [Phase.BOOTING] * 2, within_s=600
    )


def gang_of(world: World) -> Gang:
    gang = first(world).gang
    assert gang is not None
    return gang


def release(world: World, *nodes: NodeId) -> Release:
    return Release(gang=gang_of(world), nodes=nodes, reason="a test")


def give_up(world: World) -> Abandon:
    nodes, now = (FIRST, SECOND), world.clock.now()
    return Abandon(gang=gang_of(world), nodes=nodes, reason="a test", began_at=now)


ANOTHER = Gang(id="training-g9", nodes=2, offering=H100)
GANGS = a_pool(size=2, nodes_max=4, gang=2)
LADDER = a_pool(remediation=Remediation(strategy="ladder"))

PLANNINGS = {
    "a machine that is being bought": Planning(
        before=refused_one,
        keeps=lambda world: [retry_launch(FIRST, world)],
        spoiled=retry_slowly,
        breaks=lambda world: [retry_launch(FIRST, world)],
        law=f"{FIRST} would be bought twice",
    ),
    "a machine for a node that is gone": Planning(
        before=refused_one,
        keeps=lambda world: [retry_launch(FIRST, world)],
        spoiled=give_up_one,
        breaks=lambda world: [retry_launch(FIRST, world)],
        law=f"{FIRST} would be bought twice",
    ),
    "a node that is there": Planning(
        keeps=lambda world: [request(EXTRA, world)],
        breaks=lambda world: [request(FIRST, world)],
        law=f"{FIRST} is requested twice",
    ),
    "one node twice": Planning(
        pool=a_pool(size=2, nodes_max=4),
        keeps=lambda world: [request(EXTRA, world), request(NodeId("training-8"), world)],
        breaks=lambda world: [request(EXTRA, world), request(EXTRA, world)],
        law=f"{EXTRA} is requested twice",
    ),
    "a node above the maximum": Planning(
        keeps=lambda world: [request(EXTRA, world)],
        breaks=lambda world: [request(EXTRA, world), request(NodeId("training-8"), world)],
        law="training would hold 4 of 3",
    ),
    "a part of a gang": Planning(
        pool=GANGS,
        habits=Habits(blocks={"a": 8}),
        keeps=lambda world: [
            request(EXTRA, world, ANOTHER),
            request(NodeId("training-8"), world, ANOTHER),
        ],
        breaks=lambda world: [request(EXTRA, world, ANOTHER)],
        law="training-g9 would begin with 1 of 2",
    ),
    "the release of a part of a gang": Planning(
        pool=GANGS,
        habits=Habits(blocks={"a": 8}),
        before=begin_gang,
        keeps=lambda world: [release(world, FIRST, SECOND)],
        breaks=lambda world: [release(world, FIRST, FIRST)],
        law="is released with 2 of 2",
    ),
    "the end of a gang that serves": Planning(
        pool=GANGS,
        habits=Habits(blocks={"a": 8}),
        before=begin_gang,
        keeps=lambda world: [give_up(world)],
        spoiled=whole,
        breaks=lambda world: [give_up(world)],
        law="is given up though it is complete",
    ),
    "a second retirement": Planning(
        before=retire_one,
        keeps=lambda _: [Retire(node=SECOND, reason="a test", urgent=True)],
        breaks=lambda _: [Retire(node=FIRST, reason="a test", urgent=True)],
        law=f"{FIRST} is retired twice",
    ),
    "a second cordon": Planning(
        before=cordoned,
        keeps=lambda _: [Cordon(node=SECOND, reason="a test")],
        breaks=lambda _: [Cordon(node=FIRST, reason="a test")],
        law=f"{FIRST} is cordoned twice",
    ),
    "a second recovery": Planning(
        pool=LADDER,
        before=mend_one,
        keeps=lambda world: [mend(SECOND, world)],
        breaks=lambda world: [mend(FIRST, world)],
        law=f"{FIRST} is repaired twice at once",
    ),
    "a drain of a node that drains": Planning(
        before=retire_one,
        keeps=lambda _: [Retire(node=SECOND, reason="a test", urgent=True)],
        breaks=lambda _: [Drain(node=FIRST, reason="a test")],
        law=f"{FIRST} is drained while draining",
    ),
    "the end of a node that stays": Planning(
        before=retire_one,
        keeps=lambda _: [Terminate(node=FIRST, reason="a test")],
        breaks=lambda _: [Terminate(node=SECOND, reason="a test")],
        law=f"{SECOND} is terminated though it should stay",
    ),
}


@pytest.mark.parametrize("planning", PLANNINGS.values(), ids=PLANNINGS.keys())
def test_the_control_plane_refuses_a_plan_of(planning: Planning) -> None:
    def play(before: Story, actions: Callable[[World], Sequence[Action]]) -> None:
        async def story(world: World) -> None:
            await before(world)
            plans = [Plan(pool=POOL, actions=tuple(actions(world)))]
            planner = PoolPlanningController(
                world.clock,
                world.store,
                name="test",
                plan=lambda pool, _: plans.pop() if plans else Plan(pool=pool.name),
                seen=lambda node: node,
            )
            revision = world.fleet().revision
            try:
                await planner.reconcile([POOL])
            except InvariantError:
                assert world.fleet().revision == revision
                raise
            assert world.fleet().revision > revision
            await world.clock.sleep(3600)

        simulate(story, seed=1, pools=[planning.pool], habits=planning.habits)

    play(planning.before, planning.keeps)
    with broken(planning.law, InvariantError):
        play(planning.spoiled or planning.before, planning.breaks)


# Where plans are checked


def above_the_maximum(pool: Pool, nodes: Sequence[Node], **around: object) -> Plan:
    """Plan one node more than the pool may have."""
    more = pool.nodes_max + 1
    larger = evolve(pool, nodes_min=more, nodes_max=more)
    return plan_pool(larger, nodes, **around)  # type: ignore[arg-type]


def those_that_leave(nodes: Sequence[Node], *_: object) -> list[NodeId]:
    """Choose the nodes that are retired already."""
    return [node.id for node in nodes if node.retiring is not None]


def those_that_leave_empty(_pool: Pool, nodes: Sequence[Node], *_: object, **__: object) -> object:
    return those_that_leave(nodes)


def at_once(nodes: Sequence[Node]) -> list[Action]:
    """Plan to end the machines of broken nodes that are not retired."""
    return [
        Terminate(node=node.id, reason="broken")
        for node in nodes
        if node.health is Health.UNHEALTHY and node.retiring is None
    ]


ELASTIC = a_pool(size=1, nodes_max=4, nodes_wanted=3)


@pytest.mark.parametrize(
    ("pool", "where", "habit", "law"),
    [
        (
            a_pool(size=2, nodes_max=2),
            "navarch.fleet.pool_plan.plan_pool",
            above_the_maximum,
            "training would hold 3 of 2",
        ),
        (
            evolve(ELASTIC, autoscaling=Autoscaling(reactive=ReactiveSettings())),
            "navarch.control.pools.autoscaling.choose_surplus",
            those_that_leave,
            f"{FIRST} is retired twice",
        ),
        (
            evolve(ELASTIC, disruption=Disruption(empty_after=timedelta(minutes=10))),
            "navarch.control.pools.emptiness.empty",
            those_that_leave_empty,
            f"{FIRST} is retired twice",
        ),
        (
            a_pool(size=2, nodes_max=3),
            "navarch.control.health.remediation.plan_returns",
            at_once,
            f"{FIRST} is terminated though it should stay",
        ),
    ],
    ids=["the planner", "the autoscaler", "the look for empty nodes", "the remediation"],
)
def test_the_world_ends_with_a_plan_that_breaks_a_law_by(
    pool: Pool, where: str, habit: object, law: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def idle(world: World) -> None:
        world.hosts.load = lambda _: 0.0

    async def story(world: World) -> None:
        world.workloads.drain_s = (3600.0, 3600.0)
        await whole(world, pool.size)
        world.fail(FIRST, "XID 79")
        await world.clock.sleep(3600)

    def play() -> None:
        timeout = timedelta(hours=1)
        pools = [evolve(pool, drain_timeout=timeout)]
        simulate(story, seed=1, pools=pools, prepare=idle)

    play()
    monkeypatch.setattr(where, habit)
    with broken(law, InvariantError):
        play()


# What a scenario reports


SCENARIO = """
name: one machine fails
providers: {cloud: {boot_min: 1m, boot_max: 2m}}
pools: {training: {provider: cloud, instance_type: h100-8x, min_nodes: 2, max_nodes: 3}}
duration: 40m
events:
  - {at: 10m, action: inject_failure, target: training-0,
     params: {failure_type: xid_error, xid_code: 79}}
"""
TIGHT = SCENARIO.replace("max_nodes: 3", "max_nodes: 2")


def played(scenario: str = SCENARIO) -> Outcome:
    return run_scenario(parse_scenario(scenario), seed=1)


def failed(outcome: Outcome) -> dict[str, str]:
    """Return what did not hold, and why."""
    found = {each.what: each.reason for each in outcome.verdicts if not each.holds}
    assert outcome.passed is (not found)
    return found


def test_a_scenario_fails_when_the_bill_differs_from_the_ledger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert failed(played()) == {}
    monkeypatch.setattr("navarch.sim.runner.runner.SimulatedCloud", Overcharges)
    found = failed(played())
    assert list(found) == ["the ledger equals the clouds' bills"]


def test_a_scenario_fails_when_a_law_of_the_world_is_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert failed(played(TIGHT)) == {}
    monkeypatch.setattr("navarch.sim.runner.runner.SimulatedCloud", KeepsRunning)
    found = failed(played(TIGHT))
    assert list(found) == ["every law of the fleet is kept"]
    assert "3 machines of 2 in training" in found["every law of the fleet is kept"]


def test_a_scenario_fails_when_a_law_of_the_store_is_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert failed(played()) == {}
    monkeypatch.setattr("navarch.sim.runner.runner.MemoryStore", MergesReports)
    found = failed(played())
    assert list(found) == ["every law of the fleet is kept"]
    assert "a revision was skipped" in found["every law of the fleet is kept"]


def test_a_scenario_fails_when_a_law_of_plans_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failed(played()) == {}
    monkeypatch.setattr("navarch.fleet.pool_plan.plan_pool", above_the_maximum)
    found = failed(played())
    assert found == {"every law of the fleet is kept": "training would hold 4 of 3"}


def test_a_scenario_counts_a_machine_that_no_node_has_as_a_leak(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert played().figures.leaks == 0
    monkeypatch.setattr("navarch.sim.runner.runner.SimulatedCloud", KeepsRunning)
    assert played().figures.leaks == 1

"""Machines are set up over SSH, which does not always work."""

from dataclasses import dataclass, field

import pytest
from tests.support.archives import MemoryBringUpLogs

from navarch.control.nodes.bringup import BringUp
from navarch.core.bringup import BringUpLog
from navarch.core.errors import NotPossibleError
from navarch.core.ids import NodeId, PoolName
from navarch.core.machine_setup import MachineSetup
from navarch.ports.shell import Ran
from navarch.providers.simulated import Habits, Machine
from navarch.service.fleet_health import HeldService
from navarch.sim.world.world import World, simulate
from navarch.ssh.simulated import SimulatedShells
from navarch.testing.worlds import a_pool

TRAINING = PoolName("training")
COMMANDS = ("install-driver", "install-agent --server {{.ControlPlane}} --join {{.JoinToken}}")


@dataclass(slots=True)
class Rack:
    """Machines that boot and run their setup commands, with failures as configured."""

    setup: MachineSetup = field(default_factory=lambda: MachineSetup(commands=COMMANDS))
    always_failing: set[str] = field(default_factory=set)
    """Nodes on which the first command always fails."""
    broken: bool = False
    """True if the first command fails on every machine, as after a mistake in it."""
    failures_left: dict[str, int] = field(default_factory=dict)
    """Number of times that the first command fails on a node before it works."""
    logs: MemoryBringUpLogs = field(default_factory=MemoryBringUpLogs)
    world: World | None = None
    shells: SimulatedShells | None = None

    def prepare(self, world: World) -> None:
        self.world = world
        self.shells = SimulatedShells(world.clock, self.answer, down=self.down)
        world.leadership.bringup = BringUp(
            shells=self.shells,
            logs=self.logs,
            setup=lambda _: self.setup,
            control_plane=lambda _: "http://10.0.0.1:50051",
            join_token=lambda node, _: f"join-{node}",
        )

    def machine(self, address: str) -> Machine:
        assert self.world is not None
        numbers = address.split(".")
        number = int(numbers[2]) * 256 + int(numbers[3])
        return next(m for m in self.world.cloud.machines.values() if m.number == number)

    def down(self, address: str) -> bool:
        assert self.world is not None
        machine = self.machine(address)
        return not machine.alive or self.world.clock.now() < machine.boots_at

    def answer(self, address: str, command: str) -> Ran:
        assert self.world is not None
        machine = self.machine(address)
        node = machine.request.name
        if command == "install-driver" and (self.broken or node in self.always_failing):
            return Ran(exit_code=2, stderr="no such package")
        if command == "install-driver" and self.failures_left.get(node, 0) > 0:
            self.failures_left[node] -= 1
            return Ran(exit_code=100, stderr="could not get lock")
        if command.startswith("install-agent"):
            if machine.id not in self.world.hosts.running:
                self.world.hosts.start(machine, after_s=1.0)
            return Ran(exit_code=0, stdout=f"joined with join-{node}")
        return Ran(exit_code=0)


async def filled(world: World, size: int = 2) -> list[NodeId]:
    await world.until(lambda: len(world.serving(TRAINING)) == size, within_s=3600)
    return world.serving(TRAINING)


def test_machines_are_set_up_as_soon_as_they_answer_and_each_step_is_logged() -> None:
    rack = Rack()

    async def story(world: World) -> None:
        assert await filled(world) == ["training-0", "training-1"]
        (log,) = await rack.logs.list(NodeId("training-0"))
        assert log.succeeded
        assert [entry.command for entry in log.commands] == list(COMMANDS)
        assert [entry.exit_code for entry in log.commands] == [0, 0]
        assert log.waited_s > 30, "it was called in vain while it booted"
        assert rack.shells is not None
        assert rack.shells.open == 0

    simulate(story, seed=1, pools=[a_pool()], prepare=rack.prepare)


def test_the_join_token_reaches_the_machine_but_no_log() -> None:
    rack = Rack()

    async def story(world: World) -> None:
        await filled(world)
        assert rack.shells is not None
        assert any("join-training-0" in command for _, command in rack.shells.commands)
        logs = await rack.logs.list(NodeId("training-0"))
        assert "join-training-0" not in repr(logs)
        assert "joined with [secret]" in repr(logs)

    simulate(story, seed=1, pools=[a_pool()], prepare=rack.prepare)


def test_a_command_that_fails_for_a_while_is_tried_again_on_the_same_machine() -> None:
    rack = Rack(failures_left={"training-0": 2})

    async def story(world: World) -> None:
        assert "training-0" in await filled(world)
        logs = await rack.logs.list(NodeId("training-0"))
        assert [log.succeeded for log in logs] == [False, False, True]
        assert logs[0].error == "command 1 failed: exit code 100"
        assert logs[0].commands[0].stderr == "could not get lock"

    simulate(story, seed=1, pools=[a_pool()], prepare=rack.prepare)


@pytest.mark.parametrize("seed", range(5))
def test_a_machine_that_cannot_be_set_up_is_given_back_and_replaced(seed: int) -> None:
    """B16: a node stayed in its pool for ever after a failed bootstrap, without a retry."""
    rack = Rack(always_failing={"training-0"})

    async def story(world: World) -> None:
        world.checkers.may_be_retired.add(NodeId("training-0"))
        assert await filled(world) == ["training-1", "training-2"]
        await world.until(lambda: len(world.cloud.alive()) == 2, within_s=600)
        logs = await rack.logs.list(NodeId("training-0"))
        assert len(logs) == 3, "it was tried as often as the policy says"
        why = [e.event.reason for e in await world.store.events() if e.event.kind == "node.retired"]
        assert "setting it up failed 3 times: command 1 failed: exit code 2" in why

    simulate(story, seed=seed, pools=[a_pool()], prepare=rack.prepare)


@pytest.mark.parametrize("seed", range(8))
def test_a_crash_during_bring_up_leaves_no_machine_without_its_setup(
    seed: int,
) -> None:
    rack = Rack()

    async def story(world: World) -> None:
        for _ in range(4):
            await world.clock.sleep(20 + 7 * seed)
            world.crash()
        await filled(world)
        for node in world.serving(TRAINING):
            logs: list[BringUpLog] = list(await rack.logs.list(node))
            assert logs[-1].succeeded

    habits = Habits(boot_s=(30.0, 60.0))
    simulate(story, seed=seed, pools=[a_pool()], prepare=rack.prepare, habits=habits)


def test_a_machine_with_a_changed_host_key_gets_no_more_commands() -> None:
    """The host key of the first attempt is pinned for all later attempts."""
    rack = Rack(failures_left={"training-0": 1})

    async def story(world: World) -> None:
        shells = rack.shells
        assert shells is not None
        await world.until(lambda: rack.failures_left["training-0"] == 0, within_s=900)
        address = next(address for address, _ in shells.commands)
        shells.host_keys[address] = "ssh-ed25519 another-key"
        sent = sum(where == address for where, _ in shells.commands)
        world.checkers.may_be_retired.add(NodeId("training-0"))
        await world.until(lambda: "training-0" not in world.serving(TRAINING), within_s=1)
        await world.until(
            lambda: NodeId("training-0") not in [n.id for n in world.nodes(TRAINING)], within_s=1800
        )
        assert sum(where == address for where, _ in shells.commands) == sent

    simulate(story, seed=1, pools=[a_pool(size=1)], prepare=rack.prepare)


def expect_failures(world: World) -> None:
    """Allow nodes to be retired: no machine of these stories comes up."""
    names = {NodeId(f"training-{number}") for number in range(200)}
    world.checkers.may_be_retired.update(names)


@pytest.mark.parametrize("seed", range(3))
def test_a_mistake_in_the_setup_costs_a_dozen_machines_a_night_and_not_a_thousand(
    seed: int,
) -> None:
    rack = Rack(broken=True)

    async def story(world: World) -> None:
        expect_failures(world)
        for _ in range(8):
            await world.clock.sleep(3600)
            # A circuit breaker that a restart resets would buy machines again each time.
            world.crash()
        bought = len(world.cloud.machines)
        assert 4 + 6 <= bought <= 4 + 3 + 14, "four at first, three instead of them, then probes"
        (pool,) = world.store.fleet().pools.values()
        assert pool.braked is not None
        assert "command 1 failed: exit code 2" in pool.braked
        kinds = [entry.event.kind for entry in await world.store.events()]
        assert "pool.braked" in kinds
        assert "pool.unbraked" not in kinds

        rack.broken = False
        await filled(world, 4)
        (pool,) = world.store.fleet().pools.values()
        assert pool.braked is None
        assert len(world.cloud.machines) <= bought + 5, "one was tried, and then all were bought"
        kinds = [entry.event.kind for entry in await world.store.events()]
        assert "pool.unbraked" in kinds

    simulate(story, seed=seed, pools=[a_pool(size=4)], prepare=rack.prepare)


def test_a_release_after_a_corrected_setup_takes_effect_at_once() -> None:
    rack = Rack(broken=True)

    async def story(world: World) -> None:
        expect_failures(world)
        await world.clock.sleep(4 * 3600)
        rack.broken = False
        held = HeldService(world.clock, world.store)
        assert await held.release_held(pool=TRAINING, reason="the script is mended") == []
        begun = world.clock.monotonic()
        await filled(world, 4)
        assert world.clock.monotonic() - begun < 600
        with pytest.raises(NotPossibleError, match="nothing is held back"):
            await held.release_held(pool=TRAINING, reason="again")

    simulate(story, seed=1, pools=[a_pool(size=4)], prepare=rack.prepare)


@pytest.mark.parametrize("seed", range(5))
def test_a_machine_with_long_set_up_commands_is_not_given_up(seed: int) -> None:
    """Six commands of almost five minutes each, and a boot deadline of ten minutes."""
    rack = Rack(setup=MachineSetup(commands=(*["install-driver"] * 5, COMMANDS[1])))

    def prepare(world: World) -> None:
        rack.prepare(world)
        assert rack.shells is not None
        rack.shells.command_s = 280.0

    async def story(world: World) -> None:
        first = {node.id for node in world.nodes(TRAINING)}
        assert set(await filled(world)) >= first
        assert len(world.cloud.machines) == 2

    simulate(story, seed=seed, pools=[a_pool(size=2)], prepare=prepare)

"""Orders that change the machine: allowed, fenced, proven, verified; or refused with a reason."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from navarch.agent.agent import Agent
from navarch.agent.directlink import DirectLink
from navarch.agent.disk import MemoryDisk
from navarch.agent.identity import Identity
from navarch.agent.remedies import FILE, Allowed
from navarch.core.command import CommandKind
from navarch.core.ids import CommandId, NodeId
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.standard import standard_checks
from navarch.hosts.simulated import SimulatedEffects, SimulatedHost
from navarch.ports.effects import Holder
from navarch.sim.clock import InlineOffload, SeededEntropy, SimClock
from navarch.sim.loop import SimLoop
from navarch.testing.rehearsal import RehearsalControlPlane

NODE = NodeId("gpu-7")
ALL = Allowed(restart_app=True, reset=True, reboot=True)


class Facts:
    """A machine that can be asked, so that evidence can be taken."""

    def kernel_log(self) -> Sequence[str]:
        return ()

    def pcie(self) -> Mapping[str, Mapping[str, str]]:
        return {}

    def processes(self) -> Sequence[Mapping[str, str]]:
        return ()

    def versions(self) -> Mapping[str, str]:
        return {}


@dataclass
class Stage:
    clock: SimClock = field(default_factory=SimClock)
    plane: RehearsalControlPlane = field(
        default_factory=lambda: RehearsalControlPlane(heartbeat_interval=timedelta(seconds=5))
    )
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    effects: SimulatedEffects = field(default_factory=SimulatedEffects)
    allowed: Allowed = ALL
    boot: str = "boot-1"
    released: list[str] = field(default_factory=list)
    gpus: SimulatedGpus | None = None

    def agent(self) -> Agent:
        entropy = SeededEntropy("agent")
        self.gpus = SimulatedGpus(self.clock, entropy, count=2, seed="m")
        return Agent(
            self.clock,
            entropy,
            DirectLink(self.clock, lambda: self.plane),
            self.gpus,
            SimulatedHost(self.clock, entropy, NODE, boot=self.boot),
            self.disk,
            identity=Identity(node=NODE),
            checks=standard_checks(),
            offload=InlineOffload(),
            probe_offload=InlineOffload(),
            facts=Facts(),
            effects=self.effects,
            allowed=self.allowed,
            release_driver=lambda: self.released.append("released"),
        )

    async def order(
        self, kind: CommandKind, name: str = "c1", **parameters: str
    ) -> tuple[bool, str]:
        given = {"boot_id": self.boot, **parameters}
        self.plane.command(kind, name=name, at=self.clock.now(), parameters=given)
        await self.clock.sleep(20)
        return next((ok, said) for done, ok, said in self.plane.finished if done == CommandId(name))


def play(story: Callable[[Stage], Coroutine[Any, Any, None]], stage: Stage | None = None) -> Stage:
    stage = stage or Stage()

    async def main() -> None:
        agent = stage.agent()
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(agent.run())
            await stage.clock.sleep(5)
            await story(stage)
            life.cancel()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())
    return stage


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        (CommandKind.RESTART_APP, "--allow-restart-app"),
        (CommandKind.RESET_GPU, "--allow-reset"),
        (CommandKind.REBOOT, "--allow-reboot"),
    ],
)
def test_what_the_owner_has_not_allowed_is_refused_with_the_option_that_would(
    kind: CommandKind, option: str
) -> None:
    async def story(stage: Stage) -> None:
        ok, said = await stage.order(kind)
        assert not ok
        assert option in said

    assert play(story, Stage(allowed=Allowed())).effects.done == []


@pytest.mark.parametrize(
    "kind", [CommandKind.RESTART_APP, CommandKind.RESET_GPU, CommandKind.REBOOT]
)
def test_an_order_for_another_boot_is_refused(kind: CommandKind) -> None:
    async def story(stage: Stage) -> None:
        for boot in ("boot-0", ""):
            ok, said = await stage.order(kind, name=f"for {boot}", boot_id=boot)
            assert not ok
            assert "boot" in said

    assert play(story).effects.done == []


def test_a_reset_lets_go_of_the_driver_first_and_is_done_when_every_check_passes() -> None:
    async def story(stage: Stage) -> None:
        ok, said = await stage.order(CommandKind.RESET_GPU, gpus="GPU-a,GPU-b")
        assert ok, said
        assert said == "reset 2 GPUs: All done.; every check passes"

    stage = play(story)
    assert stage.effects.done == ["reset GPU-a,GPU-b"]
    assert stage.released == ["released"]


def test_a_reset_is_refused_while_somebody_holds_a_gpu_and_all_of_them_are_named() -> None:
    async def story(stage: Stage) -> None:
        stage.effects.in_use_by = [
            Holder(pid=812, name="nv-hostengine"),
            Holder(pid=99, name="python"),
        ]
        ok, said = await stage.order(CommandKind.RESET_GPU)
        assert not ok
        assert said == (
            "the GPUs are in use; to be stopped first: nv-hostengine (pid 812), python (pid 99)"
        )

    assert play(story).effects.done == []


def test_a_reset_after_which_something_is_wrong_is_not_called_done() -> None:
    async def story(stage: Stage) -> None:
        gpus = stage.gpus
        assert gpus is not None
        stage.effects.on_reset = lambda _: gpus.xid(79, index=0)
        ok, said = await stage.order(CommandKind.RESET_GPU)
        assert not ok
        assert "but after it" in said

    play(story)


@pytest.mark.parametrize("kind", [CommandKind.RESET_GPU, CommandKind.REBOOT])
def test_evidence_is_on_disk_before_the_machine_is_touched(kind: CommandKind) -> None:
    async def story(stage: Stage) -> None:
        stage.plane.fault = _no_evidence
        seen: list[bool] = []

        def look() -> None:
            seen.append(any("evidence" in name for name in stage.disk.files))

        stage.effects.on_reset = lambda _: look()
        stage.effects.on_reboot = look
        stage.plane.command(
            kind, name="c1", at=stage.clock.now(), parameters={"boot_id": stage.boot}
        )
        await stage.clock.sleep(20)
        assert seen == [True]

    play(story)


def _no_evidence(method: str) -> None:
    if method == "report_evidence":
        raise AssertionError("not asked for")


def test_a_reboot_is_written_down_before_it_is_asked_for_and_told_by_the_next_boot() -> None:
    async def down(stage: Stage) -> None:
        noted: list[bool] = []
        stage.effects.on_reboot = lambda: noted.append(FILE in stage.disk.files)
        stage.plane.command(
            CommandKind.REBOOT, name="c1", at=stage.clock.now(), parameters={"boot_id": "boot-1"}
        )
        await stage.clock.sleep(20)
        assert noted == [True]
        assert stage.plane.finished == [], "it is not done before the machine is back"

    stage = play(down)

    async def up(stage: Stage) -> None:
        await stage.clock.sleep(20)
        assert stage.plane.finished == [
            ("c1", True, "rebooted: boot boot-1 is over, this is boot-2")
        ]

    stage.boot = "boot-2"
    play(up, stage)
    assert stage.effects.done == ["reboot"], "and never twice"


def test_a_machine_that_does_not_go_down_says_so() -> None:
    async def story(stage: Stage) -> None:
        stage.plane.command(
            CommandKind.REBOOT, name="c1", at=stage.clock.now(), parameters={"boot_id": "boot-1"}
        )
        await stage.clock.sleep(400)
        assert stage.plane.finished == [("c1", False, "the machine did not go down within 300 s")]

    play(story)


def test_an_application_is_restarted_by_its_services_or_by_the_processes_that_are_named() -> None:
    async def by_unit(stage: Stage) -> None:
        assert (await stage.order(CommandKind.RESTART_APP))[0]

    units = Allowed(restart_app=True, units=("train.service",))
    assert play(by_unit, Stage(allowed=units)).effects.done == ["restart train.service"]

    async def by_pid(stage: Stage) -> None:
        stage.effects.in_use_by = [Holder(pid=41, name="train"), Holder(pid=42, name="other")]
        ok, said = await stage.order(CommandKind.RESTART_APP, pids="41,7")
        assert (ok, said) == (True, "ended train (pid 41); every check passes")
        ok, said = await stage.order(CommandKind.RESTART_APP, name="c2", pids="7")
        assert (ok, said) == (False, "no process that the order names holds a GPU")

    assert play(by_pid).effects.done == ["stop 41"]

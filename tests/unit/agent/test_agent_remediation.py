"""Commands that change the machine: permitted, fenced and verified, or refused with a reason."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from tests.support.direct_link import DirectLink
from tests.support.fake_control_plane import FakeControlPlane

from navarch.agent.agent import Agent
from navarch.agent.remediation import FILE, Permissions
from navarch.agent.settings import Identity
from navarch.agent.spool.disk import MemoryDisk
from navarch.core.ids import CommandId, NodeId
from navarch.core.recovery import CommandKind
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.standard import standard_checks
from navarch.hosts.simulated import SimulatedEffects, SimulatedHost
from navarch.ports.host import Holder
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop

NODE = NodeId("gpu-7")
ALL = Permissions(restart_app=True, reset=True, reboot=True)


class Facts:
    """Machine facts, so that evidence can be collected."""

    def kernel_log(self) -> Sequence[str]:
        return ()

    def pcie(self) -> Mapping[str, Mapping[str, str]]:
        return {}

    def processes(self) -> Sequence[Mapping[str, str]]:
        return ()

    def versions(self) -> Mapping[str, str]:
        return {}


@dataclass
class Harness:
    clock: SimClock = field(default_factory=SimClock)
    plane: FakeControlPlane = field(
        default_factory=lambda: FakeControlPlane(heartbeat_interval=timedelta(seconds=5))
    )
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    effects: SimulatedEffects = field(default_factory=SimulatedEffects)
    permissions: Permissions = ALL
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
            permissions=self.permissions,
            release_driver=lambda: self.released.append("released"),
        )

    async def issue(
        self, kind: CommandKind, name: str = "c1", **parameters: str
    ) -> tuple[bool, str]:
        given = {"boot_id": self.boot, **parameters}
        self.plane.command(kind, name=name, at=self.clock.now(), parameters=given)
        await self.clock.sleep(20)
        return next(
            (ok, result) for done, ok, result in self.plane.finished if done == CommandId(name)
        )


def run_scenario(
    scenario: Callable[[Harness], Coroutine[Any, Any, None]], harness: Harness | None = None
) -> Harness:
    harness = harness or Harness()

    async def main() -> None:
        agent = harness.agent()
        async with asyncio.TaskGroup() as tasks:
            run_task = tasks.create_task(agent.run())
            await harness.clock.sleep(5)
            await scenario(harness)
            run_task.cancel()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())
    return harness


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        (CommandKind.RESTART_APP, "--allow-restart-app"),
        (CommandKind.RESET_GPU, "--allow-reset"),
        (CommandKind.REBOOT, "--allow-reboot"),
    ],
)
def test_a_step_without_permission_is_refused_and_names_the_option(
    kind: CommandKind, option: str
) -> None:
    async def scenario(harness: Harness) -> None:
        ok, result = await harness.issue(kind)
        assert not ok
        assert option in result

    assert run_scenario(scenario, Harness(permissions=Permissions())).effects.done == []


@pytest.mark.parametrize(
    "kind", [CommandKind.RESTART_APP, CommandKind.RESET_GPU, CommandKind.REBOOT]
)
def test_a_command_for_another_boot_is_refused(kind: CommandKind) -> None:
    async def scenario(harness: Harness) -> None:
        for boot in ("boot-0", ""):
            ok, result = await harness.issue(kind, name=f"for {boot}", boot_id=boot)
            assert not ok
            assert "boot" in result

    assert run_scenario(scenario).effects.done == []


def test_a_reset_releases_the_driver_first_and_succeeds_when_every_check_passes() -> None:
    async def scenario(harness: Harness) -> None:
        ok, result = await harness.issue(CommandKind.RESET_GPU, gpus="GPU-a,GPU-b")
        assert ok, result
        assert result == "reset 2 GPUs: All done.; every check passes"

    harness = run_scenario(scenario)
    assert harness.effects.done == ["reset GPU-a,GPU-b"]
    assert harness.released == ["released"]


def test_a_reset_is_refused_while_processes_hold_a_gpu_and_names_them() -> None:
    async def scenario(harness: Harness) -> None:
        harness.effects.in_use_by = [
            Holder(pid=812, name="nv-hostengine"),
            Holder(pid=99, name="python"),
        ]
        ok, result = await harness.issue(CommandKind.RESET_GPU)
        assert not ok
        assert result == (
            "the GPUs are in use; to be stopped first: nv-hostengine (pid 812), python (pid 99)"
        )

    assert run_scenario(scenario).effects.done == []


def test_a_reset_fails_if_a_check_fails_afterwards() -> None:
    async def scenario(harness: Harness) -> None:
        gpus = harness.gpus
        assert gpus is not None
        harness.effects.on_reset = lambda _: gpus.xid(79, index=0)
        ok, result = await harness.issue(CommandKind.RESET_GPU)
        assert not ok
        assert "but afterwards" in result

    run_scenario(scenario)


@pytest.mark.parametrize("kind", [CommandKind.RESET_GPU, CommandKind.REBOOT])
def test_evidence_is_on_disk_before_the_machine_is_changed(kind: CommandKind) -> None:
    async def scenario(harness: Harness) -> None:
        harness.plane.fault = _no_evidence
        seen: list[bool] = []

        def look() -> None:
            seen.append(any("evidence" in name for name in harness.disk.files))

        harness.effects.on_reset = lambda _: look()
        harness.effects.on_reboot = look
        harness.plane.command(
            kind, name="c1", at=harness.clock.now(), parameters={"boot_id": harness.boot}
        )
        await harness.clock.sleep(20)
        assert seen == [True]

    run_scenario(scenario)


def _no_evidence(method: str) -> None:
    if method == "report_evidence":
        raise AssertionError("not expected")


def test_a_reboot_is_stored_before_it_begins_and_reported_by_the_next_boot() -> None:
    async def down(harness: Harness) -> None:
        noted: list[bool] = []
        harness.effects.on_reboot = lambda: noted.append(FILE in harness.disk.files)
        harness.plane.command(
            CommandKind.REBOOT, name="c1", at=harness.clock.now(), parameters={"boot_id": "boot-1"}
        )
        await harness.clock.sleep(20)
        assert noted == [True]
        assert harness.plane.finished == [], "it is not done before the machine is back"

    harness = run_scenario(down)

    async def up(harness: Harness) -> None:
        await harness.clock.sleep(20)
        assert harness.plane.finished == [
            ("c1", True, "rebooted: boot boot-1 is over, this is boot-2")
        ]

    harness.boot = "boot-2"
    run_scenario(up, harness)
    assert harness.effects.done == ["reboot"], "and never twice"


def test_a_reboot_that_does_not_begin_is_reported_as_failed() -> None:
    async def scenario(harness: Harness) -> None:
        harness.plane.command(
            CommandKind.REBOOT, name="c1", at=harness.clock.now(), parameters={"boot_id": "boot-1"}
        )
        await harness.clock.sleep(400)
        assert harness.plane.finished == [("c1", False, "the machine did not go down within 300 s")]

    run_scenario(scenario)


def test_an_application_is_restarted_by_its_units_or_its_named_processes() -> None:
    async def by_unit(harness: Harness) -> None:
        assert (await harness.issue(CommandKind.RESTART_APP))[0]

    units = Permissions(restart_app=True, units=("train.service",))
    assert run_scenario(by_unit, Harness(permissions=units)).effects.done == [
        "restart train.service"
    ]

    async def by_pid(harness: Harness) -> None:
        harness.effects.in_use_by = [Holder(pid=41, name="train"), Holder(pid=42, name="other")]
        ok, result = await harness.issue(CommandKind.RESTART_APP, pids="41,7")
        assert (ok, result) == (True, "ended train (pid 41); every check passes")
        ok, result = await harness.issue(CommandKind.RESTART_APP, name="c2", pids="7")
        assert (ok, result) == (False, "none of the processes in the command holds a GPU")

    assert run_scenario(by_pid).effects.done == ["stop 41"]

"""A machine that boots reports its steps: they extend the wait up to a limit, or name a failure."""

import asyncio
import re
import shutil
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_bringup_policy import a_machine
from test_joining import CLUSTER, LAUNCH, NODE
from tests.support.boot import Machine
from tests.support.local_api import LocalApi, build_local_api, call_app, serve_local_api

from navarch.app.bringup import install_by_command, render_user_data
from navarch.cli.main import navarch
from navarch.client.connect import connect_fleet
from navarch.core.access import Identity, acting_as
from navarch.core.boot_report import DETAIL_MAX, KEY, REPORTS_MAX, BootPhase, BootReport
from navarch.core.errors import NotFoundError, UnauthenticatedError
from navarch.core.fleet import Change
from navarch.core.ids import InstanceId, NodeId
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.node import Node, Phase
from navarch.core.ownership import join_token, with_machine_key
from navarch.core.records import evolve
from navarch.fleet.boot_times import AS_CONFIGURED, LONGEST
from navarch.fleet.bringup import REPEAT, reported
from navarch.fleet.instance_state import bought
from navarch.ports.agents import Registration
from navarch.service.boot_reports import BootReportService
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import a_pool

POOL = evolve(a_pool(), boot_deadline=timedelta(minutes=10))
STARTED = BootReport(node=NODE, phase=BootPhase.STARTED)
BROKEN = BootReport(node=NODE, phase=BootPhase.COMMAND_ENDED, command=2, exit_code=7)


def at(node: Node, minutes: float) -> datetime:
    return node.since + timedelta(minutes=minutes)


def after(node: Node, *steps: tuple[float, BootReport]) -> Node:
    """Return the node after these reports, each so many minutes into its boot."""
    for minutes, report in steps:
        change = reported(node, report, now=at(node, minutes))
        if change is not None:
            (node,) = change.nodes
    return node


def given_up_after(node: Node) -> timedelta:
    deadline = AS_CONFIGURED.deadline(POOL, node).at
    assert deadline is not None
    return deadline - node.since


def test_each_step_starts_the_wait_anew() -> None:
    node = a_machine()
    assert given_up_after(node) == timedelta(minutes=10)
    node = after(node, (8, STARTED))
    assert given_up_after(node) == timedelta(minutes=18)
    command = BootReport(node=NODE, phase=BootPhase.COMMAND_BEGUN, command=1)
    assert given_up_after(after(node, (17, command))) == timedelta(minutes=27)


def looping(node: Node, *, times: int, every_minutes: float) -> Node:
    for number in range(1, times + 1):
        phase = BootPhase.STARTED if number % 2 else BootPhase.INSTALLING
        node = after(node, (number * every_minutes, BootReport(node=NODE, phase=phase)))
    return node


def test_a_script_that_loops_is_given_up_after_the_longest_wait() -> None:
    node = looping(a_machine(), times=150, every_minutes=1)
    assert given_up_after(node) == LONGEST


def test_a_script_that_loops_does_not_fill_the_journal() -> None:
    node = looping(a_machine(), times=REPORTS_MAX + 50, every_minutes=0.1)
    assert node.launch is not None
    assert node.launch.progress is not None
    assert node.launch.progress.reports == REPORTS_MAX


def test_a_failure_is_no_progress_and_is_named_when_the_machine_is_given_up() -> None:
    node = after(a_machine(), (2, STARTED), (9, BROKEN))
    assert given_up_after(node) == timedelta(minutes=12)
    why = AS_CONFIGURED.missed(POOL, node, at(node, 12))
    assert why.startswith(
        "did not register within 12 min; setup command 2 ended with exit code 7; "
    )
    assert "the boot script has started" in why


def test_a_failure_without_any_step_before_is_named_too() -> None:
    node = after(a_machine(), (9, BROKEN))
    assert given_up_after(node) == timedelta(minutes=10)
    assert "exit code 7" in AS_CONFIGURED.awaited(POOL, node, at(node, 9))
    assert "last progress" not in AS_CONFIGURED.awaited(POOL, node, at(node, 9))


def test_a_script_that_begins_anew_is_no_longer_failed() -> None:
    node = after(a_machine(), (2, STARTED), (3, BROKEN), (5, STARTED))
    assert given_up_after(node) == timedelta(minutes=15)
    assert "exit code" not in AS_CONFIGURED.missed(POOL, node, at(node, 15))


def test_a_step_that_is_repeated_at_once_is_no_news() -> None:
    node = after(a_machine(), (1, STARTED))
    soon, later = (node.since + timedelta(minutes=1) + x for x in (REPEAT / 2, REPEAT))
    assert reported(node, STARTED, now=soon) is None
    assert reported(node, STARTED, now=later) is not None
    broken = after(node, (2, BROKEN))
    assert reported(broken, BROKEN, now=at(node, 9)) is None


def test_a_report_proves_that_the_machine_has_started() -> None:
    node = a_machine()
    assert node.launch is not None
    node = evolve(node, launch=evolve(node.launch, pending=True))
    assert "has not started" in AS_CONFIGURED.awaited(POOL, node, at(node, 1))
    node = after(node, (1, STARTED))
    assert "has not started" not in AS_CONFIGURED.awaited(POOL, node, at(node, 1))
    assert given_up_after(node) == timedelta(minutes=11)


@pytest.mark.parametrize("phase", [Phase.REQUESTED, Phase.READY, Phase.TERMINATING, Phase.GONE])
def test_a_node_that_does_not_boot_takes_no_report(phase: Phase) -> None:
    node = evolve(a_machine(), phase=phase)
    assert reported(node, STARTED, now=at(node, 1)) is None


def test_a_registered_node_takes_no_report() -> None:
    node = a_machine()
    node = evolve(node, registered_at=at(node, 1))
    assert reported(node, STARTED, now=at(node, 2)) is None


def test_what_a_machine_writes_is_one_bounded_line_without_control_characters() -> None:
    report = BootReport(
        node=NODE, phase=BootPhase.FAILED, detail="\x1b[2J\x00E: no\r\nspace \u202e" + "x" * 9999
    )
    assert report.step.isprintable()
    assert report.step.startswith("the boot script has failed: [2J E: no space x")
    assert len(report.step) <= DETAIL_MAX + 40


def run(story: Callable[[MemoryStore, LocalApi], Awaitable[None]], *, served: bool = False) -> None:
    async def main() -> None:
        store = MemoryStore(CLUSTER)
        pool = evolve(POOL, next_index=1)
        await store.commit(Change(pools=[pool], nodes=[a_machine()]), based_on=0)
        local = build_local_api(store=store)
        async with serve_local_api(local) if served else nullcontext():
            await story(store, local)

    asyncio.run(main())


def a_script(url: str, *commands: str, install: str = "true") -> str:
    environment = {
        "NAVARCH_SERVER": url,
        "NAVARCH_NODE_ID": NODE,
        "NAVARCH_JOIN_TOKEN": join_token(CLUSTER, NODE, LAUNCH),
    }
    return render_user_data(environment, install_by_command(install), commands=commands)


INSTALL = "mkdir -p /opt/navarch/bin && cp /bin/true /opt/navarch/bin/navarch"


async def steps(store: MemoryStore) -> list[str]:
    events = await store.events()
    kinds = ("node.setting_up", "node.setup_failed")
    return [x.event.reason for x in events if x.event.kind in kinds]


def without(tool: str, machine: Machine) -> None:
    """Hide a tool of the system from the scripts of a machine."""
    for folder in ("/usr/bin", "/bin", "/usr/sbin", "/sbin"):
        for file in Path(folder).iterdir():
            link = machine.tools / file.name
            if file.name != tool and not link.is_symlink() and not link.exists():
                link.symlink_to(file)
    machine.path = str(machine.tools)


@pytest.mark.parametrize("client", ["curl", "python3"])
def test_a_boot_script_reports_its_steps(client: str, tmp_path: Path) -> None:
    if shutil.which("curl") is None and client == "curl":
        pytest.skip("curl is not installed")

    async def story(store: MemoryStore, local: LocalApi) -> None:
        machine = Machine(tmp_path)
        if client == "python3":
            without("curl", machine)
        script = a_script(local.http_url, "true", "echo fine", install=INSTALL)
        ran = await asyncio.to_thread(machine.boot, script)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert await steps(store) == [
            "the boot script has started",
            "the boot script runs setup command 1",
            "setup command 1 has ended",
            "the boot script runs setup command 2",
            "setup command 2 has ended",
            "the boot script installs the agent",
            "the agent is installed",
            "the boot script has started the agent",
        ]
        api = connect_fleet(local.http_url)
        boot = (await api.get_node(NODE)).node.boot
        assert boot is not None
        assert boot.step == "the boot script has started the agent"
        await api.close()
        shown = await asyncio.to_thread(type_in, "get", NODE, "--server", local.http_url)
        assert re.search(r"Boot: +the boot script has started the agent \(\d+s", shown), shown

    run(story, served=True)


def type_in(*words: str) -> str:
    result = CliRunner().invoke(navarch, list(words))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_setup_command_that_fails_is_reported_with_its_exit_code(tmp_path: Path) -> None:
    async def story(store: MemoryStore, local: LocalApi) -> None:
        script = a_script(local.http_url, "true", "echo a-password; exit 9")
        ran = await asyncio.to_thread(Machine(tmp_path).boot, script)
        assert ran.returncode == 1
        assert (await steps(store))[-1] == "setup command 2 ended with exit code 9"
        (node,) = store.fleet().nodes.values()
        assert node.launch is not None
        assert node.launch.progress is not None
        assert node.launch.progress.failed == "setup command 2 ended with exit code 9"
        assert "a-password" not in repr(store.fleet())

    run(story, served=True)


def test_an_agent_that_is_not_installed_is_reported_with_the_reason(tmp_path: Path) -> None:
    async def story(store: MemoryStore, local: LocalApi) -> None:
        ran = await asyncio.to_thread(Machine(tmp_path).boot, a_script(local.http_url))
        assert ran.returncode == 1
        assert "is missing after the install command" in (await steps(store))[-1]

    run(story, served=True)


def test_a_script_does_the_same_when_no_report_arrives(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    ran = machine.boot(a_script("http://127.0.0.1:1", "true", install=INSTALL))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "systemctl enable --now" in machine.calls.read_text()


def test_a_machine_whose_agent_has_joined_reports_nothing(tmp_path: Path) -> None:
    async def story(store: MemoryStore, local: LocalApi) -> None:
        key = tmp_path / "machine-key"
        key.write_text("key")
        script = a_script(local.http_url, install=INSTALL)
        assert "/var/lib/navarch-agent/machine-key" in script
        script = script.replace("/var/lib/navarch-agent/machine-key", str(key))
        assert (await asyncio.to_thread(Machine(tmp_path).boot, script)).returncode == 0
        assert await steps(store) == []

    run(story, served=True)


def test_the_credential_is_in_no_argument_of_a_program(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.stand_in("curl")
    assert machine.boot(a_script("http://127.0.0.1:1", install=INSTALL)).returncode == 0
    calls = machine.calls.read_text()
    assert "curl" in calls
    assert join_token(CLUSTER, NODE, LAUNCH) not in calls


def test_the_credential_of_a_script_ends_when_the_agent_joins() -> None:
    async def story(_store: MemoryStore, local: LocalApi) -> None:
        plain = join_token(CLUSTER, NODE, LAUNCH)
        boot = local.joins.recognize(with_machine_key(plain, KEY))
        agent = local.joins.recognize(with_machine_key(plain, "key-of-the-agent"))
        with acting_as(Identity(subject="join-token", joiner=agent)):
            await local.joins.bind(agent)
            await local.agents.register(Registration(node=NODE, token=LAUNCH))
        assert boot.node == NODE
        with pytest.raises(UnauthenticatedError, match="another machine"):
            local.joins.recognize(with_machine_key(plain, KEY))

    run(story)


def test_a_join_token_reports_the_boot_of_its_own_node_only() -> None:
    async def story(store: MemoryStore, local: LocalApi) -> None:
        shown = with_machine_key(join_token(CLUSTER, NODE, LAUNCH), KEY)

        async def post(shown: str, body: str) -> int:
            answer = await call_app(
                local.app,
                "POST",
                "/v1/agent/boot",
                body.encode(),
                content_type="application/json",
                authorization=f"Bearer {shown}",
            )
            return answer.status

        assert await post(shown, '{"node": "training-1", "phase": "started"}') == 403
        assert await post("nvj1.forged", '{"node": "training-0", "phase": "started"}') == 401
        assert await post(shown, '{"node": "training-0"}') == 400
        assert await steps(store) == []
        assert await post(shown, '{"node": "training-0", "phase": "started"}') == 204
        assert await steps(store) == ["the boot script has started"]

    run(story)


def test_reports_of_one_machine_are_paced_and_of_an_unknown_one_refused() -> None:
    async def story() -> None:
        clock = SimClock()
        store = MemoryStore(CLUSTER)
        pool = evolve(POOL, next_index=1)
        await store.commit(Change(pools=[pool], nodes=[a_machine()]), based_on=0)
        service = BootReportService(clock, store)
        began = clock.monotonic()
        for number in range(90):
            phase = BootPhase.STARTED if number % 2 else BootPhase.INSTALLING
            await service.report_boot(BootReport(node=NODE, phase=phase))
        assert clock.monotonic() - began == pytest.approx(60, abs=2)
        with pytest.raises(NotFoundError):
            await service.report_boot(evolve(STARTED, node=NodeId("stranger")))

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(story())


def test_a_late_listing_does_not_hide_what_the_machine_reported() -> None:
    node = a_machine()
    assert node.launch is not None
    node = evolve(node, launch=evolve(node.launch, pending=True))
    node = after(node, (1, STARTED), (2, BROKEN))
    assert node.launch is not None
    running = Instance(
        id=InstanceId("i-1"),
        provider=node.launch.offering.provider,
        status=InstanceStatus.RUNNING,
        instance_type=node.launch.offering.instance_type,
    )
    seen = bought(node.launch, running, now=at(node, 3))
    assert not seen.pending
    assert seen.progress == node.launch.progress

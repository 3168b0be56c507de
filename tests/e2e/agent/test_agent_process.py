"""The real agent in its own process, killed without warning, over a real network."""

import asyncio
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from tests.support.fake_control_plane import FakeControlPlane, FakeControlPlaneServer
from tests.support.metadata_service import MetadataService, metadata_service

from navarch.agent.spool.disk import FolderDisk
from navarch.agent.spool.outbox import ReportBuffer
from navarch.clock import SystemClock
from navarch.core.health import Health
from navarch.core.recovery import CommandKind


def a_plane() -> FakeControlPlane:
    return FakeControlPlane(
        heartbeat_interval=timedelta(seconds=0.1), health_check_interval=timedelta(seconds=0.1)
    )


@asynccontextmanager
async def an_agent(
    server: str, state: Path, *flags: str, env: dict[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "navarch.cli.agent", "--server", server, "--node-id", "gpu-7"),
        *("--state-dir", str(state), *flags),
        env={**os.environ, "NAVARCH_AUTH_TOKEN": "secret", **(env or {})},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def until(holds: Callable[[], bool], within_s: float = 20.0) -> None:
    async with asyncio.timeout(within_s):
        while not holds():
            await SystemClock().sleep(0.01)


async def until_logged(process: asyncio.subprocess.Process, event: bytes) -> None:
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while event not in (line := await process.stderr.readline()):
            assert line, "it has ended"


def test_an_agent_killed_repeatedly_loses_and_duplicates_no_report(tmp_path: Path) -> None:
    chance = random.Random(7)

    async def main() -> None:
        plane = a_plane()
        server = FakeControlPlaneServer(plane, token="secret")
        await server.start()
        port = server.port
        url = server.url
        for attempt in range(12):
            if attempt in (3, 7, 9):
                await server.stop()
            if attempt in (5, 8, 10):
                await server.start(port)
            sent, more = len(plane.reports), chance.randrange(5)
            async with an_agent(url, tmp_path, "--simulated-gpus", "2") as process:
                if attempt in (3, 4, 7, 9):
                    await until_logged(process, b"agent.unreachable")
                else:
                    await until(lambda: len(plane.reports) >= sent + more)  # noqa: B023
                process.send_signal(signal.SIGKILL)
        sent = len(plane.reports)
        async with an_agent(url, tmp_path, "--simulated-gpus", "2"):
            await until(lambda: len(plane.reports) > sent + 3)
        await server.stop()

        numbers = [report.number for report in plane.reports]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len({report.stream for report in plane.reports}) == 1
        times = [report.at for report in plane.reports if report.at is not None]
        assert times == sorted(times)

    asyncio.run(main())


def test_reports_stored_while_the_control_plane_was_down_arrive_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        plane = a_plane()
        server = FakeControlPlaneServer(plane, token="secret")
        await server.start()
        port, url = server.port, server.url
        async with an_agent(url, tmp_path, "--simulated-gpus", "2"):
            await until(lambda: len(plane.reports) >= 2)
            await server.stop()
            before = len(plane.reports)
            await asyncio.sleep(1.0)
            await server.start(port)
            await until(lambda: len(plane.reports) > before + 5)
            await until(lambda: bool(plane.samples))
        await server.stop()
        numbers = [report.number for report in plane.reports]
        assert numbers == list(range(1, len(numbers) + 1))

    asyncio.run(main())


def test_sigterm_stops_it_cleanly_after_a_full_upload(tmp_path: Path) -> None:
    async def main() -> None:
        plane = a_plane()
        server = FakeControlPlaneServer(plane, token="secret")
        await server.start()
        async with an_agent(server.url, tmp_path, "--simulated-gpus", "8") as process:
            await until(lambda: len(plane.reports) >= 2)
            process.send_signal(signal.SIGTERM)
            _, log = await process.communicate()
            assert process.returncode == 0
        await server.stop()
        assert len(plane.registrations[0].inventory.gpus) == 8
        lines = [msgspec.json.decode(line) for line in log.splitlines()]
        assert [line["event"] for line in lines][-1] == "agent.stopped"
        state = ReportBuffer(FolderDisk(tmp_path), new_stream="x")
        assert state.oldest_report(datetime.now(UTC)) is None

    asyncio.run(main())


def test_a_machine_without_a_driver_runs_and_reports_it(tmp_path: Path) -> None:
    async def main() -> None:
        plane = a_plane()
        server = FakeControlPlaneServer(plane, token="secret")
        await server.start()
        missing = {"NAVARCH_NVML_LIBRARY": str(tmp_path / "libnvidia-ml.so.1")}
        async with an_agent(server.url, tmp_path / "state", env=missing):
            await until(lambda: bool(plane.reports and plane.beats))
        await server.stop()
        assert plane.registrations[0].inventory.gpus == ()
        boot = next(result for result in plane.results() if result.check == "boot")
        assert boot.health is Health.UNHEALTHY
        assert "no NVIDIA driver" in boot.reason

    asyncio.run(main())


@pytest.mark.long
def test_a_hung_driver_blocks_neither_heartbeats_nor_shutdown(
    tmp_path: Path,
) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to make a stand-in with")
    library, source = tmp_path / "libnvidia-ml.so.1", tmp_path / "hang.c"
    source.write_text(
        "#include <unistd.h>\n"
        "int nvmlInit_v2(void) { for (;;) pause(); }\n"
        'const char *nvmlErrorString(int code) { return "?"; }\n'
    )
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)

    async def main() -> None:
        plane = a_plane()
        server = FakeControlPlaneServer(plane, token="secret")
        await server.start()
        env = {"NAVARCH_NVML_LIBRARY": str(library)}
        async with an_agent(server.url, tmp_path / "state", env=env) as process:
            await until(lambda: len(plane.beats) > 5, within_s=60.0)
            await until(lambda: bool(plane.reports), within_s=60.0)
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(15.0):
                await process.communicate()
            assert process.returncode == 0
        await server.stop()
        boot = next(result for result in plane.results() if result.check == "boot")
        assert boot.health is Health.UNHEALTHY

    asyncio.run(main())


def test_terminate_stops_the_process_and_its_result_is_reported(tmp_path: Path) -> None:
    async def main() -> None:
        plane = a_plane()
        plane.command(CommandKind.TERMINATE, name="c1", at=datetime.now(UTC))
        server = FakeControlPlaneServer(plane, token="secret")
        await server.start()
        async with an_agent(server.url, tmp_path, "--simulated-gpus", "1") as process:
            assert await process.wait() == 0
        await server.stop()
        assert [(name, ok) for name, ok, _ in plane.finished] == [("c1", True)]

    asyncio.run(main())


def test_the_agent_needs_nothing_but_the_base_install() -> None:
    script = "import navarch.cli.agent, sys; print(*{name.split('.')[0] for name in sys.modules})"
    out = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    ).stdout
    loaded = set(out.split())

    heavy = {"numpy", "pydantic", "grpc", "google", "httpx", "yaml", "sqlite3"}
    assert not loaded & heavy


WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from navarch.agent.spool.outbox import ReportBuffer
from navarch.agent.spool.disk import FolderDisk
from navarch.core.health import CheckResult, Health

buffer = ReportBuffer(
    FolderDisk(Path(sys.argv[1])), new_stream="s", bytes_max=1 << 22, segment_bytes=4096
)
while True:
    report = buffer.add_report(
        [CheckResult(check="gpu", health=Health.HEALTHY, reason="x" * 300)], at=datetime.now(UTC)
    )
    print(report.number, flush=True)
    if report.number % 3 == 0:
        buffer.reports.deliver(report.number - 10)
"""


def test_a_writer_killed_at_a_random_moment_keeps_all_confirmed_reports(tmp_path: Path) -> None:
    chance = random.Random(11)
    confirmed = 0
    for _ in range(12):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(chance.randrange(1, 60))]
        process.kill()
        lines += process.stdout.readlines()
        process.wait()
        process.stdout.close()
        before = confirmed
        confirmed = max(int(line) for line in lines if re.fullmatch(rb"\d+\n", line))
        assert confirmed > before

        disk = FolderDisk(tmp_path)
        buffer = ReportBuffer(disk, new_stream="t", bytes_max=1 << 22, segment_bytes=4096)
        assert buffer.stream == "s"
        numbers = []
        while report := buffer.oldest_report(datetime.now(UTC)):
            numbers.append(report.number)
            buffer.reports.deliver(report.number)
        # At least what it confirmed; at most one more that it was about to confirm.
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert numbers[0] <= max(confirmed - 9, 1)
        assert numbers[-1] in (confirmed, confirmed + 1)
        confirmed = numbers[-1]
        disk.close()


def test_a_notice_of_the_metadata_service_reaches_the_control_plane(tmp_path: Path) -> None:
    async def main(service: MetadataService) -> None:
        plane = a_plane()
        server = FakeControlPlaneServer(plane, token="secret")
        await server.start()
        flags = ("--metadata", "aws", "--metadata-url", service.url, "--simulated-gpus", "2")

        def notice_results() -> list[tuple[Health, str]]:
            return [(x.health, x.reason) for x in plane.results() if x.check == "spot_notice"]

        async with an_agent(server.url, tmp_path, *flags) as process:
            await until(lambda: notice_results() == [(Health.HEALTHY, "")])
            service.say("spot/instance-action", {"action": "terminate", "time": "noon"})
            await until(lambda: (Health.DEGRADED, "terminate at noon") in notice_results())
            # A metadata service that stops responding does not delay shutdown.
            service.hangs = True
            process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(process.communicate(), 20)
            assert process.returncode == 0
        await server.stop()

    with metadata_service() as service:
        asyncio.run(main(service))

"""Run scenarios in real time against a running control plane."""

import asyncio
import contextlib
import ctypes
import resource
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from navarch.cli.environment import Target
from navarch.cli.errors import CommandError
from navarch.cli.render.sim import nodes_of
from navarch.cli.session import Session
from navarch.cli.sim_run import progress_line, report_outcome
from navarch.core.duration import render_duration
from navarch.core.errors import NavarchError
from navarch.sim.runner.outcome import Outcome
from navarch.sim.runner.real_time import check_playable, perform
from navarch.sim.scenario.loading import load_scenario
from navarch.sim.scenario.scenario import Scenario

START_S = 30.0
SPARE_FILES = 200

PR_SET_PDEATHSIG = 1


def run_in_real_time(
    session: Session,
    path: Path,
    *,
    server: str | None,
    seed: int | None,
    out: Path | None,
    html: Path | None,
    json: bool,
) -> int:
    """Run one scenario over the network; return the exit code."""
    scenario = load_scenario(path)
    check_playable(scenario)
    _raise_file_limit(nodes_of(scenario))

    async def main() -> Outcome:
        async with _server(session, scenario, server) as url:
            target = Target(url=url, token=session.token)
            async with session.environment.connect(target) as api:
                with progress_line(session, scenario.name) as update:
                    return await perform(
                        scenario,
                        clock=session.clock,
                        server=url,
                        token=session.token,
                        api=api,
                        seed=seed,
                        progress=update,
                    )

    outcome = session.environment.run(main())
    return report_outcome(session, scenario, outcome, out=out, html=html, json=json)


def _raise_file_limit(agents: int) -> None:
    """Raise the limit on open files to what `agents` connections need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = agents + SPARE_FILES
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise CommandError(
            f"{agents} agents need {wanted} open files, but the limit is {hard}; "
            "raise it with: ulimit -Hn"
        )
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@contextlib.asynccontextmanager
async def _server(session: Session, scenario: Scenario, url: str | None) -> AsyncIterator[str]:
    """Yield `url`, or the URL of a temporary server."""
    if url is not None:
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="navarch-sim-") as folder:
        config = Path(folder) / "navarch.yaml"
        config.write_text(_config(scenario), encoding="utf-8")
        port = _free_port()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "navarch.cli", "serve", "--config", str(config)),
            *("--data-dir", folder, "--address", f"127.0.0.1:{port}"),
            *("--grpc-address", f"127.0.0.1:{_free_port()}"),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            preexec_fn=_end_with_parent,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            await _until_up(session, url, process)
            yield url
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()


def _end_with_parent() -> None:
    """Terminate the server when this process ends, even if killed (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _config(scenario: Scenario) -> str:
    timing = scenario.timing.timing
    return (
        "server:\n"
        f"  heartbeat_interval: {render_duration(timing.heartbeat_interval)}\n"
        f"  heartbeat_timeout: {render_duration(timing.silence)}\n"
        f"  health_check_interval: {render_duration(timing.health_check_interval)}\n"
        # A configuration needs a pool; this one never launches anything.
        "providers: {none: {type: fake}}\n"
        "pools: {none: {provider: none, instance_type: h100-8x, max_nodes: 1}}\n"
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _until_up(session: Session, url: str, process: asyncio.subprocess.Process) -> None:
    deadline = session.clock.monotonic() + START_S
    while True:
        if process.returncode is not None:
            raise CommandError("the control plane did not start; try: navarch serve")
        try:
            async with session.environment.connect(Target(url=url, token=session.token)) as api:
                await api.status()
                return
        except (NavarchError, OSError) as error:
            if session.clock.monotonic() > deadline:
                raise CommandError(f"the control plane does not respond: {error}") from error
        await session.clock.sleep(0.2)

"""A temporary control plane for a scenario in real time."""

import asyncio
import contextlib
import ctypes
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from navarch.cli.environment import Target
from navarch.cli.errors import CommandError
from navarch.cli.session import Session
from navarch.core.duration import render_duration
from navarch.core.errors import NavarchError
from navarch.ports.clock import Clock
from navarch.sim.scenario.scenario import Scenario

START_S = 300.0
"""The server starts within seconds; on a busy machine, within minutes."""
LOOK_S = 0.2

PR_SET_PDEATHSIG = 1


@contextlib.asynccontextmanager
async def temporary_server(session: Session, scenario: Scenario) -> AsyncIterator[str]:
    """Start a control plane with this scenario's timing, and yield its URL."""
    with tempfile.TemporaryDirectory(prefix="navarch-sim-") as folder:
        config, output = Path(folder) / "navarch.yaml", Path(folder) / "serve.log"
        config.write_text(_config(scenario), encoding="utf-8")
        port = _free_port()
        with output.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "navarch.cli", "serve", "--config", str(config)),
                *("--data-dir", folder, "--address", f"127.0.0.1:{port}"),
                *("--grpc-address", f"127.0.0.1:{_free_port()}"),
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,
            )
        target = Target(url=f"http://127.0.0.1:{port}", token=session.token)

        async def ask() -> None:
            async with session.environment.connect(target) as api:
                await api.status()

        def end() -> str | None:
            ended = process.returncode is not None
            return output.read_text("utf-8", errors="replace") if ended else None

        try:
            await until_up(ask, end, session.clock)
            yield target.url
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()


async def until_up(
    ask: Callable[[], Awaitable[None]], end: Callable[[], str | None], clock: Clock
) -> None:
    """Return once the server answers; `end` returns the output of a server that has ended."""
    deadline = clock.monotonic() + START_S
    while True:
        output = end()
        if output is not None:
            raise CommandError(f"the control plane did not start: {output[-1000:]}")
        try:
            await ask()
        except (NavarchError, OSError) as error:
            if clock.monotonic() > deadline:
                raise CommandError(f"the control plane does not respond: {error}") from error
        else:
            return
        await clock.sleep(LOOK_S)


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

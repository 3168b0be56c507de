"""A real `navarch serve` in a child process, and how to talk to it."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import SystemRandom
from typing import TypeVar

from navarch.client.connect import FleetClient, connect_fleet
from navarch.core.errors import UnreachableError

T = TypeVar("T")

CONFIG = """
server:
  heartbeat_interval: 1s
  health_check_interval: 1s
providers:
  fake: {type: fake, boot_min: 100ms, boot_max: 500ms, bad_boot_share: BAD}
pools:
  training: {provider: fake, instance_type: h100-8x, min_nodes: 2, max_nodes: 4}
"""


def free_port() -> int:
    """Return a port that no connection takes before a server listens on it.

    Ports from 32768 on can be taken by any outgoing connection of this machine.
    """
    while True:
        port = SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class FleetProcess:
    """A server process that tests start, kill and query."""

    def __init__(
        self,
        folder: Path,
        *,
        token: str | None = None,
        bad_boots: float = 0.0,
        config: str | None = CONFIG,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`config` is the text of the file, None to serve without one."""
        self.folder = folder
        self.data_dir = folder / "state"
        self.port, self.grpc_port = free_port(), free_port()
        self.token = token
        self.config = folder / "navarch.yaml"
        if config is not None:
            self.config.write_text(config.replace("BAD", str(bad_boots)))
        self.environ = dict(environ or {})
        self.log = folder / "serve.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> float:
        """Start the server; return how long it took to answer."""
        environment = self._environment()
        file = ["--config", str(self.config)] if self.config.exists() else []
        began = time.monotonic()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.command(), *file, "--data-dir", str(self.data_dir)],
                stdout=log,
                stderr=log,
                env=environment,
            )
        while not self.answers():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() - began < 60, self.log.read_text()
            time.sleep(0.02)
        return time.monotonic() - began

    def command(self) -> list[str]:
        doors = [f"--address=127.0.0.1:{self.port}", f"--grpc-address=127.0.0.1:{self.grpc_port}"]
        return [sys.executable, "-m", "navarch.cli", "serve", *doors]

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(timeout=30)

    def ask(self, request: Callable[[FleetClient], Awaitable[T]], *, timeout_s: float = 10.0) -> T:
        async def main() -> T:
            client = connect_fleet(self.url, token=self.token, timeout_s=timeout_s)
            try:
                return await request(client)
            finally:
                await client.close()

        return asyncio.run(main())

    def until(self, holds: Callable[[], bool], *, within_s: float = 60.0) -> None:
        deadline = time.monotonic() + within_s
        while True:
            try:
                if holds():
                    return
            except UnreachableError:
                pass
            assert time.monotonic() < deadline, self.log.read_text()[-4000:]
            time.sleep(0.05)

    def navarch(self, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "navarch.cli", "-s", self.url, *words],
            input=typed,
            capture_output=True,
            text=True,
            check=False,
            env=self._environment(),
            timeout=120,
        )

    def _environment(self) -> dict[str, str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("NAVARCH_")}
        if self.token:
            environment["NAVARCH_AUTH_TOKEN"] = self.token
        return environment | self.environ

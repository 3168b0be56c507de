"""The replicas: processes that are started again when they end, each behind links of its own."""

import asyncio
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.fleet_process import free_port

from bench.replicas_network import Link
from bench.replicas_network import Path as LinkPath

POOLS = ("training", "serving")
PARKED = "parked"
"""A pool without nodes, in which jobs wait for ever: each is a record that must not be lost."""

CONFIG = """
server:
  heartbeat_interval: 1s
  heartbeat_timeout: 12s
  health_check_interval: 2s
providers:
  work:
    type: aws
    region: us-east-1
    regions: [us-east-1]
    endpoint: "{cloud}"
    machines_per_call: 1
defaults:
  health: {{silent_after: 15s}}
pools:
"""
POOL = """
  {name}:
    provider: work
    instance_type: h100-8x
    region: us-east-1
    max_nodes: 8
    agent: image
    drain_timeout: 1s
"""

FENCED = "this server stops"
"""What a server writes when it ends because it leads no longer."""
AWAY = "navarch serve: cannot "
"""What a server writes when it ends because its database is away while it begins to lead."""
RESTART_S = 0.3
READY_S = 2.0
PR_SET_PDEATHSIG = 1


class Replica:
    """One `navarch serve --standby`, which its service manager keeps alive."""

    def __init__(self, number: int, folder: Path, cloud: str, databases: Sequence[int]) -> None:
        self.number = number
        self.folder = folder / f"replica-{number}"
        self.folder.mkdir()
        self._config = self.folder / "navarch.yaml"
        pools = [POOL.format(name=name) for name in (*POOLS, PARKED)]
        self._config.write_text(CONFIG.format(cloud=cloud) + "".join(pools))
        self._port = free_port()
        self.clients = Link(self._port)
        self.operator = Link(self._port)
        """For one client that sends one request at a time, so that each byte is its own."""
        self.peers = Link(self._port)
        """For the other replicas."""
        self.databases = [Link(port) for port in databases]
        self.process: asyncio.subprocess.Process | None = None
        self.starts = 0
        self.ended_by_itself: list[str] = []
        """The last lines of processes that ended for no good reason."""
        self.ends_without_database = 0
        self.note: Callable[[str], None] = lambda _: None
        """Receives when its process ended and was started again."""
        self._down_for_s: float | None = None
        self._supervisor: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The name by which results mention it."""
        return f"replica-{self.number}"

    @property
    def url(self) -> str:
        """The address for clients, behind a link."""
        return f"http://127.0.0.1:{self.clients.port}"

    @property
    def log(self) -> Path:
        """What its present process writes."""
        return self.folder / f"serve-{self.starts}.log"

    async def start(self) -> None:
        """Open the links, and keep a process running from now on."""
        for link in self._links:
            await link.open()
        self._supervisor = asyncio.get_running_loop().create_task(self._supervise())

    async def close(self) -> None:
        """End the process for good."""
        if self._supervisor is not None:
            self._supervisor.cancel()
            with suppress(asyncio.CancelledError):
                await self._supervisor
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        for link in self._links:
            await link.close()

    def send(self, number: int, *, down_for_s: float | None = None) -> bool:
        """Send a signal to the process; return whether there is one.

        If the signal ends it, it is started again after `down_for_s`.
        """
        if self.process is None or self.process.returncode is not None:
            return False
        if down_for_s is not None:
            self._down_for_s = down_for_s
        self.process.send_signal(number)
        return True

    async def ready(self) -> bool:
        """Return whether its process is ready, asked past the links."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(READY_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                try:
                    writer.write(b"GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n")
                    return b" 200 " in await reader.readline()
                finally:
                    writer.close()
        return False

    def reaches(self, ports: set[int]) -> bool:
        """Return whether one of these client ports of a database belongs to this replica."""
        return any(link.local_ports & ports for link in self.databases)

    @property
    def _links(self) -> list[Link]:
        return [self.clients, self.operator, self.peers, *self.databases]

    def link_clients(self, path: LinkPath) -> None:
        """Cut, freeze or mend the way of clients and agents to this replica."""
        self.clients.become(path)
        self.operator.become(path)

    def link_databases(self, path: LinkPath) -> None:
        """Cut, freeze or mend the way to the databases."""
        for link in self.databases:
            link.become(path)

    async def _supervise(self) -> None:
        while True:
            self.starts += 1
            with self.log.open("ab") as log:
                self.process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "navarch.cli", "serve", "--standby"),
                    *("--address", f"127.0.0.1:{self._port}"),
                    *("--grpc-address", f"127.0.0.1:{free_port()}"),
                    *("--advertise", f"127.0.0.1:{self.peers.port}"),
                    *("--config", str(self._config), "--data-dir", str(self.folder / "state")),
                    stdout=log,
                    stderr=log,
                    env=self._environment(),
                    preexec_fn=_end_with_parent,
                )
            began = time.monotonic()
            self.note(f"{self.name} starts")
            status = await self.process.wait()
            self.note(f"{self.name} has ended, exit status {status}")
            pause, self._down_for_s = self._down_for_s, None
            if pause is None:
                self._judge_end(status)
            lived_s = time.monotonic() - began
            await asyncio.sleep(RESTART_S if pause is None else max(pause, RESTART_S - lived_s))

    def _judge_end(self, status: int) -> None:
        last = self.log.read_text(errors="replace").rstrip().rpartition("\n")[2]
        if status == 1 and last.startswith(AWAY):
            self.ends_without_database += 1
        elif status != 1 or not last.endswith(FENCED):
            self.ended_by_itself.append(f"{self.name}, exit status {status}: {last}")

    def _environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("NAVARCH_", "AWS_"))}
        hosts = ",".join(f"127.0.0.1:{link.port}" for link in self.databases)
        return {
            **kept,
            "NAVARCH_STORE": f"postgresql://navarch@{hosts}/postgres"
            "?target_session_attrs=read-write&sslmode=disable&connect_timeout=2",
            # The cloud tells callers apart by it.
            "AWS_ACCESS_KEY_ID": f"{self.name}-{self.starts}",
            "AWS_SECRET_ACCESS_KEY": "test",
        }


def _end_with_parent() -> None:
    """End the process when the benchmark ends, even if that is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

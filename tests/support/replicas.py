"""Several `navarch serve` on one PostgreSQL database."""

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

from tests.support.fleet_process import CONFIG, FleetProcess

LEADS = "is serving and leads"
FOLLOWS = "is a replica of"


class ReplicaSite:
    """Replicas with the same database and the same simulated cloud, each with its own ports."""

    def __init__(self, folder: Path, url: str, *, token: str | None, config: str) -> None:
        self.folder = folder
        self.store = url
        self.token = token
        self.config = config
        self.servers: list[FleetProcess] = []

    def start(self, *options: str) -> FleetProcess:
        """Start a replica, and return when it leads or follows."""
        return self.wait(self.begin(*options))

    def begin(self, *options: str) -> FleetProcess:
        """Start a replica."""
        server = FleetProcess(
            self.folder,
            config=self.config,
            token=self.token,
            environ={"NAVARCH_STORE": self.store},
        )
        server.log = self.folder / f"serve-{len(self.servers)}.log"
        self.servers.append(server)
        with server.log.open("ab") as log:
            server.process = subprocess.Popen(
                [
                    *server.command(),
                    *("--config", str(server.config), "--data-dir", str(server.data_dir)),
                    *options,
                ],
                stdout=log,
                stderr=log,
                env=server._environment(),
            )
        return server

    def wait(self, server: FleetProcess) -> FleetProcess:
        """Return when a replica leads or follows."""
        deadline = time.monotonic() + 60
        assert server.process is not None
        while not (LEADS in server.log.read_text() or FOLLOWS in server.log.read_text()):
            assert server.process.poll() is None, server.log.read_text()
            assert time.monotonic() < deadline, server.log.read_text()
            time.sleep(0.02)
        return server

    def end(self) -> None:
        """End every process that still runs."""
        for server in self.servers:
            if server.process is not None and server.process.poll() is None:
                server.process.kill()
                server.process.wait()

    def leader(self, among: Sequence[FleetProcess], *, within_s: float = 30.0) -> FleetProcess:
        """Return the replica that leads, once one of these does."""
        deadline = time.monotonic() + within_s
        while True:
            for server in among:
                if LEADS in server.log.read_text():
                    return server
            assert time.monotonic() < deadline, [x.log.read_text()[-2000:] for x in among]
            time.sleep(0.02)


@contextmanager
def replica_site(
    folder: Path, url: str, *, token: str | None = None, config: str = CONFIG
) -> Iterator[ReplicaSite]:
    """Run replicas until the block ends."""
    with ExitStack() as stack:
        site = ReplicaSite(folder, url, token=token, config=config)
        stack.callback(site.end)
        yield site


def is_ready(server: FleetProcess) -> bool:
    """Return whether a load balancer would send requests to a replica."""
    try:
        with urlopen(f"{server.url}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False

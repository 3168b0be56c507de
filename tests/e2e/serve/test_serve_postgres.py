"""Servers on one PostgreSQL database: one leads, the others follow and take over."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.support.ec2_server import Ec2Server
from tests.support.fleet_process import CONFIG, FleetProcess
from tests.support.postgres_proxy import CuttingProxy
from tests.support.postgres_server import PostgresServer, missing_postgres, postgres_server

from navarch.app.fake_list import MachineList
from navarch.core.errors import NavarchError
from navarch.core.ids import PoolName
from navarch.core.node import NodeStatus
from navarch.ports.api import NodeView, Query

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(missing_postgres() is not None, reason=missing_postgres() or ""),
]

TRAINING = PoolName("training")
TAKE_OVER_S = 20.0
"""Below five seconds where the processes have a core each; tests share theirs with others."""
PASSWORD = "hunter2secret"

AT_EC2 = """
server: {{agent_index: true, external_address: "https://navarch.example.com"}}
providers:
  work:
    {{type: aws, region: us-east-1, regions: [us-east-1], endpoint: "{url}", machines_per_call: 1}}
pools:
  training:
    {{provider: work, instance_type: h100-8x, region: us-east-1, min_nodes: 2, max_nodes: 8}}
"""


@pytest.fixture
def database() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


class Site:
    """Servers with the same database and the same simulated cloud, each with ports of its own."""

    def __init__(self, folder: Path, database: PostgresServer, stack: ExitStack) -> None:
        self.config = CONFIG
        self._folder = folder
        self._stack = stack
        # The server accepts any password, and so shows that it stays secret.
        self.url = database.url.replace("navarch@", f"navarch:{PASSWORD}@")
        self.servers: list[FleetProcess] = []

    def server(self) -> FleetProcess:
        """Start a server; it leads if no other does."""
        server = FleetProcess(self._folder, config=self.config, environ={"NAVARCH_STORE": self.url})
        server.log = self._folder / f"serve-{len(self.servers)}.log"
        self.servers.append(server)
        with server.log.open("ab") as log:
            server.process = subprocess.Popen(
                [
                    *server.command(),
                    "--config",
                    str(server.config),
                    "--data-dir",
                    str(server.data_dir),
                ],
                stdout=log,
                stderr=log,
                env=server._environment(),
            )
        self._stack.callback(self._end, server)
        deadline = time.monotonic() + 60
        while not {"is a replica of", "is serving"} & set(_phrases(server)):
            assert server.process.poll() is None, server.log.read_text()
            assert time.monotonic() < deadline, server.log.read_text()
            time.sleep(0.02)
        return server

    def _end(self, server: FleetProcess) -> None:
        if server.process is not None and server.process.poll() is None:
            server.process.kill()
            server.process.wait()


def _phrases(server: FleetProcess) -> list[str]:
    text = server.log.read_text()
    return [each for each in ("is a replica of", "is serving") if each in text]


@pytest.fixture
def site(tmp_path: Path, database: PostgresServer) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(tmp_path, database, stack)


def ready_after(server: FleetProcess, began: float) -> float:
    """Return how long after `began` the server led and was ready."""
    while not (is_ready(server) and "is serving and leads" in server.log.read_text()):
        assert time.monotonic() < began + 60, server.log.read_text()[-4000:]
        time.sleep(0.02)
    return time.monotonic() - began


def is_ready(server: FleetProcess) -> bool:
    try:
        with urlopen(f"{server.url}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def active(server: FleetProcess) -> list[NodeView]:
    query = Query(status=NodeStatus.ACTIVE, pool=TRAINING)
    return list(server.ask(lambda api: api.list_nodes(query)).items)


def scale(server: FleetProcess, size: int) -> None:
    server.ask(lambda api: api.scale(TRAINING, size, reason="more work"))


def bought(server: FleetProcess) -> list[str]:
    """Return the node of every machine that the provider ever started."""
    machines = MachineList(server.data_dir / "fake" / "fake").read()
    return sorted(machine.request.name for machine in machines)


def test_a_standby_takes_over_from_a_killed_leader_within_seconds(site: Site) -> None:
    leader = site.server()
    leader.until(lambda: len(active(leader)) == 2)
    standby = site.server()
    shown = leader.navarch("status").stdout
    assert "Store: PostgreSQL at postgresql://navarch@127.0.0.1" in shown
    leader.until(lambda: "2 replicas" in leader.navarch("status").stdout)
    assert "2 replicas" in leader.navarch("doctor").stdout
    scale(leader, 4)
    leader.kill()
    assert ready_after(standby, time.monotonic()) < TAKE_OVER_S

    standby.until(lambda: len(active(standby)) == 4)
    assert bought(standby) == [f"training-{number}" for number in range(4)]
    for server in site.servers:
        assert PASSWORD not in server.log.read_text()
    assert PASSWORD not in shown


@pytest.mark.parametrize("pause_s", [0.0, 0.02, 0.05, 0.1, 0.2])
def test_a_paused_leader_is_replaced_and_carries_nothing_out_when_it_wakes_up(
    site: Site, ec2: Ec2Server, pause_s: float
) -> None:
    """`pause_s` is how long it has had to carry out the launches that it committed."""
    site.config = AT_EC2.format(url=ec2.url)
    old = site.server()
    old.until(lambda: len(ec2.alive()) == 2)
    standby = site.server()
    scale(old, 6)
    time.sleep(pause_s)
    assert old.process is not None
    old.process.send_signal(signal.SIGSTOP)
    assert ready_after(standby, time.monotonic()) < TAKE_OVER_S

    standby.until(lambda: len(ec2.alive()) == 6)
    scale(standby, 3)
    standby.until(lambda: len(ec2.alive()) == 3)
    terminated = ec2.calls()["TerminateInstances"]
    old.process.send_signal(signal.SIGCONT)
    assert old.process.wait(timeout=30) == 1
    assert "another navarch server has taken over" in old.log.read_text()
    scale(standby, 4)
    standby.until(lambda: len(ec2.alive()) == 4)
    assert ec2.made() == 7, "each machine was bought once"
    assert ec2.calls()["TerminateInstances"] == terminated


def test_a_leader_that_is_cut_off_from_its_database_is_replaced_and_buys_nothing_more(
    site: Site, ec2: Ec2Server, database: PostgresServer
) -> None:
    site.config = AT_EC2.format(url=ec2.url)
    direct = site.url
    with closing(CuttingProxy(database.port)) as proxy:
        site.url = direct.replace(f":{database.port}", f":{proxy.port}") + "?sslmode=disable"
        old = site.server()
        old.until(lambda: len(ec2.alive()) == 2)
        site.url = direct
        standby = site.server()
        scale(old, 6)
        proxy.away = True
        proxy.cut()
        assert ready_after(standby, time.monotonic()) < TAKE_OVER_S

        standby.until(lambda: len(ec2.alive()) == 6)
        scale(standby, 3)
        standby.until(lambda: len(ec2.alive()) == 3)
        assert not is_ready(old)
        with pytest.raises(NavarchError):
            scale(old, 8)
        proxy.away = False
        assert old.process is not None
        assert old.process.wait(timeout=30) == 1
        assert "another navarch server has taken over" in old.log.read_text()
        scale(standby, 4)
        standby.until(lambda: len(ec2.alive()) == 4)
        assert ec2.made() == 7, "each machine was bought once"


def test_a_leader_survives_a_restart_of_its_database(site: Site, database: PostgresServer) -> None:
    leader = site.server()
    leader.until(lambda: len(active(leader)) == 2)
    scale(leader, 3)
    database.kill()
    leader.until(lambda: not is_ready(leader))
    with pytest.raises(NavarchError):
        scale(leader, 4)
    database.start()

    ready_after(leader, time.monotonic())
    leader.until(lambda: len(active(leader)) == 3)
    scale(leader, 4)
    leader.until(lambda: len(active(leader)) == 4)
    assert bought(leader) == [f"training-{number}" for number in range(4)]


def test_a_rolling_restart_of_servers_buys_nothing_twice(site: Site) -> None:
    leader = site.server()
    for size in (2, 3, 4):
        standby = site.server()
        scale(leader, size)
        assert leader.stop() == 0
        assert ready_after(standby, time.monotonic()) < TAKE_OVER_S
        leader = standby
        leader.until(lambda server=leader, size=size: len(active(server)) == size)  # type: ignore[misc]
    assert bought(leader) == [f"training-{number}" for number in range(4)]


def test_a_password_on_the_command_line_is_refused(tmp_path: Path) -> None:
    server = FleetProcess(tmp_path)
    done = subprocess.run(
        [*server.command(), "--store", f"postgresql://navarch:{PASSWORD}@127.0.0.1/navarch"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "NAVARCH_STORE" in done.stderr
    assert PASSWORD not in done.stderr

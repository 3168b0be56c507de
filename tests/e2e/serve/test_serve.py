"""A real server and real agents, over the network."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.fleet_process import FleetProcess

from navarch.app.fake_list import MachineList
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import NodeStatus, Phase
from navarch.health.xid.line import parse_line
from navarch.ports.api import NodeView, Query
from navarch.providers.simulated import Machine

Start = Callable[..., FleetProcess]
TRAINING = PoolName("training")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Start]:
    made: list[FleetProcess] = []

    def make(*, token: str | None = None, bad_boots: float = 0.0) -> FleetProcess:
        server = FleetProcess(tmp_path, token=token, bad_boots=bad_boots)
        made.append(server)
        server.start()
        return server

    yield make
    for server in made:
        if server.process is not None and server.process.poll() is None:
            server.kill()


def active(fleet: FleetProcess, pool: str = "training") -> list[NodeId]:
    page = fleet.ask(lambda api: api.list_nodes(Query(pool=PoolName(pool), page_size=1000)))
    return [node.id for node in page.items if node.status is NodeStatus.ACTIVE]


def every_node(fleet: FleetProcess) -> list[NodeView]:
    query = Query(page_size=1000, include_gone=True)
    return list(fleet.ask(lambda api: api.list_nodes(query)).items)


def machines(fleet: FleetProcess) -> list[Machine]:
    return [m for m in every_machine(fleet) if m.alive]


def every_machine(fleet: FleetProcess) -> list[Machine]:
    """Return the machines that the provider ever had."""
    return MachineList(fleet.data_dir / "fake" / "fake").read()


def test_a_broken_gpu_is_replaced_and_the_reason_can_be_read(fleet: Start) -> None:
    server = fleet()
    up = server.navarch("up", "--gpus", "16", "--type", "h100", "--name", "demo", "--wait")
    assert up.returncode == 0, up.stderr
    broken = server.navarch("sim", "inject", "demo-0", "--xid", "79")
    assert broken.returncode == 0, broken.stderr
    server.until(lambda: active(server, "demo") == ["demo-1", "demo-2"])
    server.until(lambda: not any(m.request.name == "demo-0" for m in machines(server)))
    why = server.navarch("why", "node", "demo-2")
    assert "replaces demo-0" in why.stdout
    assert "XID 79 on GPU 0: the GPU has fallen off the bus" in why.stdout
    down = server.navarch("down", "demo")
    assert down.returncode == 0, down.stderr
    assert all(not m.request.name.startswith("demo-") for m in machines(server))
    pools = json.loads(server.navarch("pool", "list", "-o", "json").stdout)
    assert [pool["spec"]["name"] for pool in pools] == ["training"]


def test_the_evidence_of_a_fault_can_be_read_before_and_after_the_node_is_gone(
    fleet: Start,
) -> None:
    server = fleet()
    server.until(lambda: len(active(server)) == 2)
    node = active(server)[0]
    nothing_yet = server.navarch("evidence", node)
    assert nothing_yet.returncode != 0
    assert "Its agent uploads a bundle" in nothing_yet.stderr
    absent = server.navarch("sim", "inject", node, "--xid", "79", "--gpu", "8")
    assert f"gpu: node {node} has GPUs 0 to 7, no 8" in absent.stderr
    assert server.navarch("sim", "inject", node, "--xid", "79", "--gpu", "3").returncode == 0
    server.until(lambda: server.navarch("evidence", node).returncode == 0)
    server.until(lambda: not any(m.request.name == node for m in machines(server)))
    shown = json.loads(server.navarch("evidence", node, "-o", "json").stdout)
    assert any("XID 79 on GPU 3" in finding["reason"] for finding in shown["findings"])
    assert describe(shown["kernel_log"]) == [(79, "0000:04:00")]
    assert shown["pcie"]["0000:04:00.0"]["current_link_speed"] == "Unknown"
    assert "lost" in shown["gpus"][3]["trouble"]
    assert shown["gpus"][2]["health"]["temperature_c"] > 0
    listed = server.navarch("evidence", node, "--all").stdout
    assert "XID 79 on GPU 3" in listed


def describe(records: list[str]) -> list[tuple[int, str | None]]:
    return [(found.code, found.pci) for record in records if (found := parse_line(record))]


def test_a_machine_that_boots_with_a_fault_is_replaced_automatically(fleet: Start) -> None:
    server = fleet(bad_boots=1.0)
    server.until(lambda: any(node.phase is Phase.GONE for node in every_node(server)))
    gone = {node.id for node in every_node(server) if node.phase is Phase.GONE}
    assert any(node.replaces in gone for node in every_node(server))


def test_a_second_start_is_quick_loses_nothing_and_commits_nothing(fleet: Start) -> None:
    server = fleet()
    server.until(lambda: len(active(server)) == 2)
    before, revision = active(server), settled_revision(server)
    assert server.stop() == 0
    assert server.start() < 15.0  # Under three seconds on an idle machine.
    assert [n.id for n in every_node(server) if n.status is NodeStatus.ACTIVE] == before
    # Longer than the heartbeat timeout: agents that had not reconnected would count as silent.
    wait_for_reports(server, after=datetime.now(UTC) + timedelta(seconds=3.5))
    assert active(server) == before
    assert len(machines(server)) == 2
    after = server.ask(lambda api: api.status()).revision
    assert after == revision, "a restart commits nothing"


def wait_for_reports(server: FleetProcess, *, after: datetime) -> None:
    """Wait until every active node has sent a heartbeat later than `after`."""

    def reported() -> bool:
        nodes = [node for node in every_node(server) if node.status is NodeStatus.ACTIVE]
        return all(node.last_heartbeat and node.last_heartbeat > after for node in nodes)

    server.until(reported)


def settled_revision(server: FleetProcess) -> int:
    """Return the revision of the store, once the next heartbeats leave it unchanged."""
    while True:
        before = server.ask(lambda api: api.status()).revision
        wait_for_reports(server, after=datetime.now(UTC) + timedelta(seconds=1))
        if server.ask(lambda api: api.status()).revision == before:
            return before


def test_kills_at_any_step_of_a_change_leak_duplicate_and_lose_nothing(fleet: Start) -> None:
    server = fleet()
    steps: list[tuple[int, Step]] = [
        (2, in_journal("launch.asked")),
        (3, bought),
        (2, in_journal("pool.scaled")),
        (3, in_journal("node.registered")),
        (2, in_journal("node.retiring")),
        (2, in_journal("node.gone")),
    ]
    size, before = 2, Seen()
    for wanted, step in steps:
        if wanted < size:
            # A node whose launch was interrupted is given up a minute later.
            server.until(lambda: len(active(server)) == size)  # noqa: B023
        size = wanted
        server.ask(lambda api: api.scale(TRAINING, size, reason="the test"))  # noqa: B023
        server.until(lambda: step(server, before))  # noqa: B023
        before = see(server)
        server.kill()
        server.start()
        pool = server.ask(lambda api: api.get_pool(TRAINING))
        assert pool.size == size, "an accepted change was lost"
    server.until(lambda: len(active(server)) == size)
    server.until(lambda: len(machines(server)) == size)
    # An agent can register before the launch of its machine returns.
    server.until(lambda: known_instances(server) == {m.id for m in machines(server)})
    names = [m.request.name for m in every_machine(server)]
    assert len(names) == len(set(names)), "a node was bought twice"


@dataclass(frozen=True)
class Seen:
    """The newest event and the machines at one moment."""

    event: int = 0
    machines: frozenset[str] = frozenset()


Step = Callable[[FleetProcess, Seen], bool]


def see(server: FleetProcess) -> Seen:
    entries = server.ask(lambda api: api.events(limit=1000))
    return Seen(entries[-1].number, frozenset(m.id for m in machines(server)))


def in_journal(kind: str) -> Step:
    """Return a step that is reached when the journal has a new event of this kind."""

    def reached(server: FleetProcess, before: Seen) -> bool:
        entries = server.ask(lambda api: api.events(after=before.event, limit=1000))
        return any(entry.event.kind == kind for entry in entries)

    return reached


def bought(server: FleetProcess, before: Seen) -> bool:
    """Return whether the provider has a new machine; its response takes a moment longer."""
    return not before.machines.issuperset(m.id for m in machines(server))


def known_instances(server: FleetProcess) -> set[str | None]:
    return {node.instance for node in every_node(server) if node.phase is not Phase.GONE}


def test_every_server_requires_the_token_and_agents_have_it(fleet: Start) -> None:
    """B12: neither the CLI nor the fake provider's agents could authenticate."""
    server = fleet(token="s3cret-s3cret-s3cret")
    server.until(lambda: len(active(server)) == 2)
    assert server.navarch("status").returncode == 0
    server.token = "wrong"
    refused = server.navarch("status")
    assert refused.returncode == 4, refused
    assert "s3cret-s3cret-s3cret" not in server.log.read_text()


def test_a_second_server_on_the_same_state_is_refused_with_a_clear_message(
    fleet: Start, tmp_path: Path
) -> None:
    server = fleet()
    other = FleetProcess(tmp_path)
    done = subprocess.run(
        [*other.command(), "--config", str(server.config), "--data-dir", str(server.data_dir)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "in use by another navarch server" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_reported_with_a_clear_message(fleet: Start, tmp_path: Path) -> None:
    server = fleet()
    other = FleetProcess(tmp_path)
    other.port = server.port
    done = subprocess.run(
        [*other.command(), "--data-dir", str(tmp_path / "elsewhere")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{server.port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_without_a_token_refuses_to_listen_on_other_interfaces(tmp_path: Path) -> None:
    other = FleetProcess(tmp_path)
    done = subprocess.run(
        [*other.command(), "--address=0.0.0.0:0", "--data-dir", str(tmp_path / "elsewhere")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "NAVARCH_AUTH_TOKEN" in done.stderr


def response_to(
    server: FleetProcess, host: str, *headers: str, request: str = "GET /v1/status"
) -> bytes:
    """Return the response to one request with that Host header."""
    head = [f"{request} HTTP/1.1", f"Host: {host}", *headers, "Connection: close"]
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(("\r\n".join(head) + "\r\n\r\n").encode())
        with connection.makefile("rb") as answer:
            return answer.read()


def test_a_server_without_a_token_listens_on_loopback_only_and_reports_it(fleet: Start) -> None:
    server = fleet()
    evil = f"evil.example:{server.port}"
    refused = response_to(server, evil, f"Origin: http://{evil}")
    assert refused.startswith(b"HTTP/1.1 421")
    assert f"http://127.0.0.1:{server.port}".encode() in refused
    described = response_to(server, f"localhost:{server.port}", request="GET /openapi.json")
    assert described.startswith(b"HTTP/1.1 200")
    paths = json.loads(described.partition(b"\r\n\r\n")[2])["paths"]
    routes = [f"{method.upper()} {path}" for path in paths for method in paths[path]]
    assert "GET /v1/status" in routes
    for route in routes:
        assert response_to(server, evil, request=route).startswith(b"HTTP/1.1 421"), route
    server.until(lambda: "is serving" in server.log.read_text())
    log = server.log.read_text()
    assert f"HTTP     http://127.0.0.1:{server.port}, clear text" in log
    assert f"gRPC     grpc://127.0.0.1:{server.grpc_port}, clear text" in log
    assert "local connections only" in log


def test_a_server_with_a_token_serves_every_host_and_names_the_addresses_it_listens_on(
    tmp_path: Path,
) -> None:
    class OnAllInterfaces(FleetProcess):
        def command(self) -> list[str]:
            doors = [f"--address=:{self.port}", f"--grpc-address=:{self.grpc_port}"]
            return [sys.executable, "-m", "navarch.cli", "serve", *doors]

    server = OnAllInterfaces(tmp_path, token="s3cret-s3cret-s3cret")
    try:
        server.start()
        token = "Authorization: Bearer s3cret-s3cret-s3cret"
        assert response_to(server, "navarch.example.com", token).startswith(b"HTTP/1.1 200")
        server.until(lambda: "is serving" in server.log.read_text())
        log = server.log.read_text()
        assert f"HTTP     http://0.0.0.0:{server.port} (all interfaces), clear text" in log
        assert f"gRPC     grpc://0.0.0.0:{server.grpc_port} (all interfaces), clear text" in log
        assert "token required" in log
        assert "s3cret-s3cret-s3cret" not in log
    finally:
        server.kill()


def test_a_wrong_configuration_is_refused_with_its_place(tmp_path: Path) -> None:
    other = FleetProcess(tmp_path)
    other.config.write_text(other.config.read_text().replace("max_nodes", "maxnodes"))
    done = subprocess.run(
        [*other.command(), "--config", str(other.config), "--data-dir", str(tmp_path / "s")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "maxnodes" in done.stderr
    assert "max_nodes" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reload_applies_what_can_change_and_reports_what_cannot(fleet: Start) -> None:
    server = fleet()
    server.until(lambda: len(active(server)) == 2)
    text = server.config.read_text().replace("min_nodes: 2", "min_nodes: 3")
    server.config.write_text(text.replace("boot_min: 100ms", "boot_min: 200ms"))
    assert server.process is not None
    server.process.send_signal(1)
    server.until(lambda: len(active(server)) == 3)
    server.until(lambda: "configuration reloaded" in server.log.read_text())
    assert "boot_min" in server.log.read_text()
    server.config.write_text("pools: [nonsense")
    server.process.send_signal(1)
    server.until(lambda: "configuration not reloaded" in server.log.read_text())
    assert len(active(server)) == 3

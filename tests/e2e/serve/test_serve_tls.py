"""TLS of a real server process, with certificates that openssl made, and their rotation."""

import asyncio
import json
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path

import pytest
from tests.support.certificates import Authority, Issued, needs_openssl, openssl
from tests.support.fleet_process import FleetProcess

from navarch.client.connect import connect_fleet
from navarch.core.errors import UnreachableError
from navarch.core.node import NodeStatus
from navarch.http.tls import ClientTls, TlsPaths
from navarch.ports.api import Query

pytestmark = needs_openssl

ROOT = "the-operators-token-of-this-test"
CONFIG = """
server:
  heartbeat_interval: 1s
  health_check_interval: 1s
  tls: {cert_file: tls.crt, key_file: tls.key}
providers:
  fake: {type: fake, boot_min: 100ms, boot_max: 300ms}
pools:
  training: {provider: fake, instance_type: h100-8x, min_nodes: 1, max_nodes: 4}
"""


class TlsServer(FleetProcess):
    """A server with TLS whose certificate can be replaced."""

    def __init__(self, folder: Path, config: str = CONFIG) -> None:
        super().__init__(folder, token=ROOT, config=config)
        self.authority = Authority(folder / "ca", "authority")
        self.environ["NAVARCH_CA_FILE"] = str(self.authority.cert)
        self.use(self.authority.issue("first"))

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def grpc_url(self) -> str:
        return f"grpcs://127.0.0.1:{self.grpc_port}"

    def use(self, issued: Issued) -> None:
        shutil.copy(issued.cert, self.folder / "tls.crt")
        shutil.copy(issued.key, self.folder / "tls.key")

    def serial(self, port: int, *, alpn: str = "http/1.1") -> str:
        """Return the serial number of the certificate that a new connection meets."""
        shown = subprocess.run(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-alpn", alpn],
            input=b"",
            capture_output=True,
            check=False,
            timeout=30,
        ).stdout.decode("utf-8", "replace")
        file = self.folder / "shown.pem"
        end = "-----END CERTIFICATE-----"
        file.write_text(shown[shown.index("-----BEGIN") : shown.index(end) + len(end)] + "\n")
        return openssl("x509", "-in", file, "-noout", "-serial").strip()

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.authority.cert)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    found = TlsServer(tmp_path_factory.mktemp("tls"))
    found.start()
    yield found
    found.stop()


def test_the_command_line_and_the_agents_of_the_fleet_use_https(server: TlsServer) -> None:
    server.until(
        lambda: '"total": 1' in server.navarch("list", "-o", "json").stdout or _one(server)
    )
    status = server.navarch("status")
    assert status.returncode == 0, status.stderr
    banner = server.log.read_text()
    assert f"https://127.0.0.1:{server.port}, TLS" in banner
    assert f"grpcs://127.0.0.1:{server.grpc_port}, TLS" in banner
    assert f"navarch -s https://127.0.0.1:{server.port} status" in banner
    assert "clear text" not in banner


def _one(server: TlsServer) -> bool:
    async def ready() -> int:
        paths = TlsPaths(ca=server.authority.cert)
        client = connect_fleet(server.url, ROOT, 10.0, tls=ClientTls(paths))
        try:
            return (await client.list_nodes(Query(status=NodeStatus.ACTIVE))).total
        finally:
            await client.close()

    return asyncio.run(ready()) == 1


def test_a_client_that_does_not_trust_the_authority_refuses_the_server(server: TlsServer) -> None:
    server_environ = dict(server.environ)
    del server.environ["NAVARCH_CA_FILE"]
    try:
        refused = server.navarch("status")
    finally:
        server.environ.update(server_environ)
    assert refused.returncode == 5
    assert "certificate verify failed" in refused.stderr
    assert server.navarch("--insecure", "status").returncode == 0


def test_clear_text_is_not_answered(server: TlsServer) -> None:
    async def story() -> None:
        client = connect_fleet(f"http://127.0.0.1:{server.port}", ROOT, 5.0)
        with pytest.raises(UnreachableError):
            await client.status()
        await client.close()

    asyncio.run(story())


def test_grpc_clients_verify_the_server(server: TlsServer) -> None:
    async def story() -> None:
        trusting = connect_fleet(
            server.grpc_url, ROOT, 10.0, tls_files=TlsPaths(ca=server.authority.cert)
        )
        assert (await trusting.status()).pools[0].spec.name == "training"
        await trusting.close()
        other = Authority(server.folder / "other", "other")
        careful = connect_fleet(server.grpc_url, ROOT, 5.0, tls_files=TlsPaths(ca=other.cert))
        with pytest.raises(UnreachableError):
            await careful.status()
        await careful.close()

    asyncio.run(story())


@pytest.mark.parametrize("transport", ["https", "grpcs"])
def test_an_agent_process_registers_over_tls(server: TlsServer, transport: str) -> None:
    url = server.url if transport == "https" else server.grpc_url
    name = f"rack-{transport}"
    agent = subprocess.Popen(
        [
            *(sys.executable, "-m", "navarch.cli", "agent", "--server", url, "--node-id", name),
            *("--ca-file", str(server.authority.cert), "--simulated-gpus", "2"),
            *("--state-dir", str(server.folder / name), "--metadata", "none"),
        ],
        env={"NAVARCH_AUTH_TOKEN": ROOT, "PATH": "/usr/bin:/bin"},
        stderr=subprocess.DEVNULL,
    )
    try:
        server.until(lambda: server.navarch("get", name).returncode == 0)
    finally:
        agent.terminate()
        agent.wait(timeout=30)


def test_a_new_certificate_is_used_without_a_restart_and_connections_live_on(
    server: TlsServer,
) -> None:
    first = server.serial(server.port)
    assert server.serial(server.grpc_port, alpn="h2") == first
    open_before = HTTPSConnection("127.0.0.1", server.port, context=server.context(), timeout=20)
    assert _status(open_before) == 200
    socket = open_before.sock

    second = server.authority.issue("second")
    server.use(second)
    server.until(lambda: server.serial(server.port) == second.serial)
    server.until(lambda: server.serial(server.grpc_port, alpn="h2") == second.serial)
    assert second.serial != first

    assert _status(open_before) == 200
    assert open_before.sock is socket, "the connection of before must still be in use"
    open_before.close()
    assert server.process is not None
    assert server.process.poll() is None


def _status(connection: HTTPSConnection) -> int:
    connection.request("GET", "/v1/status", headers={"Authorization": f"Bearer {ROOT}"})
    answer = connection.getresponse()
    assert json.loads(answer.read())["cluster"]
    return answer.status


def test_a_key_that_does_not_fit_is_reported_and_the_old_certificate_stays(
    server: TlsServer,
) -> None:
    before = server.serial(server.port)
    third = server.authority.issue("third")
    shutil.copy(third.cert, server.folder / "tls.crt")
    server.until(lambda: "the key does not belong to the certificate" in server.log.read_text())
    assert server.serial(server.port) == before
    server.use(third)
    server.until(lambda: server.serial(server.port) == third.serial)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda folder: (folder / "tls.key").unlink(), "tls.key: No such file"),
        (lambda folder: (folder / "tls.crt").write_text("x"), "server.tls:"),
    ],
)
def test_a_server_with_an_unusable_certificate_does_not_start(
    tmp_path: Path, spoil: object, complaint: str
) -> None:
    server = TlsServer(tmp_path)
    assert callable(spoil)
    spoil(tmp_path)
    done = subprocess.run(
        [*server.command(), "--config", str(server.config), "--data-dir", str(server.data_dir)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert complaint in done.stderr, done.stderr
    assert "Traceback" not in done.stderr

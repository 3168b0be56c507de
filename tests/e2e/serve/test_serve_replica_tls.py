"""Replicas with TLS: each trusts the one certificate that the leader has registered."""

import json
import shutil
import ssl
import time
from collections.abc import Callable, Iterator
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.support.certificates import Authority, Issued, needs_openssl
from tests.support.fleet_process import FleetProcess
from tests.support.postgres_server import PostgresServer, missing_postgres
from tests.support.replicas import ReplicaSite, replica_site

from navarch.wire.fleet import FLEET_CALLS

pytestmark = [
    pytest.mark.long,
    needs_openssl,
    pytest.mark.skipif(missing_postgres() is not None, reason=missing_postgres() or ""),
]

TOKEN = "a-token-of-operators"
CONFIG = """
server:
  tls: {{cert_file: {name}.crt, key_file: {name}.key, client_ca_file: ca/authority.pem, {how}}}
  access:
    bindings: [{{subjects: ["cert:ann"], role: viewer}}]
providers: {{fake: {{type: fake}}}}
"""


class Servers:
    """Two replicas, each with a certificate of its own from one authority."""

    def __init__(self, site: ReplicaSite, how: str = "client_certificates: optional") -> None:
        self.site = site
        self.how = how
        self.authority = Authority(site.folder / "ca", "authority")
        self.leader = self._start("first")
        self.other = self._start("second")

    def _start(self, name: str) -> FleetProcess:
        self.use(name, self.authority.issue(name, names="DNS:fleet.example.com,DNS:localhost"))
        self.site.config = CONFIG.format(name=name, how=self.how)
        return self.site.start()

    def use(self, name: str, issued: Issued) -> None:
        shutil.copy(issued.cert, self.site.folder / f"{name}.crt")
        shutil.copy(issued.key, self.site.folder / f"{name}.key")

    def ask(
        self, server: FleetProcess, path: str, *, client: Issued | None = None
    ) -> tuple[int, bytes]:
        context = ssl.create_default_context(cafile=self.authority.cert)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        if client is not None:
            context.load_cert_chain(client.cert, client.key)
            headers = {}
        connection = HTTPSConnection("localhost", server.port, context=context, timeout=20)
        try:
            connection.request("GET", path, headers=headers)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def call(self, server: FleetProcess, client: Issued | None = None) -> bytes:
        """Make a gRPC call; raise grpc.RpcError if it fails."""
        key, cert = (client.key.read_bytes(), client.cert.read_bytes()) if client else (None, None)
        trusted = grpc.ssl_channel_credentials(self.authority.cert.read_bytes(), key, cert)
        metadata = () if client else (("authorization", f"Bearer {TOKEN}"),)
        with grpc.secure_channel(f"localhost:{server.grpc_port}", trusted) as channel:
            call: Any = channel.unary_unary(FLEET_CALLS["list_pools"].path)
            reply: bytes = call(b"", metadata=metadata, timeout=20)
            return reply


@pytest.fixture
def site(tmp_path: Path, postgres: PostgresServer) -> Iterator[ReplicaSite]:
    with replica_site(tmp_path, postgres.new_url(), token=TOKEN) as site:
        yield site


def test_a_replica_forwards_over_tls_and_trusts_the_registered_certificate_only(
    site: ReplicaSite, postgres: PostgresServer
) -> None:
    servers = Servers(site)
    assert servers.ask(servers.other, "/v1/pools") == (200, b'{"items":[]}')
    assert servers.call(servers.other) == servers.call(servers.leader)

    # Another certificate of the same authority: trusted by clients, but not the leader's.
    stranger = servers.authority.issue("stranger", names="DNS:localhost").cert.read_text()
    registered = postgres.execute("SELECT id, certificate FROM replicas WHERE term = 1", site.store)
    name, real = registered[0]
    postgres.execute(
        "CREATE FUNCTION other() RETURNS trigger AS $$ BEGIN "
        f"IF NEW.id = '{name}' THEN NEW.certificate := '{stranger}'; END IF; RETURN NEW; "
        "END $$ LANGUAGE plpgsql; "
        "CREATE TRIGGER t BEFORE INSERT OR UPDATE ON replicas "
        "FOR EACH ROW EXECUTE FUNCTION other()",
        site.store,
    )
    until(lambda: servers.ask(servers.other, "/v1/pools")[0] == 503)
    with pytest.raises(grpc.RpcError) as caught:
        servers.call(servers.other)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert servers.ask(servers.other, "/readyz")[0] == 503

    postgres.execute("DROP TRIGGER t ON replicas; DROP FUNCTION other", site.store)
    until(lambda: servers.ask(servers.other, "/v1/pools")[0] == 200)
    found = postgres.execute("SELECT certificate FROM replicas WHERE term = 1", site.store)
    assert found == [(real,)]


def test_a_renewed_certificate_is_registered_and_trusted_without_a_restart(
    site: ReplicaSite, postgres: PostgresServer
) -> None:
    servers = Servers(site)
    before = postgres.execute("SELECT certificate FROM replicas WHERE term = 1", site.store)
    servers.use("first", servers.authority.issue("renewed", names="DNS:localhost"))
    until(
        lambda: (
            postgres.execute("SELECT certificate FROM replicas WHERE term = 1", site.store)
            != before
        )
    )
    until(lambda: servers.ask(servers.other, "/v1/pools")[0] == 200)
    assert servers.call(servers.other) == servers.call(servers.leader)


@pytest.mark.parametrize("how", ["optional", "required"])
def test_the_certificate_of_a_client_identifies_it_at_every_replica(
    site: ReplicaSite, how: str
) -> None:
    servers = Servers(site, f"client_certificates: {how}")
    ann = servers.authority.issue("ann", names="")
    seen = [
        json.loads(servers.ask(server, "/v1/whoami", client=ann)[1])
        for server in (servers.leader, servers.other)
    ]
    assert seen[0]["subject"] == "cert:ann"
    assert seen[0] == seen[1]
    if how == "required":  # gRPC asks no client for a certificate that it does not require
        assert servers.call(servers.other, ann) == servers.call(servers.leader, ann)


def until(holds: Callable[[], bool], within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)

"""Callers of a real server: tokens of an identity provider, and TLS client certificates."""

import asyncio
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.support.certificates import Authority, Issued, needs_openssl
from tests.support.fleet_process import FleetProcess

from navarch.app.authentication import fetch_keys
from navarch.client.connect import connect_fleet
from navarch.core.errors import (
    PermissionDeniedError,
    UnauthenticatedError,
    UnreachableError,
)
from navarch.core.ids import PoolName
from navarch.http.tls import ClientTls, TlsPaths

KEYS = {name: rsa.generate_private_key(public_exponent=65537, key_size=2048) for name in "ab"}


class IdentityProvider(BaseHTTPRequestHandler):
    """Serves a discovery document and keys, as OpenID Connect describes them."""

    offered: ClassVar[list[str]] = ["a"]
    answers: ClassVar[dict[str, tuple[int, bytes, str]]] = {}

    def do_GET(self) -> None:
        host = f"http://{self.headers['Host']}"
        document = {"issuer": host, "jwks_uri": f"{host}/keys"}
        keys = [
            {
                **jwt.algorithms.RSAAlgorithm.to_jwk(KEYS[name].public_key(), as_dict=True),
                "kid": name,
            }
            for name in self.offered
        ]
        known = {
            "/.well-known/openid-configuration": (200, json.dumps(document).encode(), ""),
            "/keys": (200, json.dumps({"keys": keys}).encode(), ""),
            **self.answers,
        }
        status, body, location = known.get(self.path, (404, b"", ""))
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def identity_provider() -> Iterator[str]:
    IdentityProvider.offered[:] = ["a"]
    IdentityProvider.answers.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), IdentityProvider) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def a_token(issuer: str, *, key: str = "a", subject: str = "kim", groups: tuple[str, ...]) -> str:
    claims = {
        "iss": issuer,
        "aud": "navarch",
        "sub": subject,
        "groups": list(groups),
        "exp": datetime.now(UTC) + timedelta(minutes=5),
    }
    return jwt.encode(claims, KEYS[key], "RS256", headers={"kid": key})


OIDC = """
server:
  heartbeat_interval: 1s
  access:
    oidc: {issuer: "ISSUER", audience: navarch, refresh: 1m}
    bindings:
      - {role: viewer, groups: [staff]}
      - {role: operator, subjects: ["oidc:kim"], pools: [training]}
providers:
  fake: {type: fake, boot_min: 100ms, boot_max: 300ms}
pools:
  training: {provider: fake, instance_type: h100-8x, min_nodes: 0, max_nodes: 4}
  research: {provider: fake, instance_type: h100-8x, min_nodes: 0, max_nodes: 4}
"""


def test_callers_with_tokens_of_an_identity_provider_have_the_roles_of_their_bindings(
    tmp_path: Path,
) -> None:
    with identity_provider() as issuer:
        server = FleetProcess(tmp_path, config=OIDC.replace("ISSUER", issuer))
        server.start()

        async def story() -> None:
            token = a_token(issuer, groups=("staff",))
            await accepted(server.url, token)
            for url in (server.url, f"grpc://127.0.0.1:{server.grpc_port}"):
                kim = connect_fleet(url, token, 10.0)
                assert len(await kim.list_pools()) == 2
                await kim.scale(PoolName("training"), 1, reason="more")
                with pytest.raises(PermissionDeniedError):
                    await kim.put_pool(
                        (await kim.get_pool(PoolName("research"))).spec, reason="mischief"
                    )
                await kim.close()
            events = connect_fleet(server.url, token, 10.0)
            scaled = [x for x in await events.events(limit=1000) if x.event.kind == "pool.scaled"]
            assert scaled[0].event.facts["caller"] == "oidc:kim"
            await events.close()
            lee = connect_fleet(server.url, a_token(issuer, subject="lee", groups=()), 10.0)
            with pytest.raises(PermissionDeniedError, match=r"oidc:lee has no role.*bindings"):
                await lee.status()
            await lee.close()
            for shown in (None, "wrong", a_token(issuer, key="b", groups=("staff",))):
                stranger = connect_fleet(server.url, shown, 10.0)
                with pytest.raises(UnauthenticatedError):
                    await stranger.status()
                await stranger.close()

        try:
            asyncio.run(asyncio.wait_for(story(), 60))
        finally:
            server.stop()


async def accepted(url: str, token: str) -> None:
    """Wait until the server has the key of a token."""
    async with asyncio.timeout(30):
        while not await _accepts(url, token):  # noqa: ASYNC110 - another process fetches the keys
            await asyncio.sleep(0.1)


async def _accepts(url: str, token: str) -> bool:
    client = connect_fleet(url, token, 10.0)
    try:
        await client.status()
    except UnauthenticatedError:
        return False
    finally:
        await client.close()
    return True


def test_a_redirect_of_the_identity_provider_is_not_followed() -> None:
    with identity_provider() as issuer:
        assert b'"kid": "a"' in fetch_keys(issuer, None)
        evil = json.dumps({"keys": []}).encode()
        IdentityProvider.answers["/evil"] = (200, evil, "")
        IdentityProvider.answers["/keys"] = (302, b"", f"{issuer}/evil")
        with pytest.raises(UnreachableError, match="status 302"):
            fetch_keys(issuer, None)


def test_a_discovery_document_of_another_issuer_is_refused() -> None:
    with identity_provider() as issuer:
        other = json.dumps({"issuer": "https://evil.example", "jwks_uri": f"{issuer}/keys"})
        path = "/.well-known/openid-configuration"
        IdentityProvider.answers[path] = (200, other.encode(), "")
        with pytest.raises(UnreachableError, match=r"issuer 'https://evil.example'"):
            fetch_keys(issuer, None)


def test_a_huge_key_set_is_not_read_to_its_end() -> None:
    with identity_provider() as issuer:
        IdentityProvider.answers["/keys"] = (200, b" " * 2**20, "")
        with pytest.raises(UnreachableError):
            fetch_keys(issuer, None)


MTLS = """
server:
  heartbeat_interval: 1s
  tls:
    {cert_file: tls.crt, key_file: tls.key, client_ca_file: clients.crt, client_certificates: HOW}
  access:
    bindings:
      - {role: viewer, subjects: ["cert:spiffe://fleet/dashboard"]}
      - {role: admin, subjects: ["cert:root"]}
providers: {fake: {type: fake}}
"""


class MutualServer(FleetProcess):
    """A server that knows clients by their certificates."""

    def __init__(self, folder: Path, *, required: bool) -> None:
        how = "required" if required else "optional"
        super().__init__(folder, config=MTLS.replace("HOW", how))
        self.servers = Authority(folder / "servers", "servers")
        self.clients = Authority(folder / "clients", "clients")
        mine = self.servers.issue("server")
        shutil.copy(mine.cert, folder / "tls.crt")
        shutil.copy(mine.key, folder / "tls.key")
        shutil.copy(self.clients.cert, folder / "clients.crt")

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    async def status(self, shown: Issued | None, *, grpc: bool = False) -> None:
        """Ask for the status with a certificate."""
        paths = TlsPaths(
            ca=self.servers.cert,
            cert=None if shown is None else shown.cert,
            key=None if shown is None else shown.key,
        )
        url = f"grpcs://127.0.0.1:{self.grpc_port}" if grpc else self.url
        client = connect_fleet(url, None, 3.0, tls=ClientTls(paths), tls_files=paths)
        try:
            await client.status()
        finally:
            await client.close()


@needs_openssl
def test_clients_are_known_by_their_certificates(tmp_path: Path) -> None:
    server = MutualServer(tmp_path, required=False)
    dashboard = server.clients.issue("d", names="URI:spiffe://fleet/dashboard,DNS:d.example")
    root = server.clients.issue("root", names="")
    unknown = server.clients.issue("unknown", names="DNS:unknown.example")
    foreign = Authority(tmp_path / "foreign", "clients").issue("root", names="")
    server.start()

    async def story() -> None:
        await server.status(dashboard)
        await server.status(root)
        with pytest.raises(PermissionDeniedError, match=r"cert:unknown[.]example has no role"):
            await server.status(unknown)
        with pytest.raises(UnauthenticatedError):
            await server.status(None)
        with pytest.raises(UnreachableError):
            await server.status(foreign)

    try:
        asyncio.run(asyncio.wait_for(story(), 60))
    finally:
        server.stop()


@needs_openssl
def test_with_required_certificates_both_ports_turn_others_away_and_authorities_rotate(
    tmp_path: Path,
) -> None:
    server = MutualServer(tmp_path, required=True)
    root = server.clients.issue("root", names="")
    server.start()

    async def before() -> None:
        for grpc in (False, True):
            await server.status(root, grpc=grpc)
            with pytest.raises(UnreachableError):
                await server.status(None, grpc=grpc)

    async def after() -> None:
        for grpc in (False, True):
            await server.status(successor, grpc=grpc)
            with pytest.raises(UnreachableError):
                await server.status(root, grpc=grpc)

    try:
        asyncio.run(asyncio.wait_for(before(), 60))
        replacement = Authority(tmp_path / "next", "clients-next")
        successor = replacement.issue("root", names="")
        shutil.copy(replacement.cert, tmp_path / "clients.crt")
        server.until(lambda: "tls.reloaded" in server.log.read_text())
        asyncio.run(asyncio.wait_for(after(), 60))
    finally:
        server.stop()


def test_an_unencrypted_issuer_and_required_certificates_without_authorities_are_refused(
    tmp_path: Path,
) -> None:
    text = OIDC.replace("ISSUER", "http://id.example")
    server = FleetProcess(tmp_path, config=text)
    checked = subprocess.run(
        [*server.command()[:3], "config", "validate", str(server.config)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert checked.returncode != 0
    assert "is not https" in checked.stdout + checked.stderr

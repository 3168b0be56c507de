"""Secret managers: AWS against moto, the others against the shapes that their vendors publish."""

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from navarch.core.errors import SecretError
from navarch.secrets.reference import parse_reference, read_reference

HUNTER = "hunter2-hunter2-hunter2"


def read(text: str, environment: Mapping[str, str]) -> str:
    reference = parse_reference(text)
    assert reference is not None
    return read_reference(reference, environment)


Answer = Callable[["Exchange"], tuple[int, object]]


class Exchange:
    """One request as a server receives it."""

    def __init__(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> None:
        self.method, self.headers, self.body = method, headers, body
        self.path, self.query = urlsplit(path).path, parse_qs(urlsplit(path).query)
        self.form = parse_qs(body.decode("latin-1"))


@contextmanager
def service(answer: Answer) -> Iterator[str]:
    """Serve JSON on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, value = answer(Exchange(self.command, self.path, headers, body))
            sent = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(sent)))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = _serve  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class Vault:
    """KV version 2, as https://developer.hashicorp.com/vault/api-docs/secret/kv/kv-v2 has it."""

    def __init__(self) -> None:
        self.fields: dict[str, object] = {"token": HUNTER, "other": "x"}
        self.namespaces: list[str | None] = []

    def __call__(self, asked: Exchange) -> tuple[int, object]:
        self.namespaces.append(asked.headers.get("x-vault-namespace"))
        if asked.headers.get("x-vault-token") != "s.valid":
            return 403, {"errors": ["permission denied"]}
        if (asked.method, asked.path) == ("GET", "/v1/secret/data/team/navarch"):
            metadata = {"created_time": "2026-03-01T00:00:00Z", "destroyed": False, "version": 3}
            return 200, {"data": {"data": self.fields, "metadata": metadata}}
        if asked.path == "/v1/secret/data/deleted":
            return 404, {"data": {"data": None, "metadata": {"destroyed": True}}}
        if asked.path == "/v1/secret/data/moved":
            return 302, {}
        return 404, {"errors": []}


def test_vault() -> None:
    vault = Vault()
    with service(vault) as address:
        env = {"VAULT_ADDR": address, "VAULT_TOKEN": "s.valid"}
        assert read("vault:secret/team/navarch#token", env) == HUNTER
        read("vault:secret/team/navarch#token", {**env, "VAULT_NAMESPACE": "ml"})
        assert vault.namespaces == [None, "ml"]
        for text, complaint in {
            "vault:secret/team/navarch": "has 2 fields",
            "vault:secret/team/navarch#nope": "no field nope",
            "vault:secret/deleted#token": "no such secret",
            "vault:secret/moved#token": "status 302",
        }.items():
            with pytest.raises(SecretError, match=complaint) as caught:
                read(text, env)
            assert HUNTER not in str(caught.value)
        with pytest.raises(SecretError, match="may not read"):
            read("vault:secret/team/navarch#token", {**env, "VAULT_TOKEN": "s.old"})
        vault.fields = {"only": HUNTER}
        assert read("vault:secret/team/navarch", env) == HUNTER


def test_the_token_of_vault_is_read_from_its_file_each_time(tmp_path: Path) -> None:
    file = tmp_path / "vault-token"
    with service(Vault()) as address:
        env = {"VAULT_ADDR": address, "VAULT_TOKEN_FILE": str(file)}
        with pytest.raises(SecretError, match="cannot be read"):
            read("vault:secret/team/navarch#token", env)
        file.write_text("s.old\n")
        with pytest.raises(SecretError, match="403"):
            read("vault:secret/team/navarch#token", env)
        file.write_text("s.valid\n")
        assert read("vault:secret/team/navarch#token", env) == HUNTER


def azure(asked: Exchange) -> tuple[int, object]:
    """Answer as the REST references of Key Vault 7.4, of the token endpoint and of IMDS have it."""
    if asked.path == "/tenant-1/oauth2/v2.0/token":
        wanted = {
            "grant_type": ["client_credentials"],
            "client_id": ["client-1"],
            "client_secret": ["s3cret"],
            "scope": ["https://vault.azure.net/.default"],
        }
        assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
        if asked.method != "POST" or asked.form != wanted:
            return 400, {"error": "invalid_client"}
        return 200, {"token_type": "Bearer", "expires_in": 3599, "access_token": "of-principal"}
    if asked.path == "/metadata/identity/oauth2/token":
        if asked.headers.get("metadata") != "true":
            return 400, {"error": "invalid_request"}
        assert asked.query["resource"] == ["https://vault.azure.net"]
        assert asked.query["api-version"] == ["2018-02-01"]
        return 200, {"access_token": "of-machine", "expires_in": "86399", "token_type": "Bearer"}
    if asked.headers.get("authorization") not in ("Bearer of-principal", "Bearer of-machine"):
        return 401, {"error": {"code": "Unauthorized"}}
    if asked.query.get("api-version") != ["7.4"]:
        return 400, {"error": {"code": "BadParameter"}}
    if asked.path == "/secrets/token":
        return 200, {"value": HUNTER, "id": "https://v/secrets/token/1", "attributes": {}}
    if asked.path == "/secrets/both/4387e9f3":
        return 200, {"value": json.dumps({"key": HUNTER, "n": 7}), "attributes": {}}
    return 404, {"error": {"code": "SecretNotFound"}}


def test_azure_key_vault() -> None:
    with service(azure) as host:
        principal = {
            "AZURE_TENANT_ID": "tenant-1",
            "AZURE_CLIENT_ID": "client-1",
            "AZURE_CLIENT_SECRET": "s3cret",
            "AZURE_AUTHORITY_HOST": host,
        }
        machine = {"AZURE_POD_IDENTITY_AUTHORITY_HOST": host}
        for env in (principal, machine):
            assert read(f"azure-kv:{host}/secrets/token", env) == HUNTER
            assert read(f"azure-kv:{host}/secrets/both/4387e9f3#key", env) == HUNTER
            assert read(f"azure-kv:{host}/secrets/both/4387e9f3#n", env) == "7"
            with pytest.raises(SecretError, match="no such secret"):
                read(f"azure-kv:{host}/secrets/nope", env)
        with pytest.raises(SecretError, match="signing in") as caught:
            read(f"azure-kv:{host}/secrets/token", {**principal, "AZURE_CLIENT_SECRET": "wr0ng"})
        assert "wr0ng" not in str(caught.value)
        with pytest.raises(SecretError, match="not a JSON object") as caught:
            read(f"azure-kv:{host}/secrets/token#key", machine)
        assert HUNTER not in str(caught.value)


def google(asked: Exchange) -> tuple[int, object]:
    """Answer as the REST reference of Secret Manager v1, and Google's token endpoint."""
    if asked.path == "/token":
        assert asked.form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        return 200, {"access_token": "of-account", "expires_in": 3600, "token_type": "Bearer"}
    if asked.headers.get("authorization") != "Bearer of-account":
        return 401, {"error": {"status": "UNAUTHENTICATED"}}
    if asked.path == "/v1/projects/p-1/secrets/token/versions/latest:access":
        name = "projects/1/secrets/token/versions/3"
        data = base64.b64encode(HUNTER.encode()).decode()
        return 200, {"name": name, "payload": {"data": data, "dataCrc32c": "1"}}
    if asked.path == "/v1/projects/p-1/secrets/token/versions/2:access":
        return 200, {"payload": {"data": base64.b64encode(b"older").decode()}}
    if asked.path.startswith("/v1/projects/p-1/secrets/bytes/"):
        return 200, {"payload": {"data": base64.b64encode(b"\xff\xfe").decode()}}
    return 403, {"error": {"status": "PERMISSION_DENIED"}}


def test_google_secret_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("google.auth")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with service(google) as host:
        account = {
            "type": "service_account",
            "client_email": "navarch@p-1.iam.gserviceaccount.com",
            "private_key": pem.decode(),
            "private_key_id": "1",
            "project_id": "p-1",
            "token_uri": f"{host}/token",
        }
        file = tmp_path / "account.json"
        file.write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        env = {"CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": f"{host}/"}
        assert read("gcp-sm:projects/p-1/secrets/token", env) == HUNTER
        assert read("gcp-sm:projects/p-1/secrets/token/versions/2", env) == "older"
        with pytest.raises(SecretError, match="holds no text"):
            read("gcp-sm:projects/p-1/secrets/bytes", env)
        with pytest.raises(SecretError, match="may not read"):
            read("gcp-sm:projects/p-2/secrets/token", env)


def test_aws_secrets_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("botocore")
    moto_server = pytest.importorskip("moto.server")
    import botocore.session

    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            monkeypatch.setenv(name, value)
        client: Any = botocore.session.Session().create_client(
            "secretsmanager", region_name="eu-west-1"
        )
        made = client.create_secret(Name="navarch/token", SecretString=HUNTER)
        client.create_secret(Name="both", SecretString=json.dumps({"key": HUNTER}))
        client.create_secret(Name="bytes", SecretBinary=b"\x00")
        env = {"AWS_REGION": "eu-west-1"}
        assert read("aws-sm:navarch/token", env) == HUNTER
        assert read(f"aws-sm:{made['ARN']}", {}) == HUNTER
        assert read("aws-sm:both#key", env) == HUNTER
        client.put_secret_value(SecretId="navarch/token", SecretString="rotated")
        assert read("aws-sm:navarch/token", env) == "rotated"
        with pytest.raises(SecretError, match="ResourceNotFoundException"):
            read("aws-sm:nope", env)
        with pytest.raises(SecretError, match="holds bytes"):
            read("aws-sm:bytes", env)
    finally:
        server.stop()

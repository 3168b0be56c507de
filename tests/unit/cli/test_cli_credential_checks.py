"""Checks of cloud credentials before they are stored, and `navarch doctor`."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cli_fleet import make_cli, running_fleet
from click.testing import Result

from navarch.cli.credentials import check_aws, check_gcp, check_lambda
from navarch.cli.errors import CommandError

SECRET = "hush-hush-hush"
Answer = Callable[[str, Mapping[str, str], bytes], tuple[int, bytes]]


@contextmanager
def a_cloud(answer: Answer) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, body = answer(self.path, headers, self.rfile.read(size))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _serve  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def lambda_cloud(path: str, headers: Mapping[str, str], _body: bytes) -> tuple[int, bytes]:
    assert path == "/instance-types"
    if headers.get("authorization") != f"Bearer {SECRET}":
        return 401, b'{"error": {"code": "global/invalid-api-key"}}'
    return 200, b'{"data": {"gpu_8x_h100_sxm5": {}}}'


def type_at(tmp_path: Path, line: str, stdin: str | None = None) -> Result:
    with running_fleet() as fleet:
        assert fleet.world.control is not None
        cli = make_cli(
            fleet.world.control.fleet,
            runner=fleet.runner,
            environ={"XDG_CONFIG_HOME": str(tmp_path)},
        )
        return cli.run(line, stdin=stdin)


def kept(tmp_path: Path) -> dict[str, Any]:
    file = tmp_path / "navarch" / "credentials.json"
    found: dict[str, Any] = json.loads(file.read_text())["providers"] if file.exists() else {}
    return found


def test_only_an_accepted_key_is_stored(tmp_path: Path) -> None:
    with a_cloud(lambda_cloud) as url:
        line = f"config set-credentials lambda --endpoint {url}/ --api-key-file -"
        wrong = type_at(tmp_path, line, "wrong-key")
        assert wrong.exit_code == 4
        assert "Lambda does not accept these credentials" in wrong.stderr
        assert "wrong-key" not in wrong.output
        assert kept(tmp_path) == {}
        right = type_at(tmp_path, line, SECRET)
    assert right.exit_code == 0, right.output
    assert "Lambda accepts the key: 1 instance types" in right.stdout
    assert SECRET not in right.output
    assert kept(tmp_path) == {"lambda": {"api_key": SECRET, "endpoint": url}}
    assert (tmp_path / "navarch" / "credentials.json").stat().st_mode & 0o077 == 0


def test_an_unreachable_cloud_is_not_reported_as_a_bad_key(tmp_path: Path) -> None:
    line = "config set-credentials lambda --endpoint http://127.0.0.1:9 --api-key-file -"
    result = type_at(tmp_path, line, SECRET)
    assert result.exit_code == 5
    assert "Lambda cannot be reached" in result.stderr
    assert kept(tmp_path) == {}


@pytest.mark.parametrize(("status", "code"), [(401, 4), (403, 4), (500, 5), (503, 5)])
def test_an_http_status_maps_to_an_exit_code(status: int, code: int) -> None:
    with a_cloud(lambda *_: (status, b"{}")) as url, pytest.raises(CommandError) as caught:
        check_lambda({"api_key": SECRET, "endpoint": url})
    assert caught.value.code == code
    assert SECRET not in str(caught.value)


STS = b"""<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:user/ops</Arn><UserId>AIDA</UserId>
<Account>123456789012</Account></GetCallerIdentityResult>
<ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></GetCallerIdentityResponse>"""
REFUSED = b"""<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error>
<Type>Sender</Type><Code>InvalidClientTokenId</Code><Message>no</Message></Error>
<RequestId>1</RequestId></ErrorResponse>"""


def test_check_aws_returns_the_caller_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("botocore", reason="navarch[aws] is not installed")
    monkeypatch.delenv("AWS_PROFILE", raising=False)

    def sts(_path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        assert b"Action=GetCallerIdentity" in body
        known = "Credential=AKIAGOOD/" in headers["authorization"]
        return (200, STS) if known else (403, REFUSED)

    with a_cloud(sts) as url:
        words = {"access_key_id": "AKIAGOOD", "secret_access_key": SECRET, "endpoint": url}
        assert check_aws(words) == (
            "AWS accepts the credentials: "
            "account 123456789012, as arn:aws:iam::123456789012:user/ops"
        )
        with pytest.raises(CommandError, match="InvalidClientTokenId") as caught:
            check_aws({**words, "access_key_id": "AKIABAD"})
    assert SECRET not in str(caught.value)


def test_check_aws_uses_credentials_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("botocore", reason="navarch[aws] is not installed")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    seen: list[str] = []

    def sts(_path: str, headers: Mapping[str, str], _body: bytes) -> tuple[int, bytes]:
        seen.append(headers["authorization"])
        return 200, STS

    with a_cloud(sts) as url:
        check_aws({"endpoint": url})
    assert "Credential=AKIAENV/" in seen[0]


def test_check_gcp_exchanges_the_key_for_a_token_and_reads_the_project(tmp_path: Path) -> None:
    pytest.importorskip("google.auth.transport.requests", reason="navarch[gcp] is not installed")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()

    def google(path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        if path == "/token":
            assert b"assertion=" in body
            return 200, b'{"access_token": "t0ken", "expires_in": 3600, "token_type": "Bearer"}'
        known = headers["authorization"] == "Bearer t0ken" and path == "/compute/projects/mine"
        return (200, b'{"name": "mine"}') if known else (404, b"{}")

    with a_cloud(google) as url:
        file = tmp_path / "key.json"
        document = {
            "type": "service_account",
            "client_email": "ops@mine.iam.gserviceaccount.com",
            "private_key": pem,
            "private_key_id": "1",
            "token_uri": f"{url}/token",
        }
        file.write_text(json.dumps(document))
        words = {"project": "mine", "key_file": str(file), "endpoint": f"{url}/compute"}
        assert check_gcp(words) == (
            "Google accepts the credentials: project mine, as ops@mine.iam.gserviceaccount.com"
        )
        with pytest.raises(CommandError, match="status 404"):
            check_gcp({**words, "project": "yours"})
        file.write_text("{}")
        with pytest.raises(CommandError, match="does not accept these credentials"):
            check_gcp(words)


def test_doctor_checks_everything_and_changes_nothing(tmp_path: Path) -> None:
    result = type_at(tmp_path, "doctor")
    for word in ("install", "credentials", "server", "port", "gpu driver", "docker", "ssh"):
        assert f" {word} " in result.stdout
    assert "navarch config set-credentials lambda --help" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_doctor_checks_stored_credentials_on_request(tmp_path: Path) -> None:
    type_at(tmp_path, "config set-credentials lambda --no-check --api-key-file -", SECRET)

    def refuse(cloud: str, words: Mapping[str, str]) -> str:
        assert words == {"api_key": SECRET}
        raise CommandError(f"{cloud} does not accept these credentials (status 401)")

    with running_fleet() as fleet:
        assert fleet.world.control is not None
        cli = make_cli(
            fleet.world.control.fleet,
            runner=fleet.runner,
            environ={"XDG_CONFIG_HOME": str(tmp_path)},
        )
        cli.environment = replace(cli.environment, check=refuse)
        result = cli.run("doctor --check-credentials")
    assert result.exit_code == 1
    assert "bad   credentials  lambda: lambda does not accept" in result.stdout
    assert SECRET not in result.output


CONFIG = """
providers:
  lambda: {type: lambda}
  work: {type: aws, profile: fleet}
  lab: {type: gcp, project: p}
  rack:
    type: baremetal
    ssh_private_key_path: KEY
    hosts: [{name: a, address: 10.0.0.1, host_key: ssh-ed25519 AAAA}]
pools:
  training:
    provider: rack
    instance_type: baremetal
    max_nodes: 1
    ssh_private_key_path: KEY
    setup_commands: [start]
"""


def test_doctor_reports_what_a_configuration_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAMBDA_API_KEY", raising=False)
    file, key = tmp_path / "navarch.yaml", tmp_path / "key"
    file.write_text(CONFIG.replace("KEY", str(key)))
    result = type_at(tmp_path / "home", f"doctor --config {file}")
    assert result.exit_code == 1
    assert "bad   provider     lambda (lambda): no API key" in result.stdout
    assert "ok    provider     work (aws): credentials profile" in result.stdout
    assert "note  provider     lab (gcp): no credentials, except the machine" in result.stdout
    assert result.stdout.count("cannot read") == 2
    key.write_text("")
    monkeypatch.setenv("LAMBDA_API_KEY", SECRET)
    result = type_at(tmp_path / "home", f"doctor --config {file}")
    assert result.stdout.count("SSH key is readable") == 2
    assert "lambda (lambda): credentials api_key" in result.stdout
    assert SECRET not in result.output


def test_doctor_refers_an_invalid_configuration_to_config_validate(
    tmp_path: Path,
) -> None:
    file = tmp_path / "navarch.yaml"
    file.write_text("pools: {training: {nonsense: 1}}")
    result = type_at(tmp_path / "home", f"doctor --config {file}")
    assert result.exit_code == 1
    assert f"navarch config validate {file}" in result.stdout


NO_ADDRESS = "machines of {} cannot reach the server: no address is set for them"


def test_doctor_reports_that_machines_of_a_cloud_cannot_reach_the_server(tmp_path: Path) -> None:
    file = tmp_path / "navarch.yaml"
    file.write_text("providers: {lab: {type: gcp, project: p}}")
    result = type_at(tmp_path / "home", f"doctor --config {file}")
    assert f"note  address      {NO_ADDRESS.format('lab')}" in result.stdout
    assert "set server.external_address to a URL that they reach" in result.stdout
    pools = "pools: {p: {provider: lab, instance_type: a3-highgpu-8g, max_nodes: 1}}"
    file.write_text(f"{file.read_text()}\n{pools}")
    result = type_at(tmp_path / "home", f"doctor --config {file}")
    assert result.exit_code == 1
    assert f'bad   config       pool "p": {NO_ADDRESS.format("lab")}' in result.stdout
    file.write_text(f"server: {{external_address: https://n.com}}\n{file.read_text()}")
    assert "cannot reach" not in type_at(tmp_path / "home", f"doctor --config {file}").stdout


def test_doctor_reports_stored_credentials_without_an_address(tmp_path: Path) -> None:
    folder = tmp_path / "navarch"
    folder.mkdir()
    file = folder / "credentials.json"
    file.write_text(json.dumps({"providers": {"lambda": {"api_key": SECRET}}}))
    file.chmod(0o600)
    assert NO_ADDRESS.format("lambda") in type_at(tmp_path, "doctor").stdout

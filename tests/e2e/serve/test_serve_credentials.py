"""Stored credentials are enough: a server without a file buys at their clouds."""

import json
from pathlib import Path

from tests.support.fleet_process import FleetProcess
from tests.support.lambda_server import KEY, local_lambda


def test_a_server_without_a_file_offers_the_clouds_of_stored_credentials(tmp_path: Path) -> None:
    server = FleetProcess(tmp_path, config=None, environ={"XDG_CONFIG_HOME": str(tmp_path)})
    with local_lambda(paced=False) as cloud:
        key = ("--api-key-file", "-", "--endpoint", cloud.url)
        stored = server.navarch("config", "set-credentials", "lambda", *key, typed=KEY)
        assert stored.returncode == 0, stored.stderr
        server.start()
        try:
            listed = server.navarch("offers", "--mine", "--type", "h100", "-o", "json")
            offers = json.loads(listed.stdout)
            best = offers[0]["offering"]

            assert server.log.read_text().count("  clouds   lambda\n") == 1
            assert best["provider"] == "lambda"
            assert best["price_per_hour"] == "3.29"
            assert offers[0]["configured"] is True
        finally:
            server.kill()


def test_a_stored_credential_that_the_cloud_refuses_does_not_stop_the_server(
    tmp_path: Path,
) -> None:
    server = FleetProcess(tmp_path, config=None, environ={"XDG_CONFIG_HOME": str(tmp_path)})
    with local_lambda(paced=False) as cloud:
        key = ("--no-check", "--api-key-file", "-", "--endpoint", cloud.url)
        server.navarch("config", "set-credentials", "lambda", *key, typed="expired")
        server.start()
        try:
            doctor = server.navarch("doctor", "--check-credentials")

            assert "lambda: Lambda does not accept these credentials" in doctor.stdout
            assert doctor.returncode == 1
            assert server.navarch("status").returncode == 0
        finally:
            server.kill()

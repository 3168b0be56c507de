"""A served pool that its cloud would never sell to is refused when it is created."""

from pathlib import Path

from tests.support.fleet_process import FleetProcess
from tests.support.lambda_server import KEY, local_lambda

CREATE = ("pool", "create", "training", "--provider", "lambda", "--type", "gpu_8x_h100_sxm5")
RIGHT = (*CREATE, "--max", "1", "--region", "us-east-1", "--ssh-key", "laptop")


def a_server(folder: Path, endpoint: str, key: str) -> FleetProcess:
    server = FleetProcess(folder)
    server.config.write_text(
        "server: {external_address: https://navarch.example.com}\n"
        f"providers: {{lambda: {{type: lambda, api_key: {key}, endpoint: '{endpoint}'}}}}\n"
    )
    return server


def test_a_pool_at_lambda_without_a_region_or_a_key_is_refused_with_the_remedy(
    tmp_path: Path,
) -> None:
    with local_lambda(paced=False) as cloud:
        server = a_server(tmp_path, cloud.url, KEY)
        server.start()
        try:
            for missing, words in {
                "--region": "pool training: lambda sells by region; give the pool a region",
                "--ssh-key": "pool training: lambda needs exactly one SSH key per machine, not 0",
            }.items():
                at = RIGHT.index(missing)
                ran = server.navarch(*RIGHT[:at], *RIGHT[at + 2 :])
                assert ran.returncode == 2, ran.stdout
                assert words in " ".join(ran.stderr.split())
            assert not server.ask(lambda api: api.list_pools())
            ran = server.navarch(*RIGHT)
            assert ran.returncode == 0, ran.stderr
        finally:
            server.kill()


def test_a_pool_at_a_cloud_that_refuses_the_key_of_the_server_is_refused(tmp_path: Path) -> None:
    with local_lambda(paced=False) as cloud:
        server = a_server(tmp_path, cloud.url, "another-key")
        server.start()
        try:
            ran = server.navarch(*RIGHT)
            assert ran.returncode == 2, ran.stdout
            assert "pool training: lambda accepts no launch" in " ".join(ran.stderr.split())
            assert "navarch doctor --check-credentials" in " ".join(ran.stderr.split())
        finally:
            server.kill()

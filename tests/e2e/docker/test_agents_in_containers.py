"""Containers that run the agent, end to end: the agent's image, a real engine, a real server.

The image is built from the unchanged Dockerfile, on a base image with the host's Python, because
no registry is used. The server runs in the containers' network; they reach it at an address of
the bridge, as they would reach their host.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.docker_engine import (
    EngineDidNotStartError,
    docker_engine,
    engine_missing,
    namespace_of,
)
from tests.support.python_image import NoWheelsError, fetch_wheels, import_python

pytestmark = pytest.mark.long

PROJECT = Path(__file__).parents[3]
BRIDGE = "172.17.0.1"
CONFIG = f"""
server:
  address: 0.0.0.0:50051
  grpc_address: 127.0.0.1:50052
  external_address: http://{BRIDGE}:50051
  auth_token: the-operators-token
  heartbeat_interval: 1s
providers:
  boxes: {{type: docker, host: "HOST", image: navarch-agent, gpu_count: 8}}
pools:
  training:
    {{provider: boxes, instance_type: box, max_nodes: 3, health: {{silent_after: 5s}}}}
"""


@dataclass(frozen=True, slots=True)
class Site:
    """An engine with the agent's image, and access to its network."""

    host: str
    inside: list[str]

    def docker(self, *words: str) -> str:
        ran = subprocess.run(
            ["docker", "-H", self.host, *words], capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
        return ran.stdout

    def containers(self) -> list[str]:
        return self.docker("ps", "-q", "--no-trunc").split()


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    missing = engine_missing()
    if missing is not None:
        pytest.skip(missing)
    with tempfile.TemporaryDirectory(prefix="nd") as name:
        folder = Path(name)
        wheels = folder / "wheels"
        wheels.mkdir()
        try:
            fetch_wheels(PROJECT, wheels)
        except NoWheelsError as error:
            pytest.skip(f"the packages of the image cannot be had: {error}")
        try:
            with docker_engine(folder / "e") as host:
                import_python(host, "python:3.12-slim", wheels)
                found = Site(host, namespace_of(folder / "e"))
                dockerfile = str(PROJECT / "deploy/container/Dockerfile")
                found.docker("build", "-f", dockerfile, "-t", "navarch-agent", str(PROJECT))
                yield found
        except EngineDidNotStartError as error:
            pytest.skip(f"the engine did not start: {error}")


class Server:
    """`navarch serve` in the containers' network, with a command line client."""

    def __init__(self, site: Site, folder: Path) -> None:
        self._site = site
        self._log = folder / "serve.log"
        config = folder / "navarch.yaml"
        config.write_text(CONFIG.replace("HOST", site.host))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._words("serve", "--config", str(config), "--data-dir", str(folder / "data")),
                stdout=log,
                stderr=log,
            )

    def _words(self, *words: str) -> list[str]:
        return [*self._site.inside, sys.executable, "-m", "navarch.cli", *words]

    def navarch(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._words("-s", "http://127.0.0.1:50051", "--token", "the-operators-token", *words),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def active(self) -> list[str] | None:
        """Return the active nodes; None while the server does not respond."""
        ran = self.navarch("list", "--output", "json")
        if ran.returncode:
            return None
        found: list[dict[str, Any]] = json.loads(ran.stdout)
        return sorted(node["id"] for node in found if node["status"] == "active")

    def until_active(self, names: list[str]) -> None:
        for _ in range(120):
            if self.active() == names:
                return
            try:
                self._process.wait(timeout=0.5)
            except subprocess.TimeoutExpired:
                continue
            break
        logs = [self._site.docker("logs", each)[-1500:] for each in self._site.containers()]
        raise AssertionError(f"{self.active()}\n{self._log.read_text()[-3000:]}\n{logs}")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)


def test_containers_are_started_join_are_replaced_and_are_removed(
    site: Site, tmp_path: Path
) -> None:
    server = Server(site, tmp_path)
    try:
        server.until_active([])
        assert server.navarch("pool", "scale", "training", "2").returncode == 0
        server.until_active(["training-0", "training-1"])
        described = json.loads(site.docker("inspect", *site.containers()))
        environment = [entry for each in described for entry in each["Config"]["Env"]]
        assert any(entry.startswith("NAVARCH_JOIN_TOKEN=nvj1.") for entry in environment)
        assert not any("the-operators-token" in entry for entry in environment)
        lost = next(x["Id"] for x in described if x["Config"]["Hostname"] == "training-0")
        site.docker("kill", lost)
        server.until_active(["training-1", "training-2"])
        assert server.navarch("pool", "scale", "training", "0").returncode == 0
        server.until_active([])
        for _ in range(60):
            if not site.containers():
                break
            server.active()
        assert site.containers() == []
    finally:
        server.stop()
        for each in site.containers():
            site.docker("rm", "-f", each)


def test_the_image_contains_the_agent_and_not_the_server(site: Site) -> None:
    output = site.docker("run", "--rm", "--entrypoint", "navarch", "navarch-agent", "version")
    assert "0.1.0" in output
    heavy = "import importlib.util as u; print([m for m in ('numpy', 'grpc') if u.find_spec(m)])"
    program = ("--entrypoint", "/opt/navarch/bin/python", "navarch-agent", "-c", heavy)
    assert site.docker("run", "--rm", *program).strip() == "[]"

"""Containers that run Navarch, end to end: its images, a real engine, a real server.

The images are built from the unchanged Dockerfiles and the files of a release, on a base image with
the host's Python, because no registry is used. The server runs in the containers' network; they
reach it at an address of the bridge, as they would reach their host.
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
from tests.support.distribution import (
    NoPackagesError,
    build_release,
    builder_missing,
    download_locked,
)
from tests.support.docker_engine import (
    EngineDidNotStartError,
    docker_engine,
    engine_missing,
    namespace_of,
)
from tests.support.python_image import import_python

pytestmark = pytest.mark.long

PROJECT = Path(__file__).parents[3]
IMAGES = {"navarch-agent": "agent", "navarch": "control-plane"}
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

    def logs(self, container: str) -> str:
        ran = subprocess.run(
            ["docker", "-H", self.host, "logs", container],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return ran.stdout[-2000:]

    def containers(self) -> list[str]:
        return self.docker("ps", "-q", "--no-trunc").split()


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    missing = engine_missing() or builder_missing()
    if missing is not None:
        pytest.skip(missing)
    with tempfile.TemporaryDirectory(prefix="nd") as name:
        folder = Path(name)
        release, wheels = build_release(folder / "release"), folder / "wheels"
        try:
            download_locked("control-plane", wheels)
        except NoPackagesError as error:
            pytest.skip(f"the packages of the images cannot be had: {error}")
        try:
            with docker_engine(folder / "e") as host:
                import_python(host, "python:3.12-slim", wheels)
                found = Site(host, namespace_of(folder / "e"))
                for image, program in IMAGES.items():
                    dockerfile = str(PROJECT / f"deploy/container/{program}.Dockerfile")
                    found.docker("build", "-f", dockerfile, "-t", image, str(release))
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


@pytest.mark.parametrize("image", IMAGES)
def test_images_run_without_root_and_without_pip(site: Site, image: str) -> None:
    python = ("--entrypoint", "/opt/navarch/bin/python", image, "-c")
    program = "import os, importlib.util as u; print(os.getuid(), bool(u.find_spec('pip')))"
    assert site.docker("run", "--rm", *python, program).split() == ["10001", "False"]


def test_the_image_of_the_agent_does_not_contain_the_server(site: Site) -> None:
    output = site.docker("run", "--rm", "--entrypoint", "navarch", "navarch-agent", "version")
    assert "0.1.0" in output
    heavy = "import importlib.util as u; print([m for m in ('numpy', 'grpc') if u.find_spec(m)])"
    program = ("--entrypoint", "/opt/navarch/bin/python", "navarch-agent", "-c", heavy)
    assert site.docker("run", "--rm", *program).strip() == "[]"


def test_the_control_plane_serves_agents_from_a_container_that_it_cannot_write_to(
    site: Site, tmp_path: Path
) -> None:
    config = tmp_path / "navarch.yaml"
    config.write_text("providers: {fake: {type: fake}}\n")
    tmp_path.chmod(0o755)
    server = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges")
    token = "--env=NAVARCH_AUTH_TOKEN=a-token-of-the-test"
    mount = f"--volume={config}:/etc/navarch/navarch.yaml:ro"
    agents = "--env=NAVARCH_AGENT_TOKEN=the-agents-token"
    join = "--env=NAVARCH_JOIN_TOKEN=the-agents-token"
    control_plane = site.docker("run", "-d", *server, token, agents, mount, "navarch").strip()
    (described,) = json.loads(site.docker("inspect", control_plane))
    url = f"http://{described['NetworkSettings']['IPAddress']}:50051"
    agent = site.docker(
        "run", "-d", f"-eNAVARCH_SERVER={url}", "-eNAVARCH_NODE_ID=box", join, "navarch-agent"
    ).strip()
    words = [
        *site.inside,
        sys.executable,
        "-m",
        "navarch.cli",
        "-s",
        url,
        "--token=a-token-of-the-test",
    ]
    try:
        for _ in range(60):
            asked = subprocess.run([*words, "get", "box"], capture_output=True, check=False)
            (described,) = json.loads(site.docker("inspect", control_plane))
            assert described["State"]["Running"], site.logs(control_plane)
            if asked.returncode == 0:
                break
        else:
            pytest.fail(site.logs(control_plane) + site.logs(agent))
        site.docker("stop", control_plane)
        (described,) = json.loads(site.docker("inspect", control_plane))
        assert described["State"]["ExitCode"] == 0, site.logs(control_plane)
    finally:
        site.docker("rm", "-f", control_plane, agent)

"""A running server keeps its configuration if the new one has no address for agents."""

import signal
from pathlib import Path

from tests.support.fleet_process import CONFIG, FleetProcess

AT_A_CLOUD = """
  far: {provider: aws, instance_type: h100-8x, min_nodes: 0, max_nodes: 1}
"""


def test_a_reload_refuses_a_pool_at_a_cloud_without_an_external_address(
    tmp_path: Path,
) -> None:
    server = FleetProcess(tmp_path)
    server.start()
    assert server.process is not None
    with_cloud = CONFIG.replace("pools:", "  aws: {type: aws, region: us-east-1}\npools:")
    text = with_cloud.replace("BAD", "0") + AT_A_CLOUD.lstrip("\n")
    server.config.write_text(text)
    line = len(text.splitlines())
    try:
        server.process.send_signal(signal.SIGHUP)
        server.until(
            lambda: "configuration not reloaded, the previous one stays in force" in read(server)
        )
        assert f"{server.config}:{line}:" in read(server)
        assert "machines of aws cannot reach the server: no address is set for them" in read(server)
        assert "far" not in server.navarch("pool", "list").stdout
    finally:
        server.kill()


def read(server: FleetProcess) -> str:
    return server.log.read_text()

"""Nodes beyond the budget wait in a real server until an operator releases them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.fleet_process import FleetProcess

from navarch.core.ids import PoolName
from navarch.ports.api import Query


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FleetProcess]:
    made = FleetProcess(tmp_path)
    made.start()
    yield made
    made.kill()


def test_nodes_beyond_the_budget_wait_until_an_operator_releases_them(server: FleetProcess) -> None:
    def present() -> set[str]:
        nodes = server.ask(lambda api: api.list_nodes(Query(pool=PoolName("training")))).items
        return {node.id for node in nodes}

    server.until(lambda: present() == {"training-0", "training-1"})
    for name in sorted(present()):
        server.until(lambda: server.navarch("sim", "inject", name, "--xid", "79").returncode == 0)  # noqa: B023
    server.until(lambda: "automation may act on" in server.navarch("held").stdout)

    listed = server.navarch("held").stdout
    assert "To release: navarch held release NODE" in listed
    (waiting,) = [name for name in ("training-0", "training-1") if name in listed]

    refused = server.navarch("held", "release", "--pool", "training", typed="n\n")
    assert "Run the held actions of 1 node in pool training now?" in refused.stdout
    assert refused.returncode != 0
    assert waiting in server.navarch("held").stdout, "a no changes nothing"

    done = server.navarch("held", "release", "--pool", "training", "--yes")
    assert done.returncode == 0, done.stderr
    server.until(lambda: waiting not in present())

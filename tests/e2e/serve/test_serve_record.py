"""A running fleet is recorded through its API, and the recording is replayed."""

from collections import Counter
from datetime import timedelta
from pathlib import Path

import yaml
from tests.support.fleet_process import FleetProcess

from navarch.core.ids import NodeId
from navarch.core.node import NodeStatus
from navarch.ports.api import Query
from navarch.sim.runner.runner import run_scenario
from navarch.sim.scenario.loading import load_scenario

STEPS = ("node.requested", "node.registered", "node.cordoned", "node.retiring", "node.gone")
CONFIG = """
server:
  heartbeat_interval: 1s
  health_check_interval: 1s
providers:
  acme-cloud: {type: fake, boot_min: 100ms, boot_max: 500ms, bad_boot_share: 0}
pools:
  secret-project:
    provider: acme-cloud
    instance_type: h100-8x
    min_nodes: 2
    max_nodes: 4
    labels: {owner: secret-team}
"""


def test_a_fleet_is_recorded_anonymously_through_the_api_and_replays_the_same(
    tmp_path: Path,
) -> None:
    fleet = FleetProcess(tmp_path, token="hush-hush-hush-hush")
    fleet.config.write_text(CONFIG)
    fleet.start()
    try:
        active = Query(status=NodeStatus.ACTIVE)

        def count() -> int:
            return len(fleet.ask(lambda api: api.list_nodes(active)).items)

        fleet.until(lambda: count() == 2)
        first = NodeId("secret-project-0")
        assert fleet.navarch("sim", "inject", first, "--xid", "79").returncode == 0
        gone = Query(status=NodeStatus.TERMINATED, include_gone=True)
        fleet.until(lambda: len(fleet.ask(lambda api: api.list_nodes(gone)).items) == 1)
        fleet.until(lambda: count() == 2)
        last = NodeId("secret-project-2")
        assert fleet.navarch("cordon", last, "--reason", "secret-reason").returncode == 0
        nodes = fleet.ask(lambda api: api.list_nodes(Query(include_gone=True))).items
        journal = fleet.ask(lambda api: api.events(limit=1000))
        file = tmp_path / "trace.yaml"
        done = fleet.navarch("sim", "record", str(file))
        again = fleet.navarch("sim", "record", str(file))
        timed = tmp_path / "timed.yaml"
        exact = fleet.navarch("sim", "record", str(timed), "--config", str(fleet.config))
    finally:
        fleet.stop()

    assert done.returncode == 0, done.stderr
    assert "3 machines in 1 pools" in done.stdout
    assert again.returncode == 1
    assert "already exists" in again.stderr, "a file that exists is not overwritten"

    text = file.read_text()
    subjects = [entry.event.about.partition("/") for entry in journal]
    named = ("node", "pool", "launch", "incident", "command")
    names = {name for kind, _, name in subjects if kind in named}
    ids = {str(node.instance) for node in nodes} | {node.private_address for node in nodes}
    for secret in ("secret", "acme", "h100-8x", "hush", "127.0.0", *names, *(ids - {""})):
        assert secret not in text, secret

    outcome = run_scenario(load_scenario(file), seed=5)
    assert outcome.passed, outcome.broken
    happened: dict[str, list[str]] = {}
    for entry in journal:
        if entry.event.kind in STEPS:
            happened.setdefault(entry.event.about, []).append(entry.event.kind)
    played = [[x.kind for x in node.entries if x.kind in STEPS] for node in outcome.nodes]
    assert Counter(map(tuple, played)) == Counter(map(tuple, happened.values()))
    assert yaml.safe_load(text)["pools"].keys() == {"pool-1"}
    assert "Assuming heartbeats every 30s; pass --config for the real interval" in done.stdout
    assert exact.returncode == 0, exact.stderr
    assert load_scenario(timed).timing.heartbeat_interval == timedelta(seconds=1)

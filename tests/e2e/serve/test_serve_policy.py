"""Policies in a real server: refusal of invalid ones, and reload."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.fleet_process import FleetProcess

from navarch.core.health import Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.incident import IncidentState
from navarch.core.node import NodeStatus
from navarch.ports.api import Query

GOOD = """
version: v1
metadata: {name: house}
rules:
  - name: crashes
    condition: event.metrics.xid_code == 31
    result: RESULT
  - name: checks
    condition: check.fatal == true
    result: unhealthy
"""
BROKEN = GOOD.replace("xid_code ==", "xid_code == ==")


class Site:
    """A server with a separate policy for one pool."""

    def __init__(self, folder: Path) -> None:
        self.policy = folder / "policy.yaml"
        self.server = FleetProcess(folder)
        text = self.server.config.read_text().replace(
            "max_nodes: 4}", "max_nodes: 4, health: {policy: policy.yaml, auto_replace: false}}"
        )
        self.server.config.write_text(text)

    def write(self, policy: str, result: str = "healthy") -> None:
        self.policy.write_text(policy.replace("RESULT", result))

    def reload(self, expected: str) -> None:
        assert self.server.process is not None
        self.server.process.send_signal(signal.SIGHUP)
        self.server.until(lambda: expected in self.server.log.read_text())

    def status(self, node: str) -> NodeStatus | None:
        return self.server.ask(lambda api: api.get_node(NodeId(node))).node.status

    def filled(self) -> bool:
        query = Query(pool=PoolName("training"))
        nodes = self.server.ask(lambda api: api.list_nodes(query)).items
        return [node.status for node in nodes] == [NodeStatus.ACTIVE] * 2

    def inject(self, node: str, code: int) -> None:
        done = self.server.navarch("sim", "inject", node, "--xid", str(code))
        assert done.returncode == 0, done.stderr


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    process = made.server.process
    if process is not None and process.poll() is None:
        made.server.kill()


def test_a_policy_with_a_syntax_error_does_not_hide_fatal_errors(site: Site) -> None:
    """B14: the server logged the error, went on without its policy, and ignored fatal XIDs."""
    site.write(BROKEN)
    config = ["--config", str(site.server.config), "--data-dir", str(site.server.data_dir)]
    refused = subprocess.run(
        [*site.server.command(), *config], capture_output=True, text=True, check=False, timeout=60
    )
    assert refused.returncode == 2
    assert "policy.yaml:6:42: Syntax error" in refused.stderr

    site.write(GOOD)
    site.server.start()
    site.server.until(site.filled)
    site.write(BROKEN)
    site.reload("configuration not reloaded, the previous one stays in force")
    site.inject("training-0", 79)

    site.server.until(lambda: site.status("training-0") is NodeStatus.UNHEALTHY)
    (incident,) = site.server.ask(lambda api: api.list_incidents(only_open=True))
    assert (incident.code, incident.state) == ("79", IncidentState.OPEN)
    assert incident.symptoms[0].rule == "checks", "the policy from before is still in force"


def test_a_changed_policy_applies_after_sighup_and_the_journal_shows_it(
    site: Site,
) -> None:
    site.write(GOOD)
    site.server.start()
    site.server.until(site.filled)
    site.inject("training-0", 31)
    site.server.until(lambda: len(site.server.ask(lambda api: api.list_incidents())) == 1)
    assert site.status("training-0") is NodeStatus.ACTIVE

    stricter = site.policy.with_name("stricter.yaml")
    stricter.write_text(GOOD.replace("RESULT", "unhealthy"))
    result = site.server.navarch("policy", "diff", str(site.policy), str(stricter), "-o", "json")
    assert result.returncode == 0, result.stderr
    comparison = json.loads(result.stdout)
    (difference,) = comparison["differences"]
    assert (difference["old"]["health"], difference["new"]["health"]) == ("healthy", "unhealthy")
    assert (comparison["old"]["nodes_out"], comparison["new"]["nodes_out"]) == (0, 1)
    in_words = site.server.navarch("policy", "diff", str(site.policy), str(stricter))
    assert "1 event since" in in_words.stdout

    site.write(GOOD, result="unhealthy")
    site.reload("configuration reloaded")
    site.inject("training-1", 31)
    site.server.until(lambda: site.status("training-1") is NodeStatus.UNHEALTHY)
    assert site.status("training-0") is NodeStatus.ACTIVE, "what was judged before stays judged"
    listed = site.server.navarch("incident", "list", "--open", "--node", "training-1")
    assert "XID 31" in listed.stdout


TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
GREEDY = f"""
version: v1
metadata: {{name: house}}
rules:
  - name: every-combination
    condition: |
      {TEN}.exists(a, {TEN}.exists(b, {TEN}.exists(c, {TEN}.exists(d, {TEN}.exists(e,
        a + b + c + d + e > 45 && event.metrics.xid_code == a)))))
    result: unhealthy
"""
"""Valid, but above the step limit of CEL: it takes ten to the power of five steps."""


def test_a_policy_that_fails_at_run_time_leaves_nodes_unknown_until_it_is_fixed(site: Site) -> None:
    def health(node: str) -> Health:
        return site.server.ask(lambda api: api.get_node(NodeId(node))).node.health

    site.write(GREEDY)
    site.server.start()
    site.server.until(site.filled)
    checked = site.server.navarch("policy", "check", str(site.policy))
    assert checked.returncode == 0, checked.stderr
    site.inject("training-0", 31)
    site.inject("training-1", 79)
    site.server.until(lambda: health("training-0") is Health.UNKNOWN)
    site.server.until(lambda: health("training-1") is Health.UNHEALTHY)
    result = site.server.navarch("why", "node", "training-0")
    assert "rule every-combination" in result.stdout, result.stdout
    assert site.status("training-0") is NodeStatus.ACTIVE

    site.write(GOOD)
    site.reload("configuration reloaded")
    site.server.until(lambda: health("training-0") is Health.HEALTHY)
    assert health("training-1") is Health.UNHEALTHY

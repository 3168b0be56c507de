"""The simulator's programs: the interactive mode, and runs against a real server."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def program(*words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "navarch.cli", *words],
        input=typed,
        capture_output=True,
        text=True,
        timeout=600,  # A busy machine starts a server within minutes.
        cwd=ROOT,
        check=False,
    )


def test_the_interactive_mode_carries_out_commands() -> None:
    lines = ["wait 20", "inject node-1 xid 79", "wait 10", "status", "dance", "cordon node-2"]
    lines += ["inject node-2 gremlin", "inject node-2 straggler"]
    done = program("sim", "interactive", typed="\n".join([*lines, "wait 5", "status", "quit"]))

    assert done.returncode == 0, done.stderr
    assert "1 active, 1 unhealthy" in done.stdout
    assert "1 cordoned, 1 unhealthy" in done.stdout
    assert "'dance' is not a command; type help" in done.stdout
    assert 'unknown failure type "gremlin"; known types: xid_error, temperature' in done.stdout
    assert "a straggler is only visible next to other nodes of its job" in done.stdout


def test_a_scenario_runs_against_a_real_server(tmp_path: Path) -> None:
    file = tmp_path / "wire.yaml"
    file.write_text(
        """
name: wire
timing: {heartbeat_interval: 1s, health_check_interval: 1s}
stress:
  duration: 40s
  time_scale: 5
  fleet_gen: {total_nodes: 20, templates: [{name: a, weight: 1, gpu_count: 8}],
              startup: {pattern: instant}}
events:
  - {at: 20s, action: log, params: {log_message: hello}}
assertions:
  - {type: node_count, target: all, expected: "20"}
"""
    )
    done = program("sim", "run", str(file), "--real-time", "--json")

    assert done.returncode == 0, done.stdout + done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["real_time"] is True
    assert outcome["heartbeats_lost"] == 0
    assert outcome["heartbeats_sent"] >= 20
    assert outcome["heartbeat_answers"]["count"] == outcome["heartbeats_sent"]
    assert 0.9 < outcome["silence_max_s"] < outcome["simulated_s"]
    assert 7 < outcome["simulated_s"] < 30, "forty seconds, five times as fast"

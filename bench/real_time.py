"""Simulated agents against a real server on one machine: lost heartbeats and CPU time, as JSON.

The server and the agents are separate processes, started by `navarch sim run --real-time`; their
CPU time is measured, so that other load on the machine matters little. There are two runs: with
agents that start one after the other, and with agents that all start at the same time, register at
once and send heartbeats nearly together from then on.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCENARIO = """
name: load
timing:
  heartbeat_interval: {interval}s
  heartbeat_timeout: {timeout}s
  health_check_interval: 60s
stress:
  duration: {seconds}s
  metrics_interval: 10s
  fleet_gen:
    total_nodes: {agents}
    templates: [{{name: a, weight: 1, gpu_count: 8}}]
    startup: {startup}
assertions:
  - {{type: node_count, target: all, expected: "{agents}"}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=5_000)
    parser.add_argument("--seconds", type=int, default=60, help="after all are up")
    parser.add_argument("--startup", type=int, default=60, help="seconds for all to come up")
    parser.add_argument("--interval", type=int, default=10, help="between two heartbeats")
    given = parser.parse_args()
    one_by_one = _play(given, f"{{pattern: linear, duration: {given.startup}s}}")
    at_once = _play(given, "{pattern: instant}")
    runs = {"one_by_one": one_by_one, "at_once": at_once}
    print(
        json.dumps(
            {
                "bench": "real_time",
                "agents": given.agents,
                "heartbeat_interval_s": given.interval,
                "runs": runs,
                "load_average": os.getloadavg()[0],
                "target": "5,000 agents, every heartbeat kept, on two cores",
                "met": given.agents >= 5_000 and all(run["kept_all"] for run in runs.values()),
            },
            indent=2,
        )
    )


def _play(given: argparse.Namespace, startup: str) -> dict[str, object]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "load.yaml"
        file.write_text(
            SCENARIO.format(
                agents=given.agents,
                seconds=given.seconds,
                startup=startup,
                interval=given.interval,
                timeout=3 * given.interval,
            )
        )
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "navarch.cli", "sim", "run", str(file), "--real-time", "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
        wall_s = time.monotonic() - began
    if not done.stdout:
        sys.exit(done.stderr)
    outcome = json.loads(done.stdout)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    sent, lost = outcome["heartbeats_sent"], outcome["heartbeats_lost"]
    answers, false_cordons = outcome["heartbeat_answers"], outcome["figures"]["false_cordons"]
    return {
        "heartbeats_sent": sent,
        "heartbeats_lost": lost,
        "answer_p50_ms": _millis(answers["p50_s"]),
        "answer_p95_ms": _millis(answers["p95_s"]),
        "answer_max_ms": _millis(answers["max_s"]),
        "silence_max_s": outcome["silence_max_s"],
        "passed": outcome["passed"],
        "false_cordons": false_cordons,
        "wall_s": round(wall_s, 1),
        "cpu_s_of_both": round(cpu_s, 1),
        "cpu_ms_per_heartbeat": round(1000 * cpu_s / max(sent, 1), 2),
        "cores_used": round(cpu_s / wall_s, 2),
        # No agent was refused or lost, or so late that it sent one heartbeat less.
        "kept_all": outcome["passed"]
        and not lost
        and not false_cordons
        and outcome["silence_max_s"] < 2 * given.interval,
    }


def _millis(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 1)


if __name__ == "__main__":
    main()

"""Simulated agents against a real server on one machine: who is heard, and what it costs. JSON.

The server and the agents are processes of their own, started by `navarch sim run --real-time`; CPU
time is theirs, so that it says something on a busy machine as well.
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
    startup: {{pattern: linear, duration: {startup}s}}
assertions:
  - {{type: node_count, target: all, expected: "{agents}"}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=5_000)
    parser.add_argument("--seconds", type=int, default=60, help="after all are up")
    parser.add_argument("--startup", type=int, default=60, help="seconds for all to come up")
    parser.add_argument("--interval", type=int, default=30, help="between two heartbeats")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "load.yaml"
        file.write_text(
            SCENARIO.format(
                agents=given.agents,
                seconds=given.seconds,
                startup=given.startup,
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
    cpu_s = used.ru_utime + used.ru_stime
    sent, lost = outcome["heartbeats_sent"], outcome["heartbeats_lost"]
    print(
        json.dumps(
            {
                "bench": "real_time",
                "agents": given.agents,
                "heartbeat_interval_s": given.interval,
                "heartbeats_sent": sent,
                "heartbeats_lost": lost,
                "passed": outcome["passed"],
                "false_cordons": outcome["figures"]["false_cordons"],
                "wall_s": round(wall_s, 1),
                "cpu_s_of_both": round(cpu_s, 1),
                "cores_used": round(cpu_s / wall_s, 2),
                "load_average": os.getloadavg()[0],
                "target": "5,000 agents, no heartbeat lost, on two cores",
                "met": given.agents >= 5_000
                and not outcome["heartbeats_lost"]
                and outcome["passed"],
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()

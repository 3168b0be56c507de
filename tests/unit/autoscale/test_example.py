"""The example of a custom autoscaler runs."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "autoscaler" / "cost_aware.py"


def test_the_example_runs() -> None:
    ran = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True)

    lines = ran.stdout.splitlines()
    assert lines[0] == "00:00 UTC  4 -> 3  utilization 20.0% is below half the threshold"
    assert lines[3] == "09:00 UTC  4 -> 1  off-peak hours, scaling to minimum"
    assert lines[5] == "15:00 UTC  4 -> 5  utilization 90.0% exceeds threshold"

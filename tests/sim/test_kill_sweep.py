"""The crash sweep on a real database file, with a real kill -9."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SWEEP = Path(__file__).with_name("kill_sweep.py")


def sweep(scratch: Path, every: int) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, str(SWEEP), str(scratch), str(every)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, object] = json.loads(done.stdout)
    return result


def test_a_control_plane_killed_at_every_tenth_write_leaves_the_fleet_whole(tmp_path: Path) -> None:
    result = sweep(tmp_path, 10)
    assert result["failed"] == []
    assert isinstance(result["points"], int)
    assert result["points"] >= 20


@pytest.mark.long
def test_a_control_plane_killed_at_any_write_leaves_the_fleet_whole(tmp_path: Path) -> None:
    assert sweep(tmp_path, 1)["failed"] == []

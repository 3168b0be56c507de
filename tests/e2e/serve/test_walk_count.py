"""The walk from an XID to the replaced node enters a bounded number of functions."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "count-walk"
FUNCTIONS_MAX = 1042
"""A commit that raises the bound names the feature.

`scripts/count-walk --list` prints the functions.
"""


@pytest.mark.long
def test_the_walk_from_an_xid_to_the_replaced_node_is_short() -> None:
    command = [sys.executable, str(SCRIPT), "--most", str(FUNCTIONS_MAX)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr

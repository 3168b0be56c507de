"""A collection of garbage stops the whole process, so each one has a bounded number of objects."""

import subprocess
import sys

OBJECTS_MAX = 300_000
GROWTH = """
import gc
from navarch.api.metrics import settle_collector

settle_collector()
sizes = []

def note(phase, info):
    if phase == "start" and info["generation"] == 1:
        sizes.append(len(gc.get_objects(0)) + len(gc.get_objects(1)))

gc.callbacks.append(note)
kept = [[] for _ in range(1_500_000)]
print(max(sizes), len(sizes))
"""


def test_the_collections_of_a_process_that_grows_are_small() -> None:
    done = subprocess.run(
        [sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True, timeout=120
    )
    largest, collections = map(int, done.stdout.split())
    assert collections >= 5
    assert largest < OBJECTS_MAX

"""Compare the decisions of fast paths with those of the reference, on random clusters.

usage: python -m bench.scheduler_equal [--clusters 10000] [--first 0]

Every cluster is scheduled twice with all default plugins and actions, once with fast paths and once
without; the decisions must be the same, in the same order. Strategies alternate.
"""

import argparse
import json
import sys
import time

from bench.scheduler_workloads import decided


def main() -> None:
    """Compare, and print the result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    different, decisions = [], 0
    start = time.process_time()
    for seed in range(given.first, given.first + given.clusters):
        quick = decided(seed, fast=True)
        decisions += len(quick)
        if quick != decided(seed, fast=False):
            different.append(seed)
    print(
        json.dumps(
            {
                "clusters": given.clusters,
                "decisions": decisions,
                "different": different,
                "cpu_s": round(time.process_time() - start, 1),
            }
        )
    )
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()

"""A bad driver on a whole fleet: nodes acted on, the suspected change, CPU time of decisions."""

import argparse
import json
from dataclasses import asdict

from bench.rollout import roll_out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--broken", type=float, default=0.03, help="share that breaks by itself")
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    runs = [
        asdict(roll_out(given.nodes, share_broken=given.broken, seed=seed))
        for seed in range(1, given.seeds + 1)
    ]
    print(json.dumps({"bench": "governor", "runs": runs}, indent=2))


if __name__ == "__main__":
    main()

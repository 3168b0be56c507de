"""What is promised of pools, measured.

usage: python -m bench.pools [market] [leaks] [storms] [planning] [ledger] [--seeds 100] [--days 30]
           [--launches 1000000] [--storms 1000] [--repeat 9] [--first 0]

Without a name all of them run, which takes about an hour of one core; `leaks` is most of it.
Each can be cut into parts: `--first` is the seed to begin with.
"""

import argparse
import json
import logging
import sys
from collections.abc import Callable

import structlog

from bench.pools_leaks import leaks
from bench.pools_ledger import ledger
from bench.pools_market import market
from bench.pools_planning import planning
from bench.pools_storms import storms


def main() -> None:
    given = _parser().parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    parts: dict[str, Callable[[], dict[str, object]]] = {
        "planning": lambda: planning(given.repeat),
        "market": lambda: market(given.seeds, given.days, given.first),
        "ledger": lambda: ledger(given.launches),
        "storms": lambda: storms(given.storms, given.first),
        "leaks": lambda: leaks(given.launches, given.first),
    }
    unknown = [name for name in given.parts if name not in parts]
    if unknown:
        sys.exit(f"no such part: {', '.join(unknown)}; there are {', '.join(parts)}")
    wanted = given.parts or list(parts)
    print(json.dumps({name: parts[name]() for name in wanted}, indent=2))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.pools",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="part")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--launches", type=int, default=1_000_000)
    parser.add_argument("--storms", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--first", type=int, default=0, help="the seed to begin with")
    return parser


if __name__ == "__main__":
    main()

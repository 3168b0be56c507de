"""Measurements of pools, each with its target.

usage: python -m bench.pools [planning] [definitions] [ledger] [market] [storms] [leaks] [leftovers]
           [--seeds 100] [--days 30] [--launches 1000000] [--storms 1000] [--repeat 9] [--first 0]
       python -m bench.pools merge FILE ...

Without a name all run, which takes about an hour and a half of one core; `leaks` is a third of it.
The last key of the output, `figures`, has for each target whether it is met (null: there is no
target, or the run is too short to decide), and the exit status is 1 if one is missed.

The long ones can be cut into parts and put together again, `--first` being the seed to begin with:

    python -m bench.pools market --seeds 25 --first 75 > market-75.json
    python -m bench.pools leaks --launches 100000 --first 1000 > leaks-1000.json
    python -m bench.pools storms --storms 250 --first 750 > storms-750.json
    python -m bench.pools merge market-*.json leaks-*.json storms-*.json
"""

import argparse
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import structlog

from bench.pools_definitions import definitions
from bench.pools_goals import figures
from bench.pools_leaks import leaks
from bench.pools_ledger import ledger
from bench.pools_market import leftovers, market
from bench.pools_merge import MergeError, merge
from bench.pools_planning import planning
from bench.pools_storms import storms


def main() -> None:
    given = _parser().parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    results = _merged(given.parts[1:]) if given.parts[:1] == ["merge"] else _run(given)
    shown = figures(results)
    print(json.dumps({**results, "figures": shown}, indent=2))
    sys.exit(any(figure["pass"] is False for figure in shown))


def _run(given: argparse.Namespace) -> dict[str, dict[str, object]]:
    parts: dict[str, Callable[[], dict[str, object]]] = {
        "planning": lambda: planning(given.repeat),
        "definitions": definitions,
        "ledger": lambda: ledger(given.launches),
        "market": lambda: market(given.seeds, given.days, given.first),
        "storms": lambda: storms(given.storms, given.first),
        "leaks": lambda: leaks(given.launches, given.first),
        "leftovers": lambda: leftovers(given.seeds, given.days, given.first),
    }
    unknown = [name for name in given.parts if name not in parts]
    if unknown:
        sys.exit(f"no such part: {', '.join(unknown)}; there are {', '.join(parts)}")
    results = {}
    for name in given.parts or parts:
        print(f"{name} …", file=sys.stderr, flush=True)
        results[name] = parts[name]()
    return results


def _merged(files: list[str]) -> dict[str, dict[str, object]]:
    if not files:
        sys.exit("merge what? give the files that the parts have printed")
    try:
        return merge([Path(file) for file in files])
    except MergeError as error:
        sys.exit(str(error))


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

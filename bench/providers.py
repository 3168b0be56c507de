"""Measurements of providers: the cost of listings, and the time after a refusal.

usage: python -m bench.providers [elsewhere] [aws] [gcp] [lambda] [docker] [rack]
           [--machines 1000] [--repeat 7] [--refusals 10]

Without a name all of them run, which takes about three minutes of one core; most of that is the
purchase of a thousand machines. `docker` needs root and an engine; without them it reports that.
"""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial

from bench.providers_listings import (
    listed_at_aws,
    listed_at_docker,
    listed_at_gcp,
    listed_at_lambda,
    listed_at_rack,
)
from bench.providers_refusals import tried_elsewhere

LISTINGS = {
    "aws": listed_at_aws,
    "gcp": listed_at_gcp,
    "lambda": listed_at_lambda,
    "docker": listed_at_docker,
    "rack": listed_at_rack,
}
TARGETS = {"elsewhere_s": 2.0, "our_own_cpu_s": 0.5, "ratio": 1.2}


def main() -> None:
    given = _parser().parse_args()
    parts: dict[str, Callable[[], dict[str, object]]] = {
        "elsewhere": lambda: tried_elsewhere(given.refusals),
        **{
            name: partial(listed, given.machines, given.repeat) for name, listed in LISTINGS.items()
        },
    }
    unknown = [name for name in given.parts if name not in parts]
    if unknown:
        sys.exit(f"no such part: {', '.join(unknown)}; there are {', '.join(parts)}")
    found = {name: parts[name]() for name in given.parts or parts}
    print(json.dumps({"machines": given.machines, **found, "targets": TARGETS}, indent=2))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.providers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="part")
    parser.add_argument("--machines", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--refusals", type=int, default=10)
    return parser


if __name__ == "__main__":
    main()

"""What is promised of pools, and whether a run has shown it."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Result = Mapping[str, Any]

TRACES = 100
TRACES_WON_MIN = 95
LAUNCHES = 1_000_000
STORMS = 1000
ROUND_MS = 200


def figures(results: Mapping[str, Result]) -> list[dict[str, object]]:
    """Return each figure that can be read from the results, with its goal and whether it holds."""
    readers: dict[str, Callable[[Result], Iterator[dict[str, object]]]] = {
        "market": _market,
        "leaks": _leaks,
        "storms": _storms,
        "planning": _planning,
        "ledger": _ledger,
        "definitions": _definitions,
        "leftovers": _leftovers,
    }
    return [
        {"part": name, **figure}
        for name, result in results.items()
        if name in readers
        for figure in readers[name](result)
    ]


def _figure(
    what: str, goal: str, found: object, *, holds: bool, enough: bool = True
) -> dict[str, object]:
    """Return a figure. A part of a run can show that a promise is broken, not that it is kept."""
    shown = None if holds and not enough else holds
    return {"figure": what, "goal": goal, "found": found, "pass": shown}


def _market(result: Result) -> Iterator[dict[str, object]]:
    traces = result["traces"]
    for rival in ("blocklist", "cache", "batched"):
        against = result[f"against_{rival}"]
        for what, won in (
            ("time to capacity", against["seeds_won_in_time"]),
            (
                "time to capacity, of whole demands,",
                against["seeds_won_in_time_of_whole_demands"],
            ),
        ):
            yield _figure(
                f"{what} against a {rival}",
                f"won on {TRACES_WON_MIN} of {TRACES} traces",
                f"{won} of {traces} won",
                holds=won * TRACES >= TRACES_WON_MIN * traces,
                enough=traces >= TRACES,
            )
        frugal = against["seeds_with_no_more_calls"]
        yield _figure(
            f"calls to providers against a {rival}",
            f"no more on any of {TRACES} traces",
            f"no more on {frugal} of {traces}, "
            f"{result['memory']['calls']} against {result[rival]['calls']} on average",
            holds=frugal == traces,
            enough=traces >= TRACES,
        )


def _leftovers(result: Result) -> Iterator[dict[str, object]]:
    traces = result["traces"]
    for rival in ("blocklist", "cache", "batched"):
        against = result[f"against_{rival}"]
        lost = len(against["seeds_not_won"])
        yield {
            "figure": f"against a {rival} where each demand finds what the one before left over",
            "goal": "none, since luck can decide a trace",
            "found": f"{traces - lost} of {traces} won in time and calls, "
            f"{against['mean_seconds_saved']} s sooner on average",
            "pass": None,
        }


def _leaks(result: Result) -> Iterator[dict[str, object]]:
    leaked, unaccounted = result["machines_leaked"], result["machine_hours_unaccounted_for"]
    yield _figure(
        "leaked machine-hours",
        f"none over {LAUNCHES:,} launches",
        f"{unaccounted} h, {leaked} machines, over {result['launches']:,} launches",
        holds=leaked == 0 and unaccounted == 0,
        enough=result["launches"] >= LAUNCHES,
    )


def _storms(result: Result) -> Iterator[dict[str, object]]:
    yield _figure(
        "storms in which a pool was under its floor",
        f"none of {STORMS:,}",
        f"{result['under_floor']} of {result['storms']:,}",
        holds=result["under_floor"] == 0,
        enough=result["storms"] >= STORMS,
    )


def _planning(result: Result) -> Iterator[dict[str, object]]:
    yield _figure(
        "one planning round, 100 pools, 10,000 nodes",
        f"under {ROUND_MS} ms of CPU time",
        f"{result['median_ms']} ms, at worst {result['max_ms']} ms",
        holds=result["median_ms"] < ROUND_MS,
    )


def _ledger(result: Result) -> Iterator[dict[str, object]]:
    yield _figure(
        "the ledger's error",
        "none",
        f"{result['wrong_by']} over {result['launches']:,} machines",
        holds=float(result["wrong_by"]) == 0,
    )


def _definitions(result: Result) -> Iterator[dict[str, object]]:
    yield _figure(
        "bad pool definitions refused with line and remedy",
        "every one",
        f"{result['refused']} of {result['definitions']}",
        holds=result["refused"] == result["definitions"] > 0,
    )

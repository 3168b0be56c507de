"""Goals count as met only in runs that are long enough to prove it."""

from collections.abc import Mapping
from typing import Any

import pytest
from bench.pools_goals import figures

WON = {
    "seeds_won_in_time": 100,
    "seeds_won_in_time_of_whole_demands": 100,
    "seeds_with_no_more_calls": 100,
    "seeds_not_won": [],
    "mean_seconds_saved": 20.0,
}
KEPT: dict[str, dict[str, Any]] = {
    "market": {
        "traces": 100,
        "memory": {"calls": 900},
        **{
            name: each
            for rival in ("blocklist", "cache", "batched")
            for name, each in ((rival, {"calls": 1000}), (f"against_{rival}", WON))
        },
    },
    "leaks": {
        "launches": 1_000_000,
        "machines_leaked": 0,
        "machine_hours_unaccounted_for": 0.0,
    },
    "storms": {"storms": 1000, "under_floor": 0},
    "planning": {"median_ms": 44.0, "max_ms": 60.0},
    "ledger": {"launches": 1_000_000, "wrong_by": "0"},
    "definitions": {"refused": 112, "definitions": 112},
}


def verdicts(results: Mapping[str, Mapping[str, Any]]) -> set[object]:
    return {figure["pass"] for figure in figures(results)}


def test_a_full_run_proves_every_goal() -> None:
    shown = figures(KEPT)

    assert {figure["part"] for figure in shown} == KEPT.keys()
    assert {figure["pass"] for figure in shown} == {True}


@pytest.mark.parametrize(
    ("part", "found"),
    [
        ("market", {"against_cache": WON | {"seeds_won_in_time": 94}}),
        ("market", {"against_cache": WON | {"seeds_won_in_time_of_whole_demands": 94}}),
        ("market", {"against_batched": WON | {"seeds_with_no_more_calls": 99}}),
        ("leaks", {"machines_leaked": 1}),
        ("leaks", {"machine_hours_unaccounted_for": 1 / 3600}),
        ("storms", {"under_floor": 1}),
        ("planning", {"median_ms": 200.0}),
        ("ledger", {"wrong_by": "0.01"}),
        ("definitions", {"refused": 111}),
        ("definitions", {"refused": 0, "definitions": 0}),
    ],
)
def test_a_missed_goal_is_reported(part: str, found: dict[str, object]) -> None:
    assert False in verdicts({part: KEPT[part] | found})


@pytest.mark.parametrize(
    ("part", "found"),
    [
        (
            "market",
            {"traces": 99}
            | {
                name: {key: 99 if key.startswith("seeds_w") else x for key, x in WON.items()}
                for name in ("against_blocklist", "against_cache", "against_batched")
            },
        ),
        ("leaks", {"launches": 999_999}),
        ("storms", {"storms": 999}),
    ],
    ids=["market", "leaks", "storms"],
)
def test_a_short_run_without_misses_proves_nothing(part: str, found: dict[str, object]) -> None:
    assert verdicts({part: KEPT[part] | found}) == {None}


def test_a_short_run_can_prove_that_a_goal_is_missed() -> None:
    assert verdicts({"storms": {"storms": 3, "under_floor": 1}}) == {False}


def test_leftover_capacity_is_shown_without_a_goal() -> None:
    lost = WON | {"seeds_not_won": [19, 62]}
    kept = {"against_cache": WON, "against_batched": WON}
    first, *others = figures({"leftovers": {"traces": 100, "against_blocklist": lost, **kept}})

    assert first["found"] == "98 of 100 won in time and calls, 20.0 s sooner on average"
    assert [figure["pass"] for figure in (first, *others)] == [None] * 3

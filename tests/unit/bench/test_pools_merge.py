"""Merged parts of a long measurement equal the measurement in one run."""

import json
from pathlib import Path

import pytest
from bench.pools_market import market
from bench.pools_merge import MergeError, merge


def a_file(folder: Path, name: str, **results: object) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps({**results, "figures": []}))
    return path


def leaks(seeds: str, **more: object) -> dict[str, object]:
    return {
        "seeds": seeds,
        "launches": 100,
        "machines_leaked": 0,
        "machine_hours": 10.5,
        "machine_hours_unaccounted_for": 0.0,
        "longest_denied_machine_minutes": 3.0,
        **more,
    }


def without_means(against: object) -> dict[str, object]:
    """Return the exact figures, without means, which are rounded twice."""
    assert isinstance(against, dict)
    return {key: value for key, value in against.items() if key != "mean_seconds_saved"}


def test_two_merged_parts_equal_one_run(tmp_path: Path) -> None:
    whole = market(2, days=1, first=7)
    parts = [
        a_file(tmp_path, "a", market=market(1, days=1, first=7)),
        a_file(tmp_path, "b", market=market(1, days=1, first=8)),
    ]

    merged = merge(parts)["market"]

    assert merged.keys() == whole.keys()
    for rival in ("against_blocklist", "against_cache"):
        assert without_means(merged[rival]) == without_means(whole[rival])
    assert merged["seeds"] == "7..8"
    assert merged["traces"] == 2


def test_sums_are_added_and_maxima_are_kept(tmp_path: Path) -> None:
    parts = [
        a_file(tmp_path, "a", leaks=leaks("0..4")),
        a_file(tmp_path, "b", leaks=leaks("7..9", longest_denied_machine_minutes=8.0)),
    ]

    merged = merge(parts)["leaks"]

    assert merged == leaks("0..4, 7..9", launches=200, machine_hours=21.0) | {
        "longest_denied_machine_minutes": 8.0
    }


def test_a_short_leak_in_one_part_is_not_rounded_to_zero(tmp_path: Path) -> None:
    parts = [
        a_file(tmp_path, "a", leaks=leaks("0..4")),
        a_file(tmp_path, "b", leaks=leaks("5..9", machine_hours_unaccounted_for=1 / 60)),
    ]

    assert merge(parts)["leaks"]["machine_hours_unaccounted_for"] == 1 / 60


def test_parts_are_merged_by_name(tmp_path: Path) -> None:
    parts = [
        a_file(tmp_path, "a", leaks=leaks("0..4"), planning={"median_ms": 40.0}),
        a_file(tmp_path, "b", leaks=leaks("5..9")),
    ]

    merged = merge(parts)

    assert merged["planning"] == {"median_ms": 40.0}
    assert merged["leaks"]["seeds"] == "0..9"


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({"leaks": leaks("0..5")}, {"leaks": leaks("5..9")}, "seed 5 is in two files"),
        (
            {"planning": {"median_ms": 1.0}},
            {"planning": {"median_ms": 2.0}},
            "planning was run 2 times",
        ),
        (
            {"market": {"seeds": "0..1", "traces": 2, "days": 30.0}},
            {"market": {"seeds": "2..3", "traces": 2, "days": 3.0}},
            r"traces of \[3.0, 30.0\] days",
        ),
        (
            {"leaks": leaks("0..4")},
            {"leaks": leaks("5..9", machines_bought=7)},
            "leaks: one file has machines_bought and another has not",
        ),
    ],
    ids=["a seed twice", "a whole run twice", "different traces", "different versions"],
)
def test_parts_of_different_measurements_are_refused(
    tmp_path: Path, first: dict[str, object], second: dict[str, object], words: str
) -> None:
    with pytest.raises(MergeError, match=words):
        merge([a_file(tmp_path, "a", **first), a_file(tmp_path, "b", **second)])


def test_an_invalid_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("planning …")
    with pytest.raises(MergeError, match=r"x\.json.*bench\.pools"):
        merge([tmp_path / "x.json"])

"""Puts the parts of long runs together, as if each had been one run."""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path

Result = dict[str, object]

AVERAGES = (
    "time_to_capacity_s",
    "of_that_avoidable_s",
    "time_to_whole_demand_s",
    "calls",
    "refused_machines",
    "mean_seconds_saved",
)
"""Means over the traces of a part; the parts may be of different lengths."""

ROUNDED = ("cpu_s", "machine_hours")
"""Sums of which a tenth is enough to know. The others show whether a promise was kept."""

WHOLE = ("planning", "ledger", "definitions")
"""What is quick, and is never cut into parts."""


class MergeError(Exception):
    """Files that do not belong together."""


def merge(files: list[Path]) -> dict[str, Result]:
    """Return the results of all files by name, those of one name put together."""
    parts: dict[str, list[Result]] = {}
    for file in files:
        for name, result in _results(file).items():
            parts.setdefault(name, []).append(result)
    return {name: _together(name, found) for name, found in parts.items()}


def _results(file: Path) -> dict[str, Result]:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise MergeError(
            f"{file}: {error}; give files that `python -m bench.pools` has printed"
        ) from error
    return {name: result for name, result in found.items() if name != "figures"}


def _together(name: str, parts: list[Result]) -> Result:
    if len(parts) > 1 and name in WHOLE:
        raise MergeError(f"{name} was run {len(parts)} times; give one of them")
    if len(parts) == 1:
        return parts[0]
    odd = {key for part in parts for key in part if any(key not in other for other in parts)}
    if odd:
        raise MergeError(f"{name}: one file has {min(odd)} and another has not; run both again")
    weights = [_number(part.get("traces", 1)) for part in parts]
    return {
        **_joined(parts, weights),
        "seeds": _ranges(name, [str(part["seeds"]) for part in parts]),
    }


def _joined(parts: list[Result], weights: list[float]) -> Result:
    first = parts[0]
    return {key: _value(key, [part[key] for part in parts], weights) for key in first}


def _value(key: str, values: list[object], weights: list[float]) -> object:
    if all(isinstance(value, Mapping) for value in values):
        return _joined([dict(x) for x in values if isinstance(x, Mapping)], weights)
    if all(isinstance(value, list) for value in values):
        return [each for value in values if isinstance(value, list) for each in value]
    if key == "seeds":
        return None  # The caller names the parts in its message.
    numbers = [_number(value) for value in values]
    if key in AVERAGES:
        mean = sum(x * w for x, w in zip(numbers, weights, strict=True)) / sum(weights)
        return round(mean, 1)
    if key.startswith("worst_"):
        return min(numbers)
    if key.startswith("longest_"):
        return max(numbers)
    if key == "days":
        if len(set(numbers)) > 1:
            raise MergeError(f"traces of {sorted(set(numbers))} days cannot be put together")
        return numbers[0]
    if key in ROUNDED:
        return round(sum(numbers), 1)
    return sum(numbers) if any(isinstance(value, float) for value in values) else int(sum(numbers))


def _ranges(name: str, seeds: list[str]) -> str:
    """Return which seeds were run. One that was run twice would count twice."""
    spans = sorted((int(a), int(b)) for a, b in (each.split("..") for each in seeds))
    for (_, end), (start, _) in itertools.pairwise(spans):
        if start <= end:
            raise MergeError(f"{name}: seed {start} is in two files; leave one of them out")
    return ", ".join(f"{a}..{b}" for a, b in _close_up(spans))


def _close_up(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    closed: list[tuple[int, int]] = []
    for start, end in spans:
        if closed and closed[-1][1] + 1 == start:
            closed[-1] = (closed[-1][0], end)
        else:
            closed.append((start, end))
    return closed


def _number(value: object) -> float:
    assert isinstance(value, int | float), value
    return value

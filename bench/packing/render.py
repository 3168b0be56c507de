"""Results as plain data and as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.packing.result import Acceptance, PackingResult, spread

SHOWN = (10, 20, 30, 40, 50, 60, 70, 80, 85, 90, 95, 100, 105, 110, 115, 120, 125)
"""The arrival percentages that the text shows; the data contain every percent."""


def render_run(run: PackingResult) -> dict[str, Any]:
    """Return one run as data."""
    return {
        "policy": run.policy,
        "seed": run.seed,
        "arrive": run.load,
        "gpus": run.capacity // 1000,
        "pods": len(run.nodes),
        "allocation_pct": round(run.allocation_pct, 4),
        **_render_details([run]),
    }


def render_runs(runs: Sequence[PackingResult]) -> dict[str, Any]:
    """Return several runs of one policy as data: the mean of each figure, and every run."""
    figure = spread([run.allocation_pct for run in runs])
    return {
        "policy": runs[0].policy,
        "seeds": [run.seed for run in runs],
        "arrive": runs[0].load,
        "gpus": runs[0].capacity // 1000,
        "allocation_pct": round(figure.mean, 4),
        "allocation_pct_deviation": round(figure.deviation, 4),
        "allocation_pct_least": round(figure.least, 4),
        "allocation_pct_most": round(figure.most, 4),
        **_render_details(runs),
        "runs": [render_run(run) for run in runs],
    }


def _render_details(runs: Sequence[PackingResult]) -> dict[str, Any]:
    return {
        "curve": [
            {"arrived_pct": round(pct, 4), "allocation_pct": round(value, 4)}
            for pct, value in _curve(runs)
        ],
        "acceptance_by_gpu_count": {
            str(count): _accepted(_together([run.by_gpus.get(count) for run in runs]))
            for count in sorted({count for run in runs for count in run.by_gpus})
        },
        "acceptance_of_shares": _accepted(_together([run.shares for run in runs])),
    }


def render_text(runs: Sequence[PackingResult]) -> str:
    """Return several runs of one policy as text."""
    first = runs[0]
    figure = spread([run.allocation_pct for run in runs])
    title = f"{first.policy}: {figure.mean:.2f} % of {first.capacity // 1000} GPUs allocated"
    if len(runs) > 1:
        title += f" (deviation {figure.deviation:.2f}, {figure.least:.2f} to {figure.most:.2f})"
    seeds = f"seed {first.seed}" if len(runs) == 1 else f"seeds {first.seed} to {runs[-1].seed}"
    lines = [title, f"{first.load:.0%} of the GPUs were requested, {seeds}", ""]
    lines.append("arrived  allocated")
    *curve, end = _curve(runs) or [(0.0, 0.0)]
    shown = [point for point in curve if point[0] in SHOWN]
    lines += [f"{pct:5.0f} %  {value:7.2f} %" for pct, value in [*shown, end]]
    lines += ["", "GPUs    arrived  accepted"]
    for count in sorted({count for run in runs for count in run.by_gpus}):
        lines.append(_row(str(count), _together([run.by_gpus.get(count) for run in runs])))
        if count == 1:
            lines.append(_row(" shared", _together([run.shares for run in runs])))
    return "\n".join(lines)


def _row(name: str, accepted: Acceptance) -> str:
    pct = "" if accepted.pct is None else f"{accepted.pct:7.2f} %"
    return f"{name:<7} {accepted.arrived:7}  {pct}".rstrip()


def _curve(runs: Sequence[PackingResult]) -> list[tuple[float, float]]:
    """Return the mean over runs, up to the end of the shortest, and at their ends."""
    curves = [run.curve() for run in runs]
    if not all(curves):
        return []  # the first pod would have exceeded the load
    ends = [curve.pop() for curve in curves]
    rows = [*zip(*curves, strict=False), ends]
    return [
        (spread([pct for pct, _ in row]).mean, spread([value for _, value in row]).mean)
        for row in rows
    ]


def _together(parts: Sequence[Acceptance | None]) -> Acceptance:
    found = [part for part in parts if part is not None]
    return Acceptance(sum(part.arrived for part in found), sum(part.accepted for part in found))


def _accepted(accepted: Acceptance) -> dict[str, Any]:
    pct = None if accepted.pct is None else round(accepted.pct, 4)
    return {"arrived": accepted.arrived, "accepted": accepted.accepted, "accepted_pct": pct}

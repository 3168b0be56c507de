"""Outcomes of simulations, as text."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from navarch.cli.render.table import Canvas, Column, render_table
from navarch.core.duration import render_duration
from navarch.sim.figures.figures import flatten
from navarch.sim.runner.outcome import Outcome
from navarch.sim.runner.seeds import SeedsReport
from navarch.sim.scenario.scenario import Scenario

SHOWN_FAILURES = 5


def render_outcome(outcome: Outcome, canvas: Canvas) -> str:
    """Return the outcome of a run: verdicts first, then the figures."""
    how = "in real time" if outcome.real_time else "in virtual time"
    lines = [f"{outcome.scenario}, seed {outcome.seed}: {outcome.simulated_s:g} s {how}"]
    lines += [_line(verdict.what, verdict.reason, verdict.holds) for verdict in outcome.verdicts]
    figures = {name: value for name, value in flatten(outcome.figures).items() if value}
    if outcome.failures:
        injected = ", ".join(f"{kind} {count}" for kind, count in outcome.failures.items())
        lines += ["", f"Injected failures: {injected}"]
    if outcome.skipped:
        lines.append(f"Failures skipped for lack of healthy machines: {outcome.skipped}")
    if outcome.heartbeats_sent:
        sent, lost = outcome.heartbeats_sent, outcome.heartbeats_lost
        lines.append(f"Heartbeats: {sent} sent, {lost} without response")
        took = outcome.heartbeat_answers
        lines.append(
            f"Response times: median {_millis(took.p50_s)}, 95 % {_millis(took.p95_s)}, "
            f"maximum {_millis(took.max_s)}; longest gap {outcome.silence_max_s:.1f} s"
        )
    if figures:
        columns: list[Column[tuple[str, float | None]]] = [
            Column("FIGURE", lambda figure: figure[0]),
            Column("VALUE", lambda figure: _number(figure[1]), right=True),
        ]
        lines += ["", render_table(columns, figures.items(), canvas)]
    lines += ["", "PASSED" if outcome.passed else _failed(outcome)]
    return "\n".join(lines)


def _failed(outcome: Outcome) -> str:
    count = len(outcome.broken)
    return f"FAILED: {count} of {len(outcome.verdicts)} did not hold"


def _line(what: str, reason: str, holds: bool) -> str:
    return f"  {'ok  ' if holds else 'FAIL'}  {what}: {reason}"


def _millis(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1000 * seconds:.0f} ms"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}".rstrip("0").rstrip(".")


def render_seeds(report: SeedsReport) -> str:
    """Return the results of many seeds, the smallest failing seed first."""
    good = report.count - len(report.failed)
    last = report.first + report.count - 1
    lines = [f"{report.scenario}: {good} of {report.count} seeds passed ({report.first} to {last})"]
    lines += [f"  seed {each.seed}: {each.reason}" for each in report.failed[:SHOWN_FAILURES]]
    if len(report.failed) > SHOWN_FAILURES:
        lines.append(f"  ... and {len(report.failed) - SHOWN_FAILURES} more")
    if report.command is not None:
        lines.append(f"Repeat the first failure: {report.command}")
    return "\n".join(lines)


def render_scenarios(found: Sequence[tuple[Path, Scenario | None]], canvas: Canvas) -> str:
    """Return a table of scenario files."""
    if not found:
        return "No scenarios found. Create one: navarch sim new my-scenario"
    columns: list[Column[tuple[Path, Scenario | None]]] = [
        Column("FILE", lambda file: str(file[0])),
        Column("NODES", lambda file: str(nodes_of(file[1])) if file[1] else "-", right=True),
        Column("DURATION", lambda file: _length(file[1]) if file[1] else "-", right=True, rank=1),
        Column("DESCRIPTION", lambda file: _description(file[1]), width_min=20, rank=2),
    ]
    return render_table(columns, found, canvas)


def _description(scenario: Scenario | None) -> str:
    if scenario is None:
        return "not a valid scenario; run: navarch sim validate FILE"
    return scenario.description.strip()


def nodes_of(scenario: Scenario) -> int:
    """Return the initial number of nodes of a scenario."""
    stress = scenario.stress
    generated = stress.fleet_gen.total_nodes if stress and stress.fleet_gen else 0
    return len(scenario.fleet) + generated + sum(p.min_nodes for p in scenario.pools.values())


def _length(scenario: Scenario) -> str:
    if scenario.stress is not None:
        return render_duration(scenario.stress.duration)
    if scenario.duration is not None:
        return render_duration(scenario.duration)
    return render_duration(max((event.at for event in scenario.events), default=timedelta(0)))


def render_comparison(one: Outcome, other: Outcome, canvas: Canvas) -> str:
    """Return the figures that differ between two runs, side by side."""
    left, right = flatten(one.figures), flatten(other.figures)
    differing = [name for name in left if left[name] != right[name]]
    title = f"{_title(one)} against {_title(other)}"
    if not differing:
        return f"{title}: every figure is the same"
    columns: list[Column[str]] = [
        Column("FIGURE", lambda name: name),
        Column("FIRST", lambda name: _number(left[name]), right=True),
        Column("SECOND", lambda name: _number(right[name]), right=True),
        Column("CHANGE", lambda name: _change(left[name], right[name]), right=True, rank=1),
    ]
    return f"{title}\n\n{render_table(columns, differing, canvas)}"


def _title(outcome: Outcome) -> str:
    return f"{outcome.scenario} (seed {outcome.seed}, {'passed' if outcome.passed else 'failed'})"


def _change(before: float | None, after: float | None) -> str:
    if before is None or after is None or not before:
        return "-"
    return f"{100 * (after - before) / before:+.1f} %"

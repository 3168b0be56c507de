"""Traces of real clusters, written as scenarios."""

from datetime import timedelta
from pathlib import Path

import click
import yaml

from navarch.cli.failures import CommandError
from navarch.cli.sim_run import write_file
from navarch.config.duration import render_duration
from navarch.sim.scenario.loading import parse_scenario
from navarch.sim.trace.tables import read_jobs, read_nodes


def import_tables(scenario: Path, *, nodes: Path, jobs: Path | None, lasts: timedelta) -> None:
    """Write a scenario with the machines and jobs of two tables."""
    if scenario.exists():
        raise CommandError(f"{scenario} is there already; choose another name")
    fleet = read_nodes(nodes)
    found = read_jobs(jobs, until=lasts) if jobs is not None else None
    plain: dict[str, object] = {
        "name": scenario.stem,
        "description": f"{len(fleet)} machines of {nodes.name}"
        + (f" and {len(found.plain)} jobs of {jobs.name}" if jobs and found else ""),
        "duration": render_duration(lasts),
        "fleet": fleet,
        "events": [{"at": "0s", "action": "start_fleet"}],
    }
    if found is not None:
        plain["jobs"] = list(found.plain)
    text = yaml.safe_dump(plain, sort_keys=False)
    parse_scenario(text, source=str(scenario))
    write_file(scenario, text.encode())
    told = [f"Wrote {scenario}: {plain['description']}."]
    if found is not None:
        if found.without_gpu:
            told.append(f"Left out: {found.without_gpu} jobs that want no GPU, or no time.")
        if found.too_late:
            told.append(f"Left out: {found.too_late} jobs after {render_duration(lasts)}.")
        if found.shares:
            told.append(f"Rounded up: {found.shares} jobs that shared a GPU have one each.")
    click.echo("\n".join([*told, f"Play it: navarch sim run {scenario}"]))

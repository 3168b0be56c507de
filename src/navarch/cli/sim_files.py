"""Scenario and outcome files: validate, list, create, compare, replay."""

from collections.abc import Sequence
from pathlib import Path

import click

from navarch.cli.errors import FAILED, CommandError
from navarch.cli.output import Output
from navarch.cli.render.sim import nodes_of, render_comparison, render_outcome, render_scenarios
from navarch.cli.session import Session
from navarch.cli.sim_run import quiet_logs, write_file
from navarch.cli.sim_templates import TEMPLATES
from navarch.config.errors import ConfigError
from navarch.config.kinds import name_remedy
from navarch.sim.figures.figures import flatten
from navarch.sim.report import render_comparison_html, render_html
from navarch.sim.runner.outcome import Outcome
from navarch.sim.runner.records import load_outcome, scenario_of
from navarch.sim.runner.runner import run_scenario
from navarch.sim.scenario.loading import load_scenario
from navarch.sim.scenario.scenario import Scenario


def validate_files(paths: Sequence[Path]) -> int:
    """Print whether each file is valid; return the exit code."""
    code = 0
    for path in paths:
        try:
            scenario = load_scenario(path)
        except ConfigError as error:
            click.echo(str(error), err=True)
            code = FAILED
            continue
        nodes, events = nodes_of(scenario), len(scenario.events)
        click.echo(
            f"{path}: {scenario.name} is valid: {nodes} nodes, {events} events, "
            f"{len(scenario.assertions)} assertions"
        )
    return code


def list_files(session: Session, folder: Path) -> None:
    """List the scenario files in a folder."""
    if not folder.is_dir():
        raise CommandError(f"{folder}: no such folder; pass one: navarch sim list FOLDER")
    files = sorted([*folder.rglob("*.yaml"), *folder.rglob("*.yml")])
    found = [(path, _try(path)) for path in files]
    if session.output is Output.TABLE:
        click.echo(render_scenarios(found, session.canvas()))
        return
    rows = [
        {
            "file": str(path),
            "name": scenario.name if scenario else None,
            "nodes": nodes_of(scenario) if scenario else None,
            "description": scenario.description if scenario else None,
        }
        for path, scenario in found
    ]
    session.show(rows, lambda _: "")


def _try(path: Path) -> Scenario | None:
    try:
        return load_scenario(path)
    except ConfigError:
        return None


def new_file(name: str, kind: str) -> None:
    """Write a scenario from a template; never overwrite a file."""
    remedy = name_remedy(name)
    if remedy is not None:
        raise CommandError(f"{name!r} is not a name for a scenario; {remedy}")
    path = Path(f"{name}.yaml")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATES[kind].format(name=name))
    except FileExistsError as error:
        raise CommandError(f"{path} already exists; choose another name") from error
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
    click.echo(f"Wrote {path}. Run it: navarch sim run {path}")


def report_file(outcome: Path, page: Path) -> None:
    """Write the HTML report of an outcome."""
    write_file(page, render_html(load_outcome(outcome)).encode())
    click.echo(f"Wrote {page}")


def compare_files(
    session: Session, first: Path, second: Path, *, seed: int | None, html: Path | None
) -> None:
    """Compare two runs."""
    quiet_logs()
    one, other = _outcome(first, seed), _outcome(second, seed)
    if html is not None:
        write_file(html, render_comparison_html(one, other).encode())
    figures = {"first": flatten(one.figures), "second": flatten(other.figures)}
    session.show(figures, lambda canvas: render_comparison(one, other, canvas))


def _outcome(path: Path, seed: int | None) -> Outcome:
    if path.suffix == ".json":
        return load_outcome(path)
    return run_scenario(load_scenario(path), seed=seed)


def replay_file(session: Session, path: Path) -> int:
    """Repeat a run; return the exit code."""
    quiet_logs()
    before = load_outcome(path)
    if before.real_time:
        raise CommandError(
            f"{path}: a real-time run cannot be replayed; only virtual time is deterministic"
        )
    after = run_scenario(scenario_of(before), seed=before.seed)
    session.show(after, lambda canvas: render_outcome(after, canvas))
    if after.trace == before.trace:
        return 0 if after.passed else FAILED
    version = "" if before.version == after.version else f" (by version {before.version})"
    click.echo(
        f"The result differs from {path}{version}: trace {after.trace}, was {before.trace}. "
        f"Compare them: navarch sim compare {path} ...",
        err=True,
    )
    return FAILED

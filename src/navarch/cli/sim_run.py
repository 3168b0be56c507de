"""Run scenarios, in virtual time or against a server in real time."""

import contextlib
import resource
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import click
import structlog

from navarch.cli.environment import Target
from navarch.cli.errors import FAILED, CommandError
from navarch.cli.output import Output, render_data
from navarch.cli.printing import echo
from navarch.cli.render.sim import nodes_of, render_outcome, render_seeds
from navarch.cli.render.table import Canvas
from navarch.cli.session import Session
from navarch.cli.sim_server import temporary_server
from navarch.sim.report import render_html
from navarch.sim.runner.outcome import Outcome, dump_outcome
from navarch.sim.runner.real_time import check_playable, perform
from navarch.sim.runner.runner import run_scenario
from navarch.sim.runner.seeds import run_seeds
from navarch.sim.scenario.loading import load_scenario
from navarch.sim.scenario.scenario import Scenario

LONG_S = 1.0
"""Shorter runs show no progress bar."""
BAR_WIDTH = 30


def run_one(
    session: Session,
    path: Path,
    *,
    seed: int | None,
    out: Path | None,
    html: Path | None,
    json: bool,
) -> int:
    """Run one scenario in virtual time; return the exit code."""
    quiet_logs()
    scenario = load_scenario(path)
    with progress_line(session, scenario.name) as update:
        outcome = run_scenario(scenario, seed=seed, progress=update)
    outcome = replace(outcome, source=str(path))
    return report_outcome(session, scenario, outcome, out=out, html=html, json=json)


def run_many_seeds(
    session: Session, path: Path, *, first: int, count: int, processes: int | None, json: bool
) -> int:
    """Run one scenario with many seeds; return the exit code."""
    quiet_logs()
    with progress_line(session, f"{count} seeds") as update:
        report = run_seeds(
            path,
            first=first,
            count=count,
            processes=processes,
            progress=lambda done, whole: update(float(done), float(whole)),
        )
    _show(session, report, lambda _: render_seeds(report), json=json)
    return FAILED if report.failed else 0


def report_outcome(
    session: Session,
    scenario: Scenario,
    outcome: Outcome,
    *,
    out: Path | None,
    html: Path | None,
    json: bool,
) -> int:
    """Show an outcome and write the requested files; return the exit code."""
    write_files(scenario, outcome, out, html)
    _show(session, outcome, lambda canvas: render_outcome(outcome, canvas), json=json)
    return 0 if outcome.passed else FAILED


def write_files(scenario: Scenario, outcome: Outcome, out: Path | None, html: Path | None) -> None:
    """Write the files that the command line and the scenario request."""
    stress = scenario.stress
    for report in (out, stress and stress.report_file):
        if report:
            write_file(Path(report), dump_outcome(outcome))
    if stress and stress.log_file:
        write_file(Path(stress.log_file), format_log(outcome).encode())
    for page in (html, stress and stress.html_report_file):
        if page:
            write_file(Path(page), render_html(outcome).encode())


def format_log(outcome: Outcome) -> str:
    """Return the happenings and node histories as lines in order of time."""
    lines = [(x.at_s, f"{x.kind} {x.target} {x.text}") for x in outcome.happenings]
    lines += [
        (entry.at_s, f"{history.node} {entry.kind}: {entry.text}")
        for history in outcome.nodes
        for entry in history.entries
    ]
    return "".join(f"{at_s:10.3f}  {text}\n" for at_s, text in sorted(lines))


def write_file(path: Path, data: bytes) -> None:
    """Write a file, creating its folder."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error


def _show(session: Session, answer: object, render: Callable[[Canvas], str], *, json: bool) -> None:
    if json:
        echo(render_data(answer, Output.JSON))
    else:
        session.show(answer, render)


def quiet_logs() -> None:
    """Silence the control plane's log; the journal holds what it did."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


@contextlib.contextmanager
def progress_line(session: Session, title: str) -> Iterator[Callable[[float, float], None]]:
    """Yield a function that draws a progress bar on standard error: long runs, terminals only."""
    live = session.terminal.live and session.output is Output.TABLE
    begin = last = session.clock.monotonic()
    drawn = False

    def update(done: float, whole: float) -> None:
        nonlocal last, drawn
        now = session.clock.monotonic()
        if not live or now - begin < LONG_S or now - last < 0.1:
            return
        last, drawn = now, True
        share = min(done / whole, 1.0) if whole else 1.0
        full = round(share * BAR_WIDTH)
        bar = "#" * full + "." * (BAR_WIDTH - full)
        click.echo(f"\r{title} [{bar}] {100 * share:3.0f} %\x1b[K", nl=False, err=True)

    try:
        yield update
    finally:
        if drawn:
            click.echo("\r\x1b[K", nl=False, err=True)


SPARE_FILES = 200


def run_in_real_time(
    session: Session,
    path: Path,
    *,
    server: str | None,
    seed: int | None,
    out: Path | None,
    html: Path | None,
    json: bool,
) -> int:
    """Run one scenario over the network; return the exit code."""
    scenario = load_scenario(path)
    check_playable(scenario)
    _raise_file_limit(nodes_of(scenario))

    async def main() -> Outcome:
        started = temporary_server(session, scenario)
        async with started if server is None else contextlib.nullcontext(server) as url:
            target = Target(url=url, token=session.token)
            async with session.environment.connect(target) as api:
                with progress_line(session, scenario.name) as update:
                    return await perform(
                        scenario,
                        clock=session.clock,
                        server=url,
                        token=session.token,
                        api=api,
                        seed=seed,
                        progress=update,
                    )

    outcome = session.environment.run(main())
    return report_outcome(session, scenario, outcome, out=out, html=html, json=json)


def _raise_file_limit(agents: int) -> None:
    """Raise the limit on open files to what `agents` connections need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = agents + SPARE_FILES
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise CommandError(
            f"{agents} agents need {wanted} open files, but the limit is {hard}; "
            "raise it with: ulimit -Hn"
        )
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

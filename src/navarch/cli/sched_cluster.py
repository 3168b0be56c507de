"""`navarch sched plan`, `why`, `replay` and others: scheduling a cluster in a file."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from navarch.cli.commands import Command
from navarch.cli.printing import echo
from navarch.cli.render.why import explanation_to_dict, format_explanation
from navarch.cli.session import Session, with_session
from navarch.clock import SystemClock
from navarch.core.errors import NavarchError
from navarch.scheduler.cycle import CycleResult, run_checked_cycle, run_cycle
from navarch.scheduler.explain import why_job, why_pending
from navarch.scheduler.framework.hooks import POINTS
from navarch.scheduler.plan import render_plan, render_result
from navarch.scheduler.plugins import built_in_plugins
from navarch.scheduler.snapshot.document import read_document
from navarch.scheduler.snapshot.snapshot import Snapshot, dump_snapshot
from navarch.testing.scheduler_conformance.case import load_all, load_any
from navarch.testing.scheduler_conformance.run import CaseResult, run_cases

FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
CASE = click.option(
    "--case", default=None, help="Case in a file of cases: its id, or the end of it."
)
SEED = click.option("--seed", type=int, default=None, help="Use this seed instead of the file's.")
CHECK = click.option(
    "--check",
    is_flag=True,
    help="Verify every fast path against the exhaustive search; fail on a difference.",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command()
@FILE
@CASE
@SEED
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write to.  [default: standard output]",
)
def snapshot(file: Path, case: str | None, seed: int | None, output: Path | None) -> None:
    """Write FILE as a complete snapshot: cluster, configuration, time and seed."""
    with _errors_as_messages():
        loaded = load_any(read_document(file.read_bytes()), case)
    text = dump_snapshot(_seeded(loaded, seed))
    if output is None:
        echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")


@click.command()
@FILE
@CASE
@SEED
@CHECK
def replay(file: Path, case: str | None, seed: int | None, *, check: bool) -> None:
    """Print the decisions for FILE as JSON with a digest. The result is deterministic."""
    echo(json.dumps(render_results(_run(file, case, seed, check=check)), indent=1))


@click.command()
@FILE
@CASE
@SEED
@CHECK
@AS_JSON
def plan(file: Path, case: str | None, seed: int | None, *, check: bool, as_json: bool) -> None:
    """Show the decisions for the cluster in FILE, and why jobs stay pending."""
    results = _run(file, case, seed, check=check, stopwatch=SystemClock().monotonic)
    if as_json:
        echo(json.dumps(render_results(results), indent=1))
    else:
        plans = {name: render_plan(result) for name, result in results.items()}
        echo("\n\n".join(f"{name}\n{text}" if name else text for name, text in plans.items()))


@click.command()
@FILE
@click.argument("job", required=False)
@CASE
@SEED
@AS_JSON
def why(file: Path, job: str | None, case: str | None, seed: int | None, *, as_json: bool) -> None:
    """Explain what happens to JOB in FILE: how far it gets, which rules refuse it, what would help.

    Without JOB, explain every job that stays pending.
    """
    with _errors_as_messages():
        loaded = _seeded(load_any(read_document(file.read_bytes()), case), seed)
        if job is None:
            found = why_pending(loaded.cluster, loaded.config)
        else:
            found = [why_job(loaded.cluster, loaded.config, job)]
    if as_json:
        plain = [explanation_to_dict(each) for each in found]
        echo(json.dumps(plain if job is None else plain[0], indent=1))
    else:
        echo("\n\n\n".join(map(format_explanation, found)) or "No pending jobs")


@click.command()
@FILE
@AS_JSON
@click.pass_context
def conformance(context: click.Context, file: Path, *, as_json: bool) -> None:
    """Run every case in FILE. The exit code is 1 if a case fails."""
    with _errors_as_messages():
        results = list(run_cases(read_document(file.read_bytes())))
    if as_json:
        rows = [{"id": r.id, "passed": r.passed, "why": r.why} for r in results]
        echo(json.dumps({"cases": rows}, indent=1))
    else:
        echo(render_cases(results))
    if not all(result.passed for result in results):
        context.exit(1)


@click.command(cls=Command)
@with_session
def plugins(session: Session) -> None:
    """List the plugins with their arguments, and the extension points."""
    registry = built_in_plugins()
    arguments = {name: dict(registry.arguments(name)) for name in registry.names()}
    found = {
        "plugins": [{"name": name, "arguments": known} for name, known in arguments.items()],
        "extension_points": [
            {
                "name": point.name,
                "signature": str(point.signature),
                "combine": str(point.combine),
                "called": point.called,
            }
            for point in POINTS.values()
        ],
    }
    lines = [
        f"{name}  {', '.join(f'{key}={value}' for key, value in known.items())}".rstrip()
        for name, known in arguments.items()
    ]
    lines += ["", *(f"{x.name}{x.signature}  [{x.combine}]  {x.called}" for x in POINTS.values())]
    session.show(found, lambda _: "\n".join(lines))


def render_cases(results: list[CaseResult]) -> str:
    """Return one line per failed case, and the count."""
    lines = [f"{result.id}: {result.why}" for result in results if not result.passed]
    passed = sum(result.passed for result in results)
    return "\n".join([*lines, f"{passed} of {len(results)} cases pass"])


def render_results(results: Mapping[str, CycleResult]) -> dict[str, Any]:
    """Return the result of one cycle, or of one cycle per case."""
    if list(results) == [""]:
        return render_result(results[""])
    return {"cases": [{"id": name, **render_result(r)} for name, r in results.items()]}


def _run(
    file: Path,
    case: str | None,
    seed: int | None,
    *,
    check: bool,
    stopwatch: Callable[[], float] | None = None,
) -> dict[str, CycleResult]:
    """Run one cycle for each snapshot in the file.

    `seconds_per_action` applies only with a stopwatch: a replay must not depend on the speed of
    the machine.
    """
    with _errors_as_messages():
        cases = load_all(read_document(file.read_bytes()), case)
        loaded = {name: _seeded(s, seed) for name, s in cases.items()}
        if check:  # A comparison must not depend on speed: no stopwatch.
            return {name: run_checked_cycle(s.cluster, s.config) for name, s in loaded.items()}
        return {name: run_cycle(s.cluster, s.config, clock=stopwatch) for name, s in loaded.items()}


def _seeded(loaded: Snapshot, seed: int | None) -> Snapshot:
    if seed is None:
        return loaded
    parameters = replace(loaded.config.parameters, seed=seed)
    return replace(loaded, config=replace(loaded.config, parameters=parameters))


@contextmanager
def _errors_as_messages() -> Iterator[None]:
    """Report Navarch's errors without a traceback."""
    try:
        yield
    except NavarchError as error:
        raise click.ClickException(str(error)) from error

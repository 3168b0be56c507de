"""`navarch sim`: run simulated fleets, and inject faults into simulated machines."""

from datetime import timedelta
from pathlib import Path

import click

from navarch.cli.commands import Group
from navarch.cli.completion import complete_node
from navarch.cli.options import duration, health_option
from navarch.cli.session import Session, with_session
from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId
from navarch.health.checks.xid import assess_xid, describe_xid, label


@click.group("sim", cls=Group)
def sim() -> None:
    """Run simulated scenarios, and inject faults to see how Navarch reacts."""


FILE = click.Path(path_type=Path, dir_okay=False)
SEED = click.IntRange(min=0)


@sim.command("run")
@click.argument("scenario", type=FILE)
@click.option("--seed", type=SEED, help="Random seed; overrides the scenario's.")
@click.option("--seeds", type=click.IntRange(min=1), help="Run this many seeds in parallel.")
@click.option("--processes", type=click.IntRange(min=1), help="Number of processes.  [all cores]")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@click.option("--out", type=FILE, help="Write the outcome to this file as JSON.")
@click.option("--html", type=FILE, help="Write an HTML report to this file.")
@click.option(
    "--real-time", is_flag=True, help="Run in real time against a server; -s selects one."
)
@with_session
def run(
    session: Session,
    scenario: Path,
    seed: int | None,
    seeds: int | None,
    processes: int | None,
    as_json: bool,
    out: Path | None,
    html: Path | None,
    real_time: bool,
) -> int:
    r"""Run a scenario with the real control plane; fail if an assertion does not hold.

    \b
    navarch sim run scenarios/gpu-failure.yaml
    navarch sim run scenarios/control-plane-crash.yaml --seeds 100
    navarch sim run scenarios/basic-fleet.yaml --real-time
    """
    if seeds is not None:
        if real_time or out is not None or html is not None:
            raise click.UsageError("--seeds cannot be combined with --real-time, --out or --html")
        from navarch.cli.sim_run import run_many_seeds

        return run_many_seeds(
            session, scenario, first=seed or 0, count=seeds, processes=processes, json=as_json
        )
    if real_time:
        from navarch.cli.sim_run import run_in_real_time

        url = session.options.server or session.environment.environ.get("NAVARCH_SERVER")
        return run_in_real_time(
            session, scenario, server=url, seed=seed, out=out, html=html, json=as_json
        )
    from navarch.cli.sim_run import run_one

    return run_one(session, scenario, seed=seed, out=out, html=html, json=as_json)


@sim.command("validate")
@click.argument("scenarios", type=FILE, nargs=-1, required=True)
def validate(scenarios: tuple[Path, ...]) -> int:
    """Check scenario files without running them."""
    from navarch.cli.sim_files import validate_files

    return validate_files(scenarios)


@sim.command("list")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default="scenarios")
@with_session
def list_scenarios(session: Session, folder: Path) -> None:
    """List the scenario files in a folder."""
    from navarch.cli.sim_files import list_files

    list_files(session, folder)


@sim.command("new")
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(["fleet", "pool", "stress"]),
    default="fleet",
    help="Kind of scenario.  [fleet]",
)
def new(name: str, kind: str) -> None:
    """Write a new scenario file from a template."""
    from navarch.cli.sim_files import new_file

    new_file(name, kind)


@sim.command("compare")
@click.argument("first", type=FILE)
@click.argument("second", type=FILE)
@click.option("--seed", type=SEED, help="Random seed for scenarios.")
@click.option("--html", type=FILE, help="Write an HTML report to this file.")
@with_session
def compare(
    session: Session, first: Path, second: Path, seed: int | None, html: Path | None
) -> None:
    """Compare the figures of two runs: outcomes (.json), or scenarios to run."""
    from navarch.cli.sim_files import compare_files

    compare_files(session, first, second, seed=seed, html=html)


@sim.command("report")
@click.argument("outcome", type=FILE)
@click.argument("page", type=FILE)
def report(outcome: Path, page: Path) -> None:
    """Write an outcome (.json) as an HTML report to PAGE."""
    from navarch.cli.sim_files import report_file

    report_file(outcome, page)


@sim.command("import")
@click.argument("scenario", type=FILE)
@click.option("--nodes", type=FILE, required=True, help="CSV file of machines.")
@click.option("--jobs", type=FILE, help="CSV file of jobs.")
@click.option(
    "--hours", type=click.IntRange(min=1), default=24, help="Hours of the trace to import.  [24]"
)
def import_trace(scenario: Path, nodes: Path, jobs: Path | None, hours: int) -> None:
    r"""Create a scenario from the machines and jobs of a published trace.

    \b
    navarch sim import openb.yaml --nodes openb_node_list.csv --jobs openb_pod_list.csv
    navarch sim import spot.yaml --nodes node_info_df.csv --jobs job_info_df.csv --hours 48
    """
    from navarch.cli.sim_files import import_tables

    import_tables(scenario, nodes=nodes, jobs=jobs, lasts=timedelta(hours=hours))


@sim.command("record")
@click.argument("scenario", type=FILE)
@click.option(
    "--since",
    type=duration,
    metavar="DURATION",
    help="How far back, such as 24h.  [the whole journal]",
)
@click.option("--prices", is_flag=True, help="Include prices, which are left out by default.")
@click.option(
    "--config", type=FILE, help="The server's configuration, for its heartbeat intervals."
)
@with_session
def record(
    session: Session,
    scenario: Path,
    since: timedelta | None,
    prices: bool,
    config: Path | None,
) -> None:
    r"""Create an anonymized scenario from the history of a live fleet.

    It contains machines, faults and operator requests, but no names, labels, addresses, ids,
    dates or messages.

    \b
    navarch -s https://fleet.example.com sim record last-day.yaml --since 24h
    navarch sim run last-day.yaml
    """
    from navarch.cli.sim_files import record_fleet

    record_fleet(session, scenario, since=since, prices=prices, config=config)


@sim.command("replay")
@click.argument("outcome", type=FILE)
@with_session
def replay(session: Session, outcome: Path) -> int:
    """Repeat the run of an outcome with its seed; fail if the result differs."""
    from navarch.cli.sim_files import replay_file

    return replay_file(session, outcome)


@sim.command("interactive")
@click.argument("scenario", type=FILE, required=False)
@click.option("--seed", type=SEED, help="Random seed.")
@click.option("--speed", type=float, default=1.0, help="Simulated seconds per second.  [1]")
@with_session
def interactive(session: Session, scenario: Path | None, seed: int | None, speed: float) -> int:
    """Run a fleet interactively: inject faults, repair them and watch."""
    from navarch.cli.sim_interactive import interact

    return interact(session, scenario, seed=seed, speed=speed)


@sim.command("inject")
@click.argument("node", shell_complete=complete_node)
@click.option("--xid", type=click.IntRange(min=1, max=99_999), help="Report this XID error.")
@click.option("--gpu", type=click.IntRange(min=0), default=0, help="On this GPU.  [0]")
@click.option("--check", help="Report a result of this check.")
@health_option("Health to report.  [unhealthy]")
@click.option("--message", default="", help="Reason to report.")
@click.option("--fatal/--no-fatal", default=None, help="Whether the result is fatal.")
@click.option("--clear", is_flag=True, help="Report that the check passes again.")
@with_session
def inject(
    session: Session,
    node: str,
    xid: int | None,
    gpu: int,
    check: str | None,
    health: Health | None,
    message: str,
    fatal: bool | None,
    clear: bool,
) -> None:
    r"""Make a simulated machine report a fault.

    \b
    navarch sim inject my-cluster-0 --xid 79
    navarch sim inject my-cluster-0 --check thermal --health degraded --message "hot"
    navarch sim inject my-cluster-0 --check thermal --clear
    """
    if xid is not None and check is not None:
        raise click.UsageError("pass --xid or --check, not both")
    if clear:
        result = CheckResult(check=check or f"xid/0/{gpu}", health=Health.HEALTHY, reason=message)
    elif xid is not None:
        result = xid_result(xid, gpu, message)
    elif check is not None:
        result = CheckResult(
            check=check, health=health or Health.UNHEALTHY, reason=message, fatal=bool(fatal)
        )
    else:
        raise click.UsageError("pass --xid 79, or --check NAME with --health or --clear")
    session.call(lambda api: api.inject(NodeId(node), result))
    session.show(result, lambda _: _describe(node, result))


def xid_result(xid: int, gpu: int, message: str) -> CheckResult:
    """Return the check result for an XID error, as the machine's own check reports it."""
    assessment = assess_xid(xid, message)
    return CheckResult(
        check=f"xid/{xid}/{gpu}",
        health=assessment.health,
        reason=f"{label(xid)} on GPU {gpu}: {describe_xid(assessment, message)}",
        fatal=assessment.fatal,
        lasting=True,
    )


def _describe(node: str, result: CheckResult) -> str:
    if result.health is Health.HEALTHY and not result.lasting:
        return f"Node {node} will report that {result.check} passes"
    reason = f": {result.reason}" if result.reason else ""
    return (
        f"Node {node} will report {result.check} {result.health}{reason}\n"
        f"Follow it with: navarch why node {node}"
    )

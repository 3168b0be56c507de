"""Commands that simulate fleets, and that break simulated machines."""

from datetime import timedelta
from pathlib import Path

import click

from navarch.cli.commands import Group
from navarch.cli.completion import complete_node
from navarch.cli.options import duration, health_option
from navarch.cli.session import Session, with_session
from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId
from navarch.health.checks.xid import judge_xid, label, say


@click.group("sim", cls=Group)
def sim() -> None:
    """Play scenarios, and break simulated machines, to see what Navarch does about it."""


FILE = click.Path(path_type=Path, dir_okay=False)
SEED = click.IntRange(min=0)


@sim.command("run")
@click.argument("scenario", type=FILE)
@click.option("--seed", type=SEED, help="Which chance; goes before the scenario's own.")
@click.option("--seeds", type=click.IntRange(min=1), help="Play so many seeds, in parallel.")
@click.option("--processes", type=click.IntRange(min=1), help="How many at once.  [all cores]")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
@click.option("--out", type=FILE, help="Write the outcome into this file, as JSON.")
@click.option("--html", type=FILE, help="Write a report into this file, for a browser.")
@click.option(
    "--real-time", is_flag=True, help="Play against a server over the wire; -s names one."
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
    r"""Play a scenario around the real control plane; fail if something does not hold.

    \b
    navarch sim run scenarios/gpu-failure.yaml
    navarch sim run scenarios/control-plane-crash.yaml --seeds 100
    navarch sim run scenarios/basic-fleet.yaml --real-time
    """
    if seeds is not None:
        if real_time or out is not None or html is not None:
            raise click.UsageError("--seeds goes neither with --real-time, --out nor --html")
        from navarch.cli.sim_run import run_many_seeds

        return run_many_seeds(
            session, scenario, first=seed or 0, count=seeds, processes=processes, json=as_json
        )
    if real_time:
        from navarch.cli.sim_real_time import run_in_real_time

        told = session.options.server or session.environment.environ.get("NAVARCH_SERVER")
        return run_in_real_time(
            session, scenario, server=told, seed=seed, out=out, html=html, json=as_json
        )
    from navarch.cli.sim_run import run_one

    return run_one(session, scenario, seed=seed, out=out, html=html, json=as_json)


@sim.command("validate")
@click.argument("scenarios", type=FILE, nargs=-1, required=True)
def validate(scenarios: tuple[Path, ...]) -> int:
    """Check scenario files without playing them."""
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
    "--kind", type=click.Choice(["fleet", "pool", "stress"]), default="fleet", help="[fleet]"
)
def new(name: str, kind: str) -> None:
    """Write a scenario file to begin with."""
    from navarch.cli.sim_files import new_file

    new_file(name, kind)


@sim.command("compare")
@click.argument("first", type=FILE)
@click.argument("second", type=FILE)
@click.option("--seed", type=SEED, help="The chance for scenarios that are played.")
@click.option("--html", type=FILE, help="Write a report into this file, for a browser.")
@with_session
def compare(
    session: Session, first: Path, second: Path, seed: int | None, html: Path | None
) -> None:
    """Show the figures of two runs side by side: outcomes (.json), or scenarios to play."""
    from navarch.cli.sim_files import compare_files

    compare_files(session, first, second, seed=seed, html=html)


@sim.command("report")
@click.argument("outcome", type=FILE)
@click.argument("page", type=FILE)
def report(outcome: Path, page: Path) -> None:
    """Write the report of an outcome (.json) into PAGE, for a browser."""
    from navarch.cli.sim_files import report_file

    report_file(outcome, page)


@sim.command("import")
@click.argument("scenario", type=FILE)
@click.option("--nodes", type=FILE, required=True, help="A CSV table of machines.")
@click.option("--jobs", type=FILE, help="A CSV table of jobs.")
@click.option("--hours", type=click.IntRange(min=1), default=24, help="How much of it.  [24]")
def import_trace(scenario: Path, nodes: Path, jobs: Path | None, hours: int) -> None:
    r"""Make a scenario of the machines and jobs of a published trace.

    \b
    navarch sim import openb.yaml --nodes openb_node_list.csv --jobs openb_pod_list.csv
    navarch sim import spot.yaml --nodes node_info_df.csv --jobs job_info_df.csv --hours 48
    """
    from navarch.cli.sim_trace import import_tables

    import_tables(scenario, nodes=nodes, jobs=jobs, lasts=timedelta(hours=hours))


@sim.command("record")
@click.argument("scenario", type=FILE)
@click.option(
    "--since", type=duration, metavar="DURATION", help="How far back, such as 24h.  [all there is]"
)
@click.option("--prices", is_flag=True, help="Keep what machines cost; a secret otherwise.")
@click.option("--config", type=FILE, help="The server's configuration: how often agents speak.")
@with_session
def record(
    session: Session,
    scenario: Path,
    since: timedelta | None,
    prices: bool,
    config: Path | None,
) -> None:
    r"""Make a scenario of what happened to a live fleet, without anybody's names.

    Kept are machines, what befell them and what people asked for. Names, labels, addresses, ids,
    dates and messages are not.

    \b
    navarch -s https://fleet.example.com sim record last-day.yaml --since 24h
    navarch sim run last-day.yaml
    """
    from navarch.cli.sim_trace import record_fleet

    record_fleet(session, scenario, since=since, prices=prices, config=config)


@sim.command("replay")
@click.argument("outcome", type=FILE)
@with_session
def replay(session: Session, outcome: Path) -> int:
    """Play the scenario of an outcome again, with its seed; fail if something comes out else."""
    from navarch.cli.sim_files import replay_file

    return replay_file(session, outcome)


@sim.command("interactive")
@click.argument("scenario", type=FILE, required=False)
@click.option("--seed", type=SEED, help="Which chance.")
@click.option("--speed", type=float, default=1.0, help="Simulated seconds per second.  [1]")
@with_session
def interactive(session: Session, scenario: Path | None, seed: int | None, speed: float) -> int:
    """Play with a fleet: break it, mend it and watch, at your own pace."""
    from navarch.cli.sim_interactive import interact

    return interact(session, scenario, seed=seed, speed=speed)


@sim.command("inject")
@click.argument("node", shell_complete=complete_node)
@click.option("--xid", type=click.IntRange(min=1, max=99_999), help="Report this XID error.")
@click.option("--gpu", type=click.IntRange(min=0), default=0, help="On this GPU.  [0]")
@click.option("--check", help="Let the check of this name report something.")
@health_option("What it says.  [unhealthy]")
@click.option("--message", default="", help="Why it says so.")
@click.option("--fatal/--no-fatal", default=None, help="Whether to act at once.")
@click.option("--clear", is_flag=True, help="Let the check pass again.")
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
        raise click.UsageError("say --xid or --check, not both")
    if clear:
        result = CheckResult(check=check or f"xid/0/{gpu}", health=Health.HEALTHY, reason=message)
    elif xid is not None:
        result = xid_result(xid, gpu, message)
    elif check is not None:
        result = CheckResult(
            check=check, health=health or Health.UNHEALTHY, reason=message, fatal=bool(fatal)
        )
    else:
        raise click.UsageError("say what: --xid 79, or --check NAME with --health or --clear")
    session.call(lambda api: api.inject(NodeId(node), result))
    session.show(result, lambda _: _told(node, result))


def xid_result(xid: int, gpu: int, message: str) -> CheckResult:
    """Return such an error, judged as the machine's own check would judge it."""
    ruling = judge_xid(xid, message)
    return CheckResult(
        check=f"xid/{xid}/{gpu}",
        health=ruling.health,
        reason=f"{label(xid)} on GPU {gpu}: {say(ruling, message)}",
        fatal=ruling.fatal,
        lasting=True,
    )


def _told(node: str, result: CheckResult) -> str:
    if result.health is Health.HEALTHY and not result.lasting:
        return f"Node {node} will report that {result.check} passes"
    reason = f": {result.reason}" if result.reason else ""
    return (
        f"Node {node} will report {result.check} {result.health}{reason}\n"
        f"See what becomes of it: navarch why node {node}"
    )

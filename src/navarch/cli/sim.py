"""Commands that break simulated machines."""

import click

from navarch.cli.commands import Group
from navarch.cli.completing import node_names
from navarch.cli.options import health_option
from navarch.cli.session import Session, with_session
from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId
from navarch.health.checks.xid import judge_xid, label, say


@click.group("sim", cls=Group)
def sim() -> None:
    """Break simulated machines, to see what Navarch does about it."""


@sim.command("inject")
@click.argument("node", shell_complete=node_names)
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
    session.ask(lambda api: api.inject(NodeId(node), result))
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

"""`navarch logs`: the set-up of one machine."""

from collections.abc import Sequence

import click

from navarch.cli.commands import Command
from navarch.cli.completion import complete_node
from navarch.cli.errors import refuse_over_grpc
from navarch.cli.session import Session, with_session
from navarch.core.bringup import BringUpLog
from navarch.core.ids import NodeId
from navarch.ports.api import FleetApi
from navarch.ports.shell import BringUpApi


@click.command("logs", cls=Command)
@click.argument("node", shell_complete=complete_node)
@click.option("--bootstrap", is_flag=True, help="Show set-up logs. The default and the only kind.")
@click.option("--all", "show_all", is_flag=True, help="Show every attempt, not only the last.")
@with_session
def logs(session: Session, node: str, bootstrap: bool, show_all: bool) -> None:  # noqa: ARG001
    """Show the output of the set-up commands on a node's machine.

    The logs outlive the machine. Secrets passed to the commands are redacted.
    """
    found = session.call(lambda api: _bringup_api(api).list_bringups(NodeId(node)))
    shown = found if show_all else found[-1:]
    session.show(shown, lambda _: render_bringups(shown, attempts=len(found)))


def _bringup_api(api: FleetApi) -> BringUpApi:
    return api if isinstance(api, BringUpApi) else refuse_over_grpc("set-up logs are")


def render_bringups(logs: Sequence[BringUpLog], *, attempts: int) -> str:
    """Return the attempts as text; `attempts` is how many there were in all."""
    text = "\n\n".join(_attempt(log, attempts) for log in logs)
    return text or "No set-up logs: no commands were run on this machine over SSH."


def _attempt(log: BringUpLog, attempts: int) -> str:
    if log.ended_at is None:
        outcome = "in progress, or interrupted"
    else:
        took = (log.ended_at - log.started_at).total_seconds()
        outcome = f"{'done' if log.succeeded else 'failed'} after {took:.1f} s"
    lines = [
        f"Attempt {log.attempt} of {attempts}, {log.started_at:%Y-%m-%d %H:%M:%S} UTC, "
        f"at {log.address}: {outcome}",
    ]
    if log.waited_s >= 1:
        lines.append(f"  SSH was reachable after {log.waited_s:.0f} s")
    for entry in log.commands:
        code = "no exit code" if entry.exit_code is None else f"exit {entry.exit_code}"
        lines += [f"  $ {entry.command}", f"    {code}, {entry.duration_s:.1f} s"]
        lines += [f"    | {line}" for line in entry.stdout.splitlines()]
        lines += [f"    ! {line}" for line in entry.stderr.splitlines()]
    if log.error:
        lines.append(f"  {log.error}")
    return "\n".join(lines)

"""`navarch logs`: how a node's machine was set up, command by command."""

from collections.abc import Sequence

import click

from navarch.cli.commands import Command
from navarch.cli.completion import complete_node
from navarch.cli.session import Session, with_session
from navarch.core.bringup import BringUpLog, CommandLog
from navarch.core.errors import NotPossibleError
from navarch.core.ids import NodeId
from navarch.ports.api import FleetApi
from navarch.ports.bringup import BringUpApi


@click.command("logs", cls=Command)
@click.argument("node", shell_complete=complete_node)
@click.option(
    "--bootstrap", is_flag=True, help="How it was set up. The default: there is no other."
)
@click.option("--all", "show_all", is_flag=True, help="Every attempt, not only the last.")
@with_session
def logs(session: Session, node: str, bootstrap: bool, show_all: bool) -> None:  # noqa: ARG001
    """Show what the set-up commands said on a node's machine.

    The logs outlive the machine. Secrets that were passed to commands are not in them.
    """
    found = session.call(lambda api: _logs(api).list_bringups(NodeId(node)))
    shown = found if show_all else found[-1:]
    session.show(shown, lambda _: render_bringups(shown, attempts=len(found)))


def _logs(api: FleetApi) -> BringUpApi:
    if not isinstance(api, BringUpApi):
        raise NotPossibleError("these logs are served over HTTP; use an http:// or https:// server")
    return api


def render_bringups(logs: Sequence[BringUpLog], *, attempts: int) -> str:
    """Return the attempts as a person reads them."""
    if not logs:
        return "It was not set up over SSH: no commands were run on it."
    return "\n\n".join(_attempt(log, attempts) for log in logs)


def _attempt(log: BringUpLog, attempts: int) -> str:
    if log.ended_at is None:
        outcome = "under way, or cut short"
    else:
        took = (log.ended_at - log.started_at).total_seconds()
        outcome = f"{'done' if log.succeeded else 'failed'} after {took:.1f} s"
    lines = [
        f"Attempt {log.attempt} of {attempts}, {log.started_at:%Y-%m-%d %H:%M:%S} UTC, "
        f"at {log.address}: {outcome}",
    ]
    if log.waited_s >= 1:
        lines.append(f"  SSH answered after {log.waited_s:.0f} s")
    for entry in log.commands:
        lines += _command(entry)
    if log.error:
        lines.append(f"  {log.error}")
    return "\n".join(lines)


def _command(entry: CommandLog) -> list[str]:
    code = "no answer" if entry.exit_code is None else f"exit {entry.exit_code}"
    lines = [f"  $ {entry.command}", f"    {code}, {entry.duration_s:.1f} s"]
    lines += [f"    | {line}" for line in entry.stdout.splitlines()]
    lines += [f"    ! {line}" for line in entry.stderr.splitlines()]
    return lines

"""`navarch logs` and `navarch evidence`: records of one machine."""

import hashlib
from collections.abc import Sequence

import click
import msgspec

from navarch.cli.commands import Command
from navarch.cli.completion import complete_node
from navarch.cli.errors import refuse_over_grpc
from navarch.cli.output import render_data
from navarch.cli.printing import one_line
from navarch.cli.session import Session, with_session
from navarch.core.bringup import BringUpLog
from navarch.core.errors import InvalidError, NotFoundError
from navarch.core.ids import NodeId
from navarch.core.incident import Evidence, EvidenceNote, inflated
from navarch.ports.api import FleetApi
from navarch.ports.evidence import EvidenceApi
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


@click.command("evidence", cls=Command)
@click.argument("node", shell_complete=complete_node)
@click.argument("name", metavar="[ID]", required=False)
@click.option("--all", "show_all", is_flag=True, help="List all bundles instead of showing one.")
@with_session
def evidence(session: Session, node: str, name: str | None, show_all: bool) -> None:
    """Show the latest evidence bundle of a node, or the bundle ID.

    A bundle holds the kernel log, the state of GPUs, PCIe bus and processes, and all versions, as
    of the finding. It outlives the machine.
    """
    if show_all:
        notes = session.call(lambda api: _archive(api).list_evidence(NodeId(node)))
        session.show(notes, lambda _: _table(notes))
        return
    found = session.call(lambda api: _one(api, NodeId(node), name))
    session.show(_content(found), lambda _: render_data(_content(found), session.output))


async def _one(api: FleetApi, node: NodeId, name: str | None) -> Evidence:
    archive = _archive(api)
    if name is None:
        notes = await archive.list_evidence(node)
        if not notes:
            raise NotFoundError(
                f"no evidence for node {node}. Its agent uploads a bundle when a check finds the "
                "node unhealthy, and before a reset or termination"
            )
        name = notes[0].id
    return await archive.get_evidence(node, name)


def _archive(api: FleetApi) -> EvidenceApi:
    return api if isinstance(api, EvidenceApi) else refuse_over_grpc("evidence is")


def _content(found: Evidence) -> object:
    if hashlib.sha256(found.content).hexdigest() != found.note.sha256:
        raise InvalidError(f"evidence {found.note.id} is damaged: its SHA-256 does not match")
    return msgspec.json.decode(inflated(found))


def _table(notes: Sequence[EvidenceNote]) -> str:
    lines = [
        f"{note.taken_at:%Y-%m-%d %H:%M:%S}  {note.id}  {note.size_bytes // 1024 + 1} kB  "
        f"{note.why}"
        for note in notes
    ]
    return "\n".join(map(one_line, lines)) or "No evidence found"

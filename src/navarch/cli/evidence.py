"""`navarch evidence`: the state of a node when a check found it unhealthy."""

import gzip
import hashlib
from collections.abc import Sequence

import click
import msgspec

from navarch.cli.commands import Command
from navarch.cli.completion import complete_node
from navarch.cli.errors import refuse_over_grpc
from navarch.cli.output import render_data
from navarch.cli.session import Session, with_session
from navarch.core.errors import InvalidError, NotFoundError
from navarch.core.ids import NodeId
from navarch.core.incident import Evidence, EvidenceNote
from navarch.ports.api import FleetApi
from navarch.ports.evidence import EvidenceApi


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
    return msgspec.json.decode(gzip.decompress(found.content))


def _table(notes: Sequence[EvidenceNote]) -> str:
    lines = [
        f"{note.taken_at:%Y-%m-%d %H:%M:%S}  {note.id}  {note.size_bytes // 1024 + 1} kB  "
        f"{note.why}"
        for note in notes
    ]
    return "\n".join(lines) or "No evidence found"

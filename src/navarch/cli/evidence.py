"""`navarch evidence`: what a machine recorded when it failed, and proof that it is unaltered."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from urllib.parse import quote

import click
import msgspec
from click.shell_completion import CompletionItem

from navarch.cli.commands import Command, Group
from navarch.cli.completion import complete_node
from navarch.cli.errors import CommandError, needs_extra, refuse_over_grpc
from navarch.cli.output import render_data
from navarch.cli.printing import one_line
from navarch.cli.render.table import Canvas, timestamp
from navarch.cli.session import Session, with_session
from navarch.core.errors import InvalidError, NotFoundError
from navarch.core.ids import NodeId
from navarch.core.incident import Evidence, EvidenceNote, inflated
from navarch.core.receipt import (
    KeptEvidence,
    Manifest,
    Receipt,
    check_receipt,
)
from navarch.ports.api import FleetApi
from navarch.ports.evidence import EvidenceApi, EvidenceKey

BUNDLE, MANIFEST, SIGNATURE = ".json.gz", ".manifest.json", ".manifest.sig"
BESIDE = (
    ": the manifest and the signature belong next to the bundle, as `navarch evidence save` "
    "wrote them"
)


class NodeOrCommand(Group):
    """A group whose command `show` may be left out: `navarch evidence NODE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `show` where no word is a command."""
        if args and args[0] not in ctx.help_option_names and not set(args) & set(self.commands):
            args = ["show", *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that `args` start with, or `show` if that is a node."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["show", *args])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and the nodes that start with what is typed."""
        nodes = complete_node(ctx, click.Argument(["node"]), incomplete)
        return [*super().shell_complete(ctx, incomplete), *nodes]


@click.group("evidence", cls=NodeOrCommand)
def evidence() -> None:
    """Show, save and verify the state of a node when it failed.

    `navarch evidence NODE` is short for `navarch evidence show NODE`.
    """


@evidence.command("show", cls=Command)
@click.argument("node", shell_complete=complete_node)
@click.argument("name", metavar="[ID]", required=False)
@click.option("--all", "show_all", is_flag=True, help="List all bundles instead of showing one.")
@with_session
def show(session: Session, node: str, name: str | None, show_all: bool) -> None:
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


@evidence.command("save", cls=Command)
@click.argument("node", shell_complete=complete_node)
@click.argument("name", metavar="[ID]", required=False)
@click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="The folder for the files; the present one by default.",
)
@with_session
def save(session: Session, node: str, name: str | None, folder: Path) -> None:
    """Save a bundle with its manifest and signature, to send them to a vendor.

    The manifest states the hash of the bundle, the node, its machine and its GPUs, and when and
    from which identity the control plane received it. The control plane has signed it.
    """
    found = session.call(lambda api: _one(api, NodeId(node), name))
    _content(found)
    stem = quote(found.note.id, safe="")
    parts = {BUNDLE: found.content}
    if found.receipt is not None:
        parts |= {MANIFEST: found.receipt.manifest, SIGNATURE: found.receipt.signature}
    written = [_write_new(folder / f"{stem}{ending}", data) for ending, data in parts.items()]
    session.show({"files": written}, lambda _: "\n".join(written))
    if found.receipt is None:
        raise CommandError(
            f"bundle {found.note.id} has no signature: a version of the server that made none "
            "has received it"
        )


@evidence.command("verify", cls=Command)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--keys",
    "keys_file",
    type=click.Path(path_type=Path),
    help="The public keys of the cluster, from `navarch evidence keys`. Without this option, the "
    "control plane is asked for them.",
)
@with_session
def verify(session: Session, file: Path, keys_file: Path | None) -> None:
    """Verify that a bundle is what the control plane received, unaltered.

    FILE is the bundle; its manifest and signature are next to it, as `navarch evidence save` wrote
    them. With --keys, no control plane is needed.
    """
    library = _signatures()
    content = _read(file)
    receipt = Receipt(
        manifest=_read(_beside(file, MANIFEST), BESIDE),
        signature=_read(_beside(file, SIGNATURE), BESIDE),
    )
    if keys_file is None:
        keys = session.call(lambda api: _archive(api).list_evidence_keys())
        publics = [key for each in keys for key in library.read_pem(each.pem.encode())]
    else:
        try:
            publics = list(library.read_pem(_read(keys_file)))
        except InvalidError as error:
            raise InvalidError(f"{keys_file}: {error}") from error
    try:
        manifest = check_receipt(content, receipt, publics, library.verify)
    except InvalidError as error:
        raise InvalidError(f"{file} is not verified: {error}") from error
    session.show(manifest, lambda _: _verified(file, manifest))


@evidence.command("keys", cls=Command)
@with_session
def keys(session: Session) -> None:
    """Print the public keys that sign evidence, as a file for --keys or for OpenSSL.

    Get them from the control plane itself, and not from where the bundle comes from.
    """
    session.show_call(lambda api: _archive(api).list_evidence_keys(), _render_keys)


@evidence.command("rotate-key", cls=Command)
@click.option("--reason", required=True, help="Reason, recorded in the journal.")
@with_session
def rotate_key(session: Session, reason: str) -> None:
    """Sign evidence with a new key from now on, and delete the secret of the present one.

    What was signed before stays valid: the public keys are kept for ever.
    """
    made = session.call(lambda api: _archive(api).rotate_evidence_key(reason=reason))
    session.show(made, lambda _: f"Evidence is signed with key {made.id} from now on")


def _signatures() -> ModuleType:
    try:
        from navarch import signatures
    except ModuleNotFoundError as error:
        what = "`navarch evidence verify`"
        raise CommandError(needs_extra(what, error, "signing")) from error
    return signatures


async def _one(api: FleetApi, node: NodeId, name: str | None) -> KeptEvidence:
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


def _write_new(path: Path, data: bytes) -> str:
    """Write a file that only its owner may read; return its name. A second copy is no error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.read_bytes() != data:
        raise InvalidError(f"{path} exists with other content; choose another folder with --to")
    path.touch(mode=0o600)
    path.write_bytes(data)
    return str(path)


def _beside(bundle: Path, ending: str) -> Path:
    return bundle.with_name(bundle.name.removesuffix(BUNDLE) + ending)


def _read(path: Path, hint: str = "") -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise NotFoundError(f"{path} is missing{hint}") from error
    except OSError as error:
        raise InvalidError(f"{path} cannot be read: {error.strerror}") from error


def _verified(file: Path, manifest: Manifest) -> str:
    machine = f"{manifest.instance} at {manifest.provider}" if manifest.instance else ""
    rows = {
        "node": manifest.node,
        "machine": machine,
        "taken": f"{timestamp(manifest.taken_at)}, by the clock of the machine",
        "received": f"{timestamp(manifest.received_at)}, from {manifest.uploaded_by}",
        "cluster": manifest.cluster,
        "key": manifest.key,
        **{
            f"GPU {gpu.index}": f"{gpu.name} {gpu.uuid}"
            + (f", serial number {gpu.serial}" if gpu.serial else "")
            for gpu in manifest.gpus
        },
    }
    lines = [f"  {name:<9} {value}" for name, value in rows.items() if value]
    return "\n".join(
        map(one_line, [f"{file} is unaltered since the control plane received it", *lines])
    )


def _render_keys(found: Sequence[EvidenceKey], _canvas: Canvas) -> str:
    if not found:
        return "# No key yet: the first evidence bundle makes it, or `navarch evidence rotate-key`"
    return "\n".join(f"# {_heading(key)}\n{key.pem.rstrip()}" for key in found)


def _heading(key: EvidenceKey) -> str:
    end = f"until {timestamp(key.retired_at)}" if key.retired_at else "signs now"
    return f"{key.id}, since {timestamp(key.created_at)}, {end}"


def _table(notes: Sequence[EvidenceNote]) -> str:
    lines = [
        f"{note.taken_at:%Y-%m-%d %H:%M:%S}  {note.id}  {note.size_bytes // 1024 + 1} kB  "
        f"{note.why}"
        for note in notes
    ]
    return "\n".join(map(one_line, lines)) or "No evidence found"

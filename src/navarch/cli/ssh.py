"""`navarch ssh`: a shell where the GPUs are."""

import click

from navarch.cli.commands import Command
from navarch.cli.completion import complete_node
from navarch.cli.errors import NOT_ALLOWED, CommandError
from navarch.cli.render.nodes import status_word
from navarch.cli.session import Session, with_session
from navarch.core.ids import NodeId
from navarch.ports.api import NodeView


@click.command("ssh", cls=Command, context_settings={"ignore_unknown_options": False})
@click.argument("node", shell_complete=complete_node)
@click.argument("command", nargs=-1, metavar="[-- COMMAND...]")
@click.option("-l", "--user", help="Log in as; else what ssh thinks, or NAVARCH_SSH_USER.")
@click.option("-i", "--identity", type=click.Path(), help="The private key to use.")
@click.option("-p", "--port", type=click.IntRange(1, 65535), help="Where its ssh listens.")
@click.option("--private", is_flag=True, help="By its private address, as from inside.")
@with_session
def ssh(
    session: Session,
    node: str,
    command: tuple[str, ...],
    user: str | None,
    identity: str | None,
    port: int | None,
    private: bool,
) -> None:
    """Open a shell on a node, or run a command there: navarch ssh NODE -- nvidia-smi."""
    view = session.call(lambda api: api.get_node(NodeId(node))).node
    login = user or session.environment.environ.get("NAVARCH_SSH_USER")
    words = ["ssh"]
    words += ["-l", login] if login else []
    words += ["-i", identity] if identity else []
    words += ["-p", str(port)] if port else []
    # An address comes from a cloud; after the dashes it cannot be taken for an option.
    words += ["--", _address(view, private=private), *command]
    try:
        session.environment.execute(words)
    except FileNotFoundError as error:
        raise CommandError("there is no ssh here; install OpenSSH's client") from error


def _address(node: NodeView, *, private: bool) -> str:
    found = node.private_address if private else node.public_address or node.private_address
    if not found:
        raise CommandError(
            f"node {node.id} has no {'private ' if private else ''}address: "
            f"it is {status_word(node).lower()}",
            NOT_ALLOWED,
        )
    return found

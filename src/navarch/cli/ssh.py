"""`navarch ssh`: open a shell on a node."""

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
@click.option("-l", "--user", help="Login name.  [default: NAVARCH_SSH_USER, or ssh's default]")
@click.option("-i", "--identity", type=click.Path(), help="Private key file.")
@click.option("-p", "--port", type=click.IntRange(1, 65535), help="SSH port.")
@click.option("--private", is_flag=True, help="Use the private address.")
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
    # The address comes from a cloud; after `--` ssh cannot parse it as an option.
    words += ["--", _address(view, private=private), *command]
    try:
        session.environment.execute(words)
    except FileNotFoundError as error:
        raise CommandError("ssh not found; install the OpenSSH client") from error


def _address(node: NodeView, *, private: bool) -> str:
    found = node.private_address if private else node.public_address or node.private_address
    if not found:
        raise CommandError(
            f"node {node.id} has no {'private ' if private else ''}address: "
            f"it is {status_word(node).lower()}",
            NOT_ALLOWED,
        )
    return found

"""`navarch join-token`: the token for a machine that is set up by hand."""

import click

from navarch.cli.commands import Command
from navarch.cli.completion import complete_node
from navarch.cli.errors import refuse_over_grpc
from navarch.cli.options import reason_option
from navarch.cli.session import Session, with_session
from navarch.core.ids import NodeId
from navarch.ports.api import FleetApi
from navarch.ports.joining import JoinApi


@click.command("join-token", cls=Command)
@click.argument("node", shell_complete=complete_node)
@click.option(
    "--again",
    is_flag=True,
    help="Issue a token even if a machine has joined; the next one replaces it.",
)
@reason_option
@with_session
def join_token(session: Session, node: str, again: bool, reason: str) -> None:
    r"""Print the one-time token with which the machine of NODE joins.

    Cloud-init and set-up commands receive it automatically. To set up a machine by hand:

    \b
      navarch join-token training-0 > join-token
      NAVARCH_JOIN_TOKEN=$(cat join-token) navarch agent --server URL --node-id training-0

    A reinstalled machine has lost its key; --again lets it join once more.
    """
    token = session.call(
        lambda api: _join_api(api).issue_join_token(NodeId(node), again=again, reason=reason)
    )
    session.show({"node": node, "token": token}, lambda _: token)


def _join_api(api: FleetApi) -> JoinApi:
    return api if isinstance(api, JoinApi) else refuse_over_grpc("join tokens are")

"""`navarch join-token`: what a machine shows to be let in, for those who set one up by hand."""

import click

from navarch.cli.commands import Command
from navarch.cli.completion import complete_node
from navarch.cli.session import Session, with_session
from navarch.core.errors import NotPossibleError
from navarch.core.ids import NodeId
from navarch.ports.api import FleetApi
from navarch.ports.joining import JoinApi


@click.command("join-token", cls=Command)
@click.argument("node", shell_complete=complete_node)
@click.option(
    "--again", is_flag=True, help="Also if a machine has joined already: the next takes its place."
)
@click.option("--reason", default="", help="Why; it is kept.")
@with_session
def join_token(session: Session, node: str, again: bool, reason: str) -> None:
    r"""Print the token with which the machine of NODE joins, once.

    Cloud-init and set-up commands pass it on by themselves. By hand, on the machine:

    \b
      navarch join-token training-0 > join-token
      NAVARCH_JOIN_TOKEN=$(cat join-token) navarch agent --server URL --node-id training-0

    A machine that was installed anew has lost its key; --again lets it join once more.
    """
    token = session.call(
        lambda api: _joins(api).issue_join_token(NodeId(node), again=again, reason=reason)
    )
    session.show({"node": node, "token": token}, lambda _: token)


def _joins(api: FleetApi) -> JoinApi:
    if not isinstance(api, JoinApi):
        raise NotPossibleError("this is served over HTTP; use an http:// or https:// server")
    return api

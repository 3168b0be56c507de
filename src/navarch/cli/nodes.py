"""Commands on nodes: list, get, cordon, drain, terminate and others, ssh and join-token."""

import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import click

from navarch.cli.commands import Command
from navarch.cli.completion import complete_node, complete_pool
from navarch.cli.confirm import confirm_termination, yes_option
from navarch.cli.errors import NOT_ALLOWED, CommandError, describe_error, refuse_over_grpc
from navarch.cli.options import (
    health_option,
    labels_option,
    reason_option,
    sort_option,
    status_option,
)
from navarch.cli.output import Output, list_all, render_data
from navarch.cli.printing import echo
from navarch.cli.render.nodes import render_node, render_nodes, status_word
from navarch.cli.render.table import duration
from navarch.cli.session import Session, with_session
from navarch.cli.watch import show_or_watch, watch_option
from navarch.core.errors import NavarchError, NotFoundError
from navarch.core.health import Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import NodeStatus
from navarch.ports.access import AccessApi, NodeLogin
from navarch.ports.agents import JoinApi
from navarch.ports.api import FleetApi, NodeDetail, NodeView, Query

STALE = timedelta(minutes=2)
"""A node without a heartbeat for this long may be offline and ignore commands."""

SSH_PORT = 22

NODES = click.argument(
    "nodes", nargs=-1, required=True, metavar="NODE...", shell_complete=complete_node
)


@click.command("list", cls=Command)
@click.option("--provider", help="Only from this provider.")
@click.option("--region", help="Only in this region.")
@status_option
@health_option("Only with this health.")
@click.option("--pool", help="Only in this pool.", shell_complete=complete_pool)
@labels_option
@click.option("-a", "--all", "include_gone", is_flag=True, help="Include terminated nodes.")
@sort_option
@watch_option
@with_session
def list_nodes(
    session: Session,
    provider: str | None,
    region: str | None,
    status: NodeStatus | None,
    health: Health | None,
    pool: str | None,
    labels: tuple[tuple[str, str], ...],
    include_gone: bool,
    sort: str,
    watch: bool,
) -> None:
    """List nodes.

    Columns that do not fit the terminal are omitted; -o json has everything.
    """
    query = Query(
        provider=provider,
        region=region,
        status=status,
        health=health,
        pool=PoolName(pool) if pool else None,
        labels=dict(labels),
        include_gone=include_gone,
        order_by=sort,
    )
    show_or_watch(session, lambda api: list_all(api.list_nodes, query), render_nodes, watch=watch)


@click.command("get", cls=Command)
@click.argument("node", shell_complete=complete_node)
@with_session
def get(session: Session, node: str) -> None:
    """Show the details of one node."""
    session.show_call(lambda api: api.get_node(NodeId(node)), render_node)


@click.command("cordon", cls=Command)
@NODES
@reason_option
@with_session
def cordon(session: Session, nodes: tuple[str, ...], reason: str) -> int:
    """Keep new work off nodes; running work continues."""
    return for_each_node(
        session, nodes, "cordoned", lambda api, node: api.cordon(node, reason=reason)
    )


@click.command("uncordon", cls=Command)
@NODES
@with_session
def uncordon(session: Session, nodes: tuple[str, ...]) -> int:
    """Allow new work on nodes again.

    Failed health checks still count; see `navarch override`.
    """
    return for_each_node(session, nodes, _uncordoned, lambda api, node: api.uncordon(node))


@click.command("drain", cls=Command)
@NODES
@reason_option
@with_session
def drain(session: Session, nodes: tuple[str, ...], reason: str) -> int:
    """Move work off nodes. The nodes stay until terminated or uncordoned."""
    return for_each_node(
        session, nodes, "draining", lambda api, node: api.drain(node, reason=reason)
    )


@click.command("terminate", cls=Command)
@NODES
@reason_option
@yes_option
@with_session
def terminate(session: Session, nodes: tuple[str, ...], reason: str, yes: bool) -> int:
    """Drain nodes and terminate their machines; their pools replace them.

    On a terminal the command shows what it terminates, and asks first.
    """
    why = reason or "terminated by hand"
    if not yes:
        confirm_termination(session, [NodeId(name) for name in nodes])
    return for_each_node(
        session, nodes, "terminating", lambda api, node: api.retire(node, reason=why)
    )


@click.command("override", cls=Command)
@NODES
@click.option("--reason", required=True, help="Reason, recorded in the journal.")
@with_session
def override(session: Session, nodes: tuple[str, ...], reason: str) -> int:
    """Declare nodes healthy despite their failed checks.

    A check that fails again afterwards counts again.
    """
    outcome = "declared healthy"
    return for_each_node(
        session, nodes, outcome, lambda api, node: api.declare_healthy(node, reason=reason)
    )


def _uncordoned(node: NodeView) -> str:
    if node.status in (None, NodeStatus.ACTIVE):
        return "uncordoned"
    return f"uncordoned, but {node.status}: see `navarch why {node.id}`"


def for_each_node(
    session: Session,
    names: Sequence[str],
    outcome: str | Callable[[NodeView], str],
    act: Callable[[FleetApi, NodeId], Awaitable[NodeView]],
    *,
    warn: bool = True,
) -> int:
    """Apply `act` to each node, continuing after errors; return the first error's exit code."""
    done: list[NodeView] = []
    codes: list[int] = []

    async def act_on_all(api: FleetApi) -> None:
        for name in map(NodeId, names):
            if warn:
                await _warn_if_stale(session, api, name)
            try:
                done.append(await act(api, name))
            except NavarchError as error:
                if len(names) == 1:
                    raise
                failure = describe_error(error)
                codes.append(failure.code)
                text = str(failure)
                echo(f"Error: {text if name in text else f'{name}: {text}'}", err=True)
            else:
                if session.output is Output.TABLE:
                    text = outcome if isinstance(outcome, str) else outcome(done[-1])
                    echo(f"Node {name} {text}")

    session.call(act_on_all)
    if session.output is not Output.TABLE:
        echo(render_data(done, session.output))
    return codes[0] if codes else 0


async def _warn_if_stale(session: Session, api: FleetApi, name: NodeId) -> None:
    try:
        detail = await api.get_node(name)
    except NavarchError:
        return  # The request that follows raises a better error.
    last = detail.node.last_heartbeat
    if last is None:
        if detail.node.status not in (None, NodeStatus.TERMINATED):
            echo(f"Warning: node {name} has never sent a heartbeat", err=True)
        return
    silent = session.clock.now() - last
    if silent > STALE:
        echo(
            f"Warning: node {name} last heartbeat was {duration(silent)} ago (may be offline)",
            err=True,
        )


@click.command("ssh", cls=Command, context_settings={"ignore_unknown_options": False})
@click.argument("node", shell_complete=complete_node)
@click.argument("command", nargs=-1, metavar="[-- COMMAND...]")
@click.option("-l", "--user", help="Login name.  [default: NAVARCH_SSH_USER, or the server's]")
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
    """Open a shell on a node, or run a command there: navarch ssh NODE -- nvidia-smi.

    Port, user and key come from the server's inventory or pool, unless options set them.
    """
    detail, login = session.call(lambda api: _find_login(api, NodeId(node)))
    if login.simulated:
        raise CommandError(
            f"node {node} is simulated: there is no machine to log in to", NOT_ALLOWED
        )
    user = user or session.environment.environ.get("NAVARCH_SSH_USER") or login.user
    # The server may run elsewhere; ssh then uses the keys of this user.
    key = identity or (login.key_file if os.access(login.key_file, os.R_OK) else "")
    words = ["ssh"]
    words += ["-l", user] if user else []
    words += ["-i", key] if key else []
    words += ["-p", str(port or login.port)] if port or login.port != SSH_PORT else []
    # The address comes from a cloud; after `--` ssh cannot parse it as an option.
    words += ["--", _address(detail, private=private or login.private_address), *command]
    try:
        session.environment.execute(words)
    except FileNotFoundError as error:
        raise CommandError("ssh not found; install the OpenSSH client") from error


async def _find_login(api: FleetApi, node: NodeId) -> tuple[NodeDetail, NodeLogin]:
    detail = await api.get_node(node)
    try:
        login = await api.get_login(node) if isinstance(api, AccessApi) else NodeLogin()
    except NotFoundError:
        login = NodeLogin()  # The server is older than this command line.
    return detail, login


def _address(detail: NodeDetail, *, private: bool) -> str:
    node = detail.node
    found = node.private_address if private else node.public_address or node.private_address
    is_self_registered = node.instance is None and node.registered_at is not None
    if not found and detail.inventory is not None and (private or is_self_registered):
        found = detail.inventory.internal_ip
    if found:
        return found
    if is_self_registered:
        raise CommandError(f"node {node.id} has no address: its agent reports none", NOT_ALLOWED)
    raise CommandError(
        f"node {node.id} has no {'private ' if private else ''}address yet: it is "
        f"{status_word(node).lower()}. Try again in a minute; see how far it is: "
        f"navarch why {node.id}",
        NOT_ALLOWED,
    )


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

"""`navarch token` and `navarch whoami`: stored tokens, and what the caller may do."""

from collections.abc import Sequence
from datetime import timedelta

import click

from navarch.cli.commands import Command, Group
from navarch.cli.completion import complete_pool
from navarch.cli.errors import refuse_over_grpc
from navarch.cli.options import duration, reason_option
from navarch.cli.output import Output
from navarch.cli.printing import echo
from navarch.cli.render.table import Canvas, Column, age, printable, render_table, timestamp
from navarch.cli.session import Session, with_session
from navarch.core.access import Grant, Role
from navarch.core.ids import TokenName
from navarch.ports.api import FleetApi
from navarch.ports.tokens import Caller, IssuedToken, TokenApi, TokenRequest, TokenView

NEVER = "never"


def _expiry(text: str) -> timedelta | str:
    return NEVER if text.lower() == NEVER else duration(text)


expires_option = click.option(
    "--expires",
    type=_expiry,
    default="90d",
    show_default=True,
    metavar="DURATION|never",
    help="How long the new secret is accepted.",
)


def _span(expires: timedelta | str) -> timedelta | None:
    return expires if isinstance(expires, timedelta) else None


@click.group("token", cls=Group)
def token() -> None:
    """Create, list, rotate and revoke the tokens of people, programs and agents."""


@token.command("create", cls=Command)
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    required=True,
    help="What it may do: read, change, manage, or report as an agent.",
)
@click.option(
    "--pool",
    "pools",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_pool,
    help="Only this pool; may contain *. Repeatable.",
)
@click.option("--team", "teams", multiple=True, help="Only pools of this team. Repeatable.")
@expires_option
@reason_option
@with_session
def create(
    session: Session,
    name: str,
    role: str,
    pools: tuple[str, ...],
    teams: tuple[str, ...],
    expires: timedelta | str,
    reason: str,
) -> None:
    """Create a token and print it: it is stored nowhere, and cannot be shown again.

    Without --pool and --team, the token is for the whole fleet.
    """
    request = TokenRequest(
        name=TokenName(name),
        grant=Grant(role=Role(role), pools=pools, teams=teams),
        expires_in=_span(expires),
    )
    made = session.call(lambda api: token_api(api).create_token(request, reason=reason))
    _print(session, made)


@token.command("list")
@with_session
def list_tokens(session: Session) -> None:
    """List the tokens: their roles, and when they expire and were used."""
    session.show_call(lambda api: token_api(api).list_tokens(), render_tokens)


@token.command("rotate", cls=Command)
@click.argument("name")
@click.option(
    "--overlap",
    type=duration,
    default="24h",
    show_default=True,
    metavar="DURATION",
    help="How long the present secret is still accepted.",
)
@expires_option
@with_session
def rotate(session: Session, name: str, overlap: timedelta, expires: timedelta | str) -> None:
    """Give a token a new secret, and print it."""
    made = session.call(
        lambda api: token_api(api).rotate_token(
            TokenName(name), overlap=overlap, expires_in=_span(expires)
        )
    )
    _print(session, made)


@token.command("revoke", cls=Command)
@click.argument("name")
@reason_option
@with_session
def revoke(session: Session, name: str, reason: str) -> None:
    """Delete a token: it is refused from now on."""
    session.call(lambda api: token_api(api).revoke_token(TokenName(name), reason=reason))
    session.show({"revoked": name}, lambda _: f"Token {name} is revoked")


@click.command("whoami", cls=Command)
@with_session
def whoami(session: Session) -> None:
    """Show who you are to the server, and what you may do."""
    session.show_call(lambda api: token_api(api).whoami(), _render_caller)


def _print(session: Session, made: IssuedToken) -> None:
    if session.output is not Output.TABLE:
        session.show(made, lambda _: "")
        return
    # Only the token on standard output, so that a script can read it.
    echo(made.token)
    end = f"until {timestamp(made.expires_at)}" if made.expires_at else "without an end"
    echo(f"Token {made.name}, {end}. Store it now: it cannot be shown again.", err=True)


def _render_caller(found: Caller, _canvas: Canvas) -> str:
    lines = [f"{printable(found.subject)}: {', '.join(map(str, found.grants)) or 'no role'}"]
    if found.groups:
        lines.append(f"groups: {printable(', '.join(found.groups))}")
    return "\n".join(lines)


def render_tokens(found: Sequence[TokenView], canvas: Canvas) -> str:
    """Return the table that `navarch token list` prints."""
    if not found:
        return "No tokens"
    columns: list[Column[TokenView]] = [
        Column("Name", lambda each: each.name),
        Column("Role", lambda each: printable(str(each.grant)), width_min=16),
        Column("Created", lambda each: age(each.created_at, canvas.now), rank=2),
        Column("Rotated", lambda each: age(each.rotated_at, canvas.now), rank=3),
        Column("Last used", lambda each: age(each.last_used_at, canvas.now), rank=1),
        Column("Expires", _expires, rank=1),
    ]
    return render_table(columns, found, canvas)


def _expires(token: TokenView) -> str:
    if token.expired:
        return "expired"
    return "never" if token.expires_at is None else timestamp(token.expires_at)


def token_api(api: FleetApi) -> TokenApi:
    """Return `api` as a TokenApi, or raise if the connection does not provide it."""
    return api if isinstance(api, TokenApi) else refuse_over_grpc("tokens are")

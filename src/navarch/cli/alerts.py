"""`navarch alert`: what needs attention, silences, and the channels by which people learn of it."""

from collections.abc import Sequence
from datetime import timedelta

import click

from navarch.cli.commands import Command, Group
from navarch.cli.completion import complete_pool
from navarch.cli.errors import refuse_over_grpc
from navarch.cli.options import duration
from navarch.cli.output import Output
from navarch.cli.printing import echo
from navarch.cli.render.table import Canvas, Column, age, printable, render_table, timestamp
from navarch.cli.session import Session, with_session
from navarch.core.alert import AlertSilence
from navarch.core.ids import SilenceId
from navarch.ports.alerts import AlertApi, AlertView, ChannelView, DeliveryView, SilenceRequest
from navarch.ports.api import FleetApi


@click.group("alert", cls=Group, invoke_without_command=True)
@click.pass_context
def alert(context: click.Context) -> None:
    """List alerts, silence them, and test channels."""
    if context.invoked_subcommand is None:
        context.invoke(list_alerts, ended=False)


@alert.command("list")
@click.option("--all", "ended", is_flag=True, help="Also alerts that ended within a week.")
@with_session
def list_alerts(session: Session, ended: bool) -> None:
    """List the alerts that fire, the most urgent first."""
    session.show_call(lambda api: alert_api(api).list_alerts(ended=ended), render_alerts)


@alert.command("silence", cls=Command)
@click.option("--for", "span", type=duration, required=True, help="How long, such as 2h.")
@click.option("--reason", default="", help="Why; recorded in the journal.")
@click.option("--pool", default="", help="Alerts of this pool.", shell_complete=complete_pool)
@click.option("--team", default="", help="Alerts of this team.")
@click.option("--cause", default="", help="Alerts with this cause, such as node-fault.")
@click.option("--subject", default="", help="Alerts about this node or other subject.")
@click.option("--author", default="", help="Who silences; by default your user name.")
@with_session
def silence(
    session: Session,
    span: timedelta,
    reason: str,
    pool: str,
    team: str,
    cause: str,
    subject: str,
    author: str,
) -> None:
    """Keep alerts from being sent for some time.

    Every given option must match; patterns may contain *. Alerts that still fire are sent when the
    silence expires. The end of an alert that was sent before is sent in any case.
    """
    if not (pool or team or cause or subject):
        raise click.UsageError("pass --pool, --team, --cause or --subject; '*' matches everything")
    request = SilenceRequest(
        author=author or _user(session),
        seconds=span.total_seconds(),
        reason=reason,
        cause=cause,
        pool=pool,
        team=team,
        subject=subject,
    )
    made = session.call(lambda api: alert_api(api).silence(request))
    session.show(made, lambda _: f"Silence {made.id} ends at {timestamp(made.ends_at)}")


@alert.command("silences")
@click.option("--all", "expired", is_flag=True, help="Also silences that expired within a week.")
@with_session
def silences(session: Session, expired: bool) -> None:
    """List the silences, the first to end first."""
    session.show_call(lambda api: alert_api(api).list_silences(expired=expired), render_silences)


@alert.command("unsilence", cls=Command)
@click.argument("name", metavar="ID")
@click.option("--author", default="", help="Who ends it; by default your user name.")
@with_session
def unsilence(session: Session, name: str, author: str) -> None:
    """End a silence now."""
    who = author or _user(session)
    ended = session.call(lambda api: alert_api(api).end_silence(SilenceId(name), author=who))
    session.show(ended, lambda _: f"Silence {ended.id} ended")


@alert.command("channels")
@with_session
def channels(session: Session) -> None:
    """List the channels, with what they have not received yet."""
    session.show_call(lambda api: alert_api(api).list_channels(), render_channels)


@alert.command("log")
@click.argument("channel", required=False)
@with_session
def log(session: Session, channel: str | None) -> None:
    """Show the latest attempts to send messages, latest first."""
    session.show_call(lambda api: alert_api(api).list_deliveries(channel=channel), render_log)


@alert.command("test", cls=Command)
@click.argument("channel", metavar="NAME")
@with_session
def test(session: Session, channel: str) -> None:
    """Send a test message to a channel, and print the answer."""
    author = _user(session)
    answer = session.call(lambda api: alert_api(api).send_test(channel, author=author))
    if session.output is Output.TABLE:
        echo(f"Channel {channel} accepted the test: {printable(answer)}")
        return
    session.show({"channel": channel, "answer": answer}, lambda _: "")


def render_alerts(found: Sequence[AlertView], canvas: Canvas) -> str:
    """Return the table that `navarch alert list` prints."""
    if not found:
        return "No alerts"
    columns: list[Column[AlertView]] = [
        Column("Severity", lambda each: str(each.alert.severity)),
        Column("Cause", lambda each: each.alert.cause, rank=2),
        Column("Subject", lambda each: str(each.alert.subject)),
        Column("Since", lambda each: age(each.alert.began_at, canvas.now), rank=1),
        Column("State", _state, rank=1),
        Column("Sent to", lambda each: ",".join(each.channels), rank=3),
        Column("Summary", lambda each: printable(each.alert.summary), width_min=24),
    ]
    return render_table(columns, found, canvas)


def _state(view: AlertView) -> str:
    if not view.alert.firing:
        return "resolved"
    if view.silenced_by is not None:
        return "silenced"
    return "explained" if view.alert.part_of is not None else "firing"


def render_silences(found: Sequence[AlertSilence], canvas: Canvas) -> str:
    """Return the table that `navarch alert silences` prints."""
    if not found:
        return "No silences"
    columns: list[Column[AlertSilence]] = [
        Column("ID", lambda each: each.id),
        Column("Matches", _matches, width_min=16),
        Column("Ends", lambda each: timestamp(each.ends_at), rank=1),
        Column("Author", lambda each: printable(each.author), rank=1),
        Column("Reason", lambda each: printable(each.reason), rank=2, width_min=16),
    ]
    return render_table(columns, found, canvas)


def _matches(silence: AlertSilence) -> str:
    names = ("cause", "pool", "team", "subject")
    given = [(name, getattr(silence, name)) for name in names]
    return printable(" ".join(f"{name}={value}" for name, value in given if value))


def render_channels(found: Sequence[ChannelView], canvas: Canvas) -> str:
    """Return the table that `navarch alert channels` prints."""
    columns: list[Column[ChannelView]] = [
        Column("Name", lambda each: each.name),
        Column("Type", lambda each: each.kind, rank=2),
        Column("Last sent", lambda each: age(each.delivered_at, canvas.now), rank=1),
        Column("Waiting", lambda each: str(each.waiting), rank=1),
        Column("Failures", lambda each: str(each.failures)),
        Column("Next attempt", lambda each: timestamp(each.retry_at) if each.retry_at else ""),
        Column("Error", lambda each: printable(each.error), width_min=16),
    ]
    return render_table(columns, found, canvas)


def render_log(found: Sequence[DeliveryView], canvas: Canvas) -> str:
    """Return the table that `navarch alert log` prints."""
    if not found:
        return "No messages were sent"
    columns: list[Column[DeliveryView]] = [
        Column("Time", lambda each: timestamp(each.attempt.at)),
        Column("Channel", lambda each: each.channel),
        Column("Action", lambda each: str(each.attempt.action), rank=1),
        Column("Group", lambda each: each.group, rank=2),
        Column("Result", lambda each: "ok" if each.attempt.delivered else "error"),
        Column("Answer", lambda each: printable(each.attempt.answer), width_min=16),
    ]
    return render_table(columns, found, canvas)


def alert_api(api: FleetApi) -> AlertApi:
    """Return `api` as an AlertApi, or raise if the connection does not provide it."""
    return api if isinstance(api, AlertApi) else refuse_over_grpc("alerts are")


def _user(session: Session) -> str:
    environ = session.environment.environ
    return environ.get("SUDO_USER") or environ.get("USER") or environ.get("LOGNAME") or "operator"

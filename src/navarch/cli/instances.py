"""`navarch instance`: the providers' view of the machines."""

import click

from navarch.cli.commands import Group
from navarch.cli.options import labels_option, state_option
from navarch.cli.pagination import list_all
from navarch.cli.render.instances import render_instance, render_instances
from navarch.cli.session import Session, with_session
from navarch.cli.watch import show_or_watch, watch_option
from navarch.core.ids import PoolName
from navarch.core.node import InstanceState
from navarch.ports.api import Query


@click.group("instance", cls=Group)
def instance() -> None:
    """Show machines as their providers list them."""


@instance.command("list")
@click.option("--provider", help="Only from this provider.")
@click.option("--region", help="Only in this region.")
@state_option
@click.option("--pool", help="Only in this pool.")
@labels_option
@click.option("-a", "--all", "include_gone", is_flag=True, help="Include terminated machines.")
@watch_option
@with_session
def list_instances(
    session: Session,
    provider: str | None,
    region: str | None,
    state: InstanceState | None,
    pool: str | None,
    labels: tuple[tuple[str, str], ...],
    include_gone: bool,
    watch: bool,
) -> None:
    """List machines; --all includes terminated ones and failed launches."""
    query = Query(
        provider=provider,
        region=region,
        state=state,
        pool=PoolName(pool) if pool else None,
        labels=dict(labels),
        include_gone=include_gone or state in (InstanceState.TERMINATED, InstanceState.FAILED),
    )
    show_or_watch(
        session, lambda api: list_all(api.list_instances, query), render_instances, watch=watch
    )


@instance.command("get")
@click.argument("name")
@with_session
def get(session: Session, name: str) -> None:
    """Show one machine, by instance id, launch token or node name."""
    session.show_call(lambda api: api.get_instance(name), render_instance)

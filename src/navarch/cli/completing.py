"""Names of nodes, pools and jobs, offered to a shell while its user types."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta

import click
from click.shell_completion import CompletionItem

from navarch.cli.options import chosen
from navarch.cli.pages import every
from navarch.cli.session import session_of
from navarch.core.errors import NavarchError
from navarch.ports.api import FleetApi, Query
from navarch.ports.jobs import JobApi

PATIENCE = timedelta(seconds=2)
"""Nobody waits longer for the tab key."""


async def _nodes(api: FleetApi) -> list[str]:
    return [node.id for node in await every(api.list_nodes, Query())]


async def _pools(api: FleetApi) -> list[str]:
    return [pool.spec.name for pool in await api.list_pools()]


async def _jobs(api: FleetApi) -> list[str]:
    return [job.name for job in await api.list_jobs()] if isinstance(api, JobApi) else []


def job_names(context: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the jobs that begin so."""
    return _matching(_names(context, _jobs), typed)


def node_names(context: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the nodes that begin so."""
    return _matching(_names(context, _nodes), typed)


def pool_names(context: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the pools that begin so."""
    return _matching(_names(context, _pools), typed)


def _names(context: click.Context, ask: Callable[[FleetApi], Awaitable[list[str]]]) -> list[str]:
    chosen(context).timeout = PATIENCE
    try:
        return session_of(context).ask(ask)
    except (NavarchError, OSError, ExceptionGroup):
        return []  # There is no good place for an error between two keystrokes.


def _matching(names: Iterable[str], typed: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(typed)]

"""`navarch completion` with the names that shells complete, and `navarch version`."""

import platform
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta

import click
from click.shell_completion import CompletionItem, get_completion_class

from navarch.cli.commands import Command
from navarch.cli.options import global_options
from navarch.cli.output import list_all
from navarch.cli.printing import echo
from navarch.cli.session import Session, get_session, with_session
from navarch.core.errors import NavarchError
from navarch.core.version import VERSION
from navarch.ports.api import FleetApi, JobApi, Query

COMPLETION_TIMEOUT = timedelta(seconds=2)
"""A shell is unresponsive while it waits for names, so give up early."""


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    r"""Print a completion script.

    \b
    bash: eval "$(navarch completion bash)"
    zsh:  eval "$(navarch completion zsh)"
    fish: navarch completion fish | source
    """
    script_class = get_completion_class(shell)
    assert script_class is not None, shell
    root = context.find_root().command
    echo(script_class(root, {}, "navarch", "_NAVARCH_COMPLETE").source())


async def _list_nodes(api: FleetApi) -> list[str]:
    return [node.id for node in await list_all(api.list_nodes, Query())]


async def _list_pools(api: FleetApi) -> list[str]:
    return [pool.spec.name for pool in await api.list_pools()]


async def _list_jobs(api: FleetApi) -> list[str]:
    return [job.name for job in await api.list_jobs()] if isinstance(api, JobApi) else []


def _completer(
    list_names: Callable[[FleetApi], Awaitable[list[str]]],
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return a completion function for the listed names that start with what is typed."""

    def complete(context: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
        global_options(context).timeout = COMPLETION_TIMEOUT
        try:
            names = get_session(context).call(list_names)
        except (NavarchError, OSError, ExceptionGroup):
            return []  # An error message would corrupt the command line that is being typed.
        return [CompletionItem(name) for name in names if name.startswith(typed)]

    return complete


complete_job = _completer(_list_jobs)
complete_node = _completer(_list_nodes)
complete_pool = _completer(_list_pools)


@click.command("version", cls=Command)
@with_session
def version(session: Session) -> None:
    """Show the version of this program, without contacting the server."""
    facts = {
        "version": VERSION,
        "python": ".".join(map(str, sys.version_info[:3])),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    lines = [f"navarch version {VERSION}"]
    lines += [f"  {name}: {facts[name]}" for name in ("python", "platform")]
    session.show(facts, lambda _: "\n".join(lines))

"""`navarch completion`: scripts for shells."""

import click
from click.shell_completion import get_completion_class

from navarch.cli.commands import Command


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
    made = get_completion_class(shell)
    assert made is not None, shell
    root = context.find_root().command
    click.echo(made(root, {}, "navarch", "_NAVARCH_COMPLETE").source())

"""A picture that is drawn over itself on a terminal, and appended to anywhere else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

Draw = Callable[[str], None]


@contextmanager
def screen(*, live: bool, err: bool = False) -> Iterator[Draw]:
    """Yield what shows a picture: in place on a live terminal, else below the one before."""
    if not live:
        yield _append(err=err)
        return
    try:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text
    except ModuleNotFoundError:
        # A live picture is a comfort, not a need.
        yield _append(err=err)
        return
    console = Console(stderr=err, highlight=False, soft_wrap=True)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as picture:
        yield lambda text: picture.update(
            Text.from_ansi(text, no_wrap=True, overflow="crop"), refresh=True
        )


def _append(*, err: bool) -> Draw:
    last: list[str] = []

    def show(text: str) -> None:
        if last != [text]:
            click.echo(text if not last else f"\n{text}", err=err)
            last[:] = [text]

    return show

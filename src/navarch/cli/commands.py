"""Click commands and groups that load lazily and accept global options in any position."""

import difflib
import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import click

from navarch.cli.errors import CommandError, needs_extra
from navarch.cli.options import GLOBAL_OPTIONS

HINT = "Global options: -s/--server, -o/--output, --timeout, --insecure, --no-color."


class _TakesGlobalOptions(click.Command):
    """A command or group that also accepts the global options after its name."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        r"""Write the help text. Paragraphs after a line `\b` keep their line breaks.

        Click expects the control character instead, which a raw docstring cannot hold.
        """
        if self.help is not None:
            self.help = self.help.replace("\\b\n", "\b\n")
        super().format_help_text(ctx, formatter)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own options and the global ones that it does not redefine."""
        own = super().get_params(ctx)
        taken = {word for param in own for word in param.opts}
        return [*own, *(option for option in GLOBAL_OPTIONS if not taken & set(option.opts))]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, without the global ones."""
        write_options(super().get_params(ctx), ctx, formatter)


class Command(_TakesGlobalOptions):
    """A command that also accepts the global options after its name."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a hint about the global options."""
        super().format_epilog(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text(HINT)


class Group(_TakesGlobalOptions, click.Group):
    """A group of `Command`s that accepts the global options too."""

    command_class = Command
    group_class = type

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the group's own options and its commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


def write_options(
    params: list[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write the Options section of a help page."""
    found = [row for param in params if (row := param.get_help_record(ctx)) is not None]
    rows = [
        (name, text) for name, text in found if text
    ]  # Arguments appear in the usage line only.
    if rows:
        with formatter.section("Options"):
            formatter.write_dl(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The module and attribute of a command, which is imported when it runs."""

    module: str
    attribute: str
    help: str
    section: str
    extra: str = "cli"
    """The optional dependencies that the command needs."""

    def exists(self) -> bool:
        """Return whether the module is installed."""
        return importlib.util.find_spec(self.module) is not None

    def load(self, name: str) -> click.Command:
        """Import and return the command."""
        try:
            module = importlib.import_module(self.module)
        except ModuleNotFoundError as error:
            raise CommandError(needs_extra(f"`navarch {name}`", error, self.extra)) from error
        command: click.Command = getattr(module, self.attribute)
        return command


def entry(place: str, section: str, text: str, *, extra: str = "cli") -> Entry:
    """Return the entry of the command at `module:attribute` of this package."""
    module, _, name = place.partition(":")
    return Entry(
        module=f"navarch.cli.{module}", attribute=name, help=text, section=section, extra=extra
    )


class LazyGroup(Group):
    """A group that imports its commands when they run."""

    entries: ClassVar[Mapping[str, Entry]] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the installed commands."""
        present = [name for name, entry in self.entries.items() if entry.exists()]
        return [*super().list_commands(ctx), *present]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command `cmd_name`, or None."""
        entry = self.entries.get(cmd_name)
        if entry is None or not entry.exists():
            return super().get_command(ctx, cmd_name)
        return entry.load(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that `args` start with, or fail with similar names."""
        name = args[0]
        if not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            likely = difflib.get_close_matches(name, self.list_commands(ctx), n=2)
            hint = f" Did you mean {' or '.join(likely)}?" if likely else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands first, then the global options."""
        self.format_commands(ctx, formatter)
        write_options(self.get_params(ctx), ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section, without importing them."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            entry = self.entries[name]
            sections.setdefault(entry.section, []).append((name, entry.help))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows, col_max=14)

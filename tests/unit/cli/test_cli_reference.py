"""The reference documents every command."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from cli_fleet import running_fleet

from navarch.cli.main import ENTRIES, navarch

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"


def test_every_command_is_in_the_reference() -> None:
    text = REFERENCE.read_text(encoding="utf-8")

    for name, entry in ENTRIES.items():
        assert f"`{name}" in text, name
        if entry.exists() and isinstance(group := entry.load(name), click.Group):
            for command in group.list_commands(click.Context(navarch)):
                assert f"{name} {command}" in text, (name, command)


def helps(command: click.Command, above: click.Context) -> Iterator[tuple[str, str]]:
    """Yield the help pages of a command and its subcommands."""
    context = click.Context(command, parent=above, info_name=command.name)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            under = command.get_command(context, name)
            assert under is not None, name
            yield from helps(under, context)


def test_help_examples_keep_their_line_breaks_and_arguments_are_not_options() -> None:
    pages = dict(helps(navarch, click.Context(navarch)))

    assert len(pages) > 50
    for path, page in pages.items():
        assert "\\b" not in page, path
        lines = page.splitlines()
        options = lines[lines.index("Options:") + 1 :]
        first = options[0].strip()
        assert first.startswith("-"), (path, first)
    run = next(page for path, page in pages.items() if path.endswith("sim run"))
    assert "\n  navarch sim run scenarios/gpu-failure.yaml\n" in run


@pytest.mark.parametrize("name", ["list", "status", "events", "why"])
def test_a_global_option_works_before_and_after_the_command(name: str) -> None:
    with running_fleet() as fleet:
        fleet.run("up --gpus 8 --type h100 --name demo")
        fleet.wait(300)  # Until the fleet is steady.
        words = [name, "demo"] if name == "why" else [name]
        before = fleet.run(["-o", "json", *words])
        after = fleet.run([*words, "-o", "json"])

    assert before.exit_code == 0, before.output
    assert before.stdout == after.stdout

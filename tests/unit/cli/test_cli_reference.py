"""The reference names what there is."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from cli_world import a_place

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
    """Yield the help pages of a command and of all that are under it."""
    context = click.Context(command, parent=above, info_name=command.name)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            under = command.get_command(context, name)
            assert under is not None, name
            yield from helps(under, context)


def test_examples_in_help_keep_their_lines_and_arguments_are_no_options() -> None:
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
def test_a_shared_option_is_taken_on_either_side_of_the_command(name: str) -> None:
    with a_place() as place:
        place.type("up --gpus 8 --type h100 --name demo")
        place.wait(300)  # Until nothing changes between two looks.
        words = [name, "demo"] if name == "why" else [name]
        before = place.type(["-o", "json", *words])
        after = place.type([*words, "-o", "json"])

    assert before.exit_code == 0, before.output
    assert before.stdout == after.stdout

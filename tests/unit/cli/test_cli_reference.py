"""The reference names what there is."""

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


@pytest.mark.parametrize("name", ["list", "status", "events", "why"])
def test_a_shared_option_is_taken_on_either_side_of_the_command(name: str) -> None:
    with a_place() as place:
        place.type("up --gpus 8 --type h100 --name demo")
        words = [name, "demo"] if name == "why" else [name]
        before = place.type(["-o", "json", *words])
        after = place.type([*words, "-o", "json"])

    assert before.exit_code == 0, before.output
    assert before.stdout == after.stdout

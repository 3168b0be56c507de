"""Random arguments and server texts never cause a traceback or a broken table."""

import asyncio
from pathlib import Path

import pytest
from cli_fleet import make_cli
from cli_views import NOW
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from navarch.cli.render.table import (
    Canvas,
    Column,
    display_width,
    render_table,
    truncate,
    wrap_text,
)
from navarch.core.errors import NotFoundError
from navarch.ports.api import FleetApi

COMMANDS = (
    "up down status list get cordon uncordon drain terminate override ssh pool instance "
    "why events sim config completion version create scale delete inject view"
)
OPTIONS = (
    "-o json yaml table -s --server --timeout 5s 1h --gpus 8 --type h100 --name demo --wait "
    "--status active --label a=b --all --sort -name --since 10m --about node/x --limit 3 "
    "--xid 79 --check --clear --health --reason why -- - --help --no-color --min --max 2 "
    "--price 1.5 --insecure --token demo-0 node pool http://a:1"
)
WORDS = st.one_of(
    st.sampled_from(OPTIONS.split()), st.text(max_size=8).filter(lambda text: text != "--debug")
)


class Empty:
    """A fleet without any objects."""

    def __getattr__(self, name: str) -> object:
        async def absent(*_: object, **__: object) -> object:
            raise NotFoundError(f"{name}: nothing here")

        return absent


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(command=st.sampled_from(COMMANDS.split()), words=st.lists(WORDS, max_size=6))
def test_no_command_line_ends_in_a_traceback(
    tmp_path: Path, command: str, words: list[str]
) -> None:
    with asyncio.Runner() as runner:
        api: FleetApi = Empty()  # type: ignore[assignment]
        cli = make_cli(api, runner=runner, environ={"XDG_CONFIG_HOME": str(tmp_path)})
        result = cli.run([command, *words])

    assert result.exit_code in {0, 1, 2, 3, 4}, (result.exit_code, result.output)
    assert "Traceback" not in result.output
    assert "Error: unexpected" not in result.stderr, result.stderr


@given(
    rows=st.lists(st.tuples(st.text(), st.text(), st.text()), max_size=5),
    width=st.integers(1, 120),
)
def test_no_text_breaks_a_table(rows: list[tuple[str, str, str]], width: int) -> None:
    columns: list[Column[tuple[str, str, str]]] = [
        Column("A", lambda row: row[0], width_min=1),
        Column("B", lambda row: row[1], rank=1, width_min=4),
        Column("C", lambda row: row[2], rank=2, width_min=4, wrap=True),
    ]

    text = render_table(columns, rows, Canvas(now=NOW, width=width))

    for line in text.split("\n"):
        assert display_width(line) <= width
        assert line.isprintable()


@given(text=st.text(), width=st.integers(1, 40))
def test_truncated_text_fits_the_width(text: str, width: int) -> None:
    assert display_width(truncate(text, width)) <= width


@pytest.mark.parametrize("width", [20, 40])
def test_wrapped_text_loses_no_words(width: int) -> None:
    text = "the provider ended the machine, as intended: GPU has fallen off the bus"

    assert " ".join(wrap_text(text, width, 0)) == text

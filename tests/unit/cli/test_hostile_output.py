"""What a machine sends cannot control the terminal of an operator, or exhaust its memory."""

import ast
import gzip
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from cli_views import ACTIVE, NOW, XID

import navarch.cli
from navarch.cli.evidence import _content, _table
from navarch.cli.output import Output, render_data, render_line
from navarch.cli.printing import echo, one_line, visible
from navarch.cli.render.fleet_health import NodeHealth, render_health
from navarch.cli.render.nodes import render_node
from navarch.cli.render.table import COLORS, Canvas, colored
from navarch.core.errors import InvalidError
from navarch.core.incident import INFLATED_BYTES_MAX, Evidence, EvidenceNote
from navarch.core.records import evolve
from navarch.ports.api import NodeDetail

CLEAR = "\x1b[2J"
TITLE = "\x1b]0;owned\x07"
C1 = "\x9b2J"
REORDER = "\u202e"
HOSTILE = f"{CLEAR}{TITLE}{C1}{REORDER}\x00\x7f\r\x08 sound"
CONTROLS = "\x1b\x07\x9b\u202e\x00\x7f\r\x08"


def an_evidence(plain: bytes) -> Evidence:
    content = gzip.compress(plain)
    note = EvidenceNote(
        id="evidence-1",
        node=ACTIVE.id,
        taken_at=NOW,
        why=f"XID 79\n{HOSTILE}",
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
    )
    return Evidence(note=note, content=content)


def test_control_characters_are_replaced_and_own_colours_stay() -> None:
    shown = visible(f"{colored('green', 'green', on=True)} {HOSTILE}\n\tnext")

    assert not set(CONTROLS.replace("\x1b", "")) & set(shown)
    assert shown.count("\x1b") == 2
    assert shown.startswith("\x1b[32mgreen\x1b[0m")
    assert shown.endswith(" sound\n\tnext")


@pytest.mark.parametrize(
    "code",
    ["\x1b[8m", "\x1b[30m", "\x1b[37m", "\x1b[31;41m", "\x1b[5m", "\x1b[38;5;0m", "\x1b["],
)
def test_no_sequence_that_hides_text_passes(code: str) -> None:
    assert "\x1b" not in visible(f"{code}hidden")


@pytest.mark.parametrize("color", sorted({*COLORS.values(), "red"}))
def test_every_colour_of_this_program_passes(color: str) -> None:
    assert visible(colored("text", color, on=True)) == colored("text", color, on=True)


def test_a_reason_with_a_line_break_stays_on_its_row() -> None:
    assert one_line("disk\nnode-2 is healthy") == "disk node-2 is healthy"


def test_what_is_printed_is_visible(capsys: pytest.CaptureFixture[str]) -> None:
    echo(HOSTILE)

    assert not set(CONTROLS) & set(capsys.readouterr().out)


def test_labels_conditions_and_evidence_take_one_row_each() -> None:
    canvas = Canvas(now=NOW)
    condition = evolve(XID, check=f"xid\n{HOSTILE}", reason=f"off\n{HOSTILE}")
    node = replace(ACTIVE, labels={f"team\n{HOSTILE}": HOSTILE}, conditions=(condition,))
    health = NodeHealth(node=node.id, health=node.health, gpus=(), others=(condition,), history=())

    for text, rows in (
        (render_node(NodeDetail(node=node, inventory=None, metrics=None, commands=()), canvas), 2),
        (render_health(health, canvas), 1),
        (_table([an_evidence(b"{}").note]), 1),
    ):
        assert sum("sound" in line for line in text.split("\n")) == rows, text
        assert not set(CONTROLS) & set(text)


@pytest.mark.parametrize("output", [Output.JSON, Output.YAML])
def test_data_keeps_hostile_text_in_escaped_form(output: Output) -> None:
    text = render_data({"reason": HOSTILE, "team": "Zürich"}, output)

    assert not set(CONTROLS) & set(text)
    assert yaml.safe_load(text) == {"reason": HOSTILE, "team": "Zürich"}


def test_a_stream_keeps_hostile_text_in_escaped_form() -> None:
    text = render_line({"reason": HOSTILE})

    assert not set(CONTROLS) & set(text)
    assert json.loads(text) == {"reason": HOSTILE}


def test_no_command_prints_around_the_check() -> None:
    """Recordings are bytes; the picture of a simulation moves the cursor on purpose."""
    allowed = {"printing.py", "sim_interactive.py", "sim_run.py"}
    for path in Path(navarch.cli.__file__).parent.rglob("*.py"):
        if path.name in allowed:
            continue
        for call in ast.walk(ast.parse(path.read_text())):
            name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
            assert name not in {"click.echo", "click.secho", "print"}, f"{path.name}: {name}"


def test_evidence_that_inflates_beyond_the_limit_is_refused() -> None:
    bomb = an_evidence(b"[" + b"[]," * (INFLATED_BYTES_MAX // 3) + b"0]")

    with pytest.raises(InvalidError, match="larger than"):
        _content(bomb)


def test_evidence_that_is_not_gzip_is_refused() -> None:
    damaged = b"not gzip"
    note = replace(an_evidence(b"").note, sha256=hashlib.sha256(damaged).hexdigest())

    with pytest.raises(InvalidError, match="not gzip"):
        _content(Evidence(note=note, content=damaged))


def test_evidence_up_to_the_limit_is_shown() -> None:
    plain = b'"' + b"x" * (INFLATED_BYTES_MAX - 2) + b'"'

    assert _content(an_evidence(plain)) == "x" * (INFLATED_BYTES_MAX - 2)

"""`navarch agent record` and `navarch agent replay`."""

import json
from pathlib import Path

from click.testing import CliRunner

from navarch.cli.main import navarch

LINES = (
    '{"t": 0.1, "kind": "nvml", "gpu": 0, "temp": 45, "power_mw": 128529, "util": [0, 0]}\n'
    '{"t": 1.0, "kind": "kmsg", "raw": "4,1,2,-;NVRM: Xid (PCI:0000:00:06): 79, gone"}\n'
)


def test_a_replay_prints_what_the_agent_found(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    file.write_text(LINES)

    result = CliRunner().invoke(navarch, ["agent", "replay", "--speed", "1000", str(file)])

    assert result.exit_code == 0, result.output
    found = [json.loads(line) for line in result.stdout.splitlines()]
    (lost,) = [line for line in found if line["check"] == "xid/79/0000:00:06"]
    assert lost["fatal"]
    assert "kmsg: 1 events" in result.stderr


def test_a_recording_is_converted_without_loss(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    file.write_text(LINES)

    result = CliRunner().invoke(navarch, ["agent", "replay", "--convert", str(file)])

    header, *records = map(json.loads, result.stdout.splitlines())
    assert header["navarch_recording"] == 1
    assert records == [json.loads(line) for line in LINES.splitlines()]


def test_a_machine_without_a_driver_can_be_recorded(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    words = ["agent", "record", str(file), "--seconds", "0.1"]

    result = CliRunner().invoke(navarch, words, env={"NAVARCH_NVML_LIBRARY": "no-such-library.so"})

    assert result.exit_code == 0, result.output
    header, *records = map(json.loads, file.read_text().splitlines())
    assert header["gpus"] == []
    assert any(record["kind"] == "trouble" for record in records)

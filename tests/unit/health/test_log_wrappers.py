"""Kernel lines inside records of journald, Docker and CRI."""

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navarch.cli.xid import write_xids_as_json
from navarch.health.xid.line import parse_line

LINE = (
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)
SHARED = Path(__file__).parents[4] / "shared" / "data" / "xid"


def journal(message: object = LINE, **fields: object) -> str:
    """Return a record as `journalctl -o json` writes it."""
    usual = {"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0", "PRIORITY": "3", "MESSAGE": message}
    return json.dumps({key: value for key, value in (usual | fields).items() if value is not None})


def docker(line: str = LINE) -> str:
    return json.dumps({"log": f"{line}\n", "stream": "stdout", "time": "2026-03-01T12:00:00.1Z"})


def cri(line: str = LINE, stream: str = "stdout F") -> str:
    return f"2026-03-01T12:00:00.123456789Z {stream} {line}"


@pytest.mark.parametrize(
    "line",
    [
        journal(),
        journal(list(LINE.encode())),
        journal(SYSLOG_FACILITY=None),
        journal(SYSLOG_FACILITY=0),
        docker(),
        docker(f"[ 1300.172117] {LINE}"),
        docker(f"<3>[ 1300.172117] {LINE}"),
        docker(journal()),
        cri(),
        cri(f"[ 1300.172117] {LINE}", "stderr P"),
        cri(f"kern  :err   : [ 1300.172117] {LINE}"),
        cri(journal()),
        f"2026-03-01T12:00:00.1+02:00 stdout F {LINE}",
        f"\ufeff{LINE}",
        f"\ufeff[ 1300.172117] {LINE}",
        f"\ufeff{journal()}",
        journal(list(f"\x1b[31m{LINE}\x1b[0m".encode())),
    ],
)
def test_the_line_inside_a_record_is_read(line: str) -> None:
    found = parse_line(line)
    assert found is not None
    assert (found.code, found.pci, found.name) == (79, "0000:3b:00", None)


@pytest.mark.parametrize(
    "line",
    [
        journal(_TRANSPORT="stdout"),
        journal(_TRANSPORT="syslog", SYSLOG_IDENTIFIER="kernel"),
        journal(_TRANSPORT="audit"),
        journal(_TRANSPORT=None, SYSLOG_IDENTIFIER="kernel", TRANSPORT="kernel"),
        journal(SYSLOG_FACILITY="1"),
        journal(SYSLOG_FACILITY="3"),
        journal(journal(), _TRANSPORT="journal"),
        journal(docker(), _TRANSPORT="stdout"),
        docker(journal(_TRANSPORT="stdout")),
        cri(journal(_TRANSPORT="stdout")),
        docker(f"app: {LINE}"),
        docker(f"<11>{LINE}"),
        cri(f"user  :err   : [ 1300.172117] {LINE}"),
        journal(None),
        journal(12),
        journal([300, -1]),
        journal({"text": LINE}),
        json.dumps({"message": LINE}),
        json.dumps([LINE]),
        "{" + LINE,
        f"2026-03-01 stdout F {LINE}",
    ],
)
def test_a_record_of_user_space_proves_nothing(line: str) -> None:
    assert parse_line(line) is None


def test_every_sample_is_read_in_every_wrapper_and_no_negative_one_is() -> None:
    file = SHARED / "xid_dmesg_samples.txt"
    if not file.exists():
        pytest.skip(f"no {file}")
    for sample in file.read_text(encoding="utf-8").splitlines():
        code, _, line = sample.partition("\t")
        for wrapped in (docker(line), cri(line), f"\ufeff{line}"):
            found = parse_line(wrapped)
            assert found is not None, wrapped
            assert found == parse_line(line)
            assert found.code == int(code)
    for line in (SHARED / "xid_dmesg_negatives.txt").read_text(encoding="utf-8").splitlines():
        for wrapped in (docker(line), cri(line), journal(line), f"\ufeff{line}"):
            assert parse_line(wrapped) is None, wrapped


def test_a_log_of_records_is_parsed_line_by_line() -> None:
    lines = [f"\ufeff{journal()}", docker(), cri(), journal(_TRANSPORT="stdout"), "{", LINE]
    lines.append(journal(list(LINE.encode())))
    out = io.BytesIO()
    write_xids_as_json(io.BytesIO("\n".join(lines).encode()), out)
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [each["line"] for each in found] == [1, 2, 3, 6, 7]
    assert {each["code"] for each in found} == {79}


@given(
    st.text(max_size=200), st.sampled_from(["", "{", "\ufeff", '{"log":"', '{"MESSAGE":[', "[" * 9])
)
def test_no_text_breaks_the_reader(text: str, start: str) -> None:
    parse_line(start + text)


def test_deep_nesting_is_not_followed() -> None:
    line = LINE
    for _ in range(20):
        line = docker(line)
    assert parse_line(line) is None
    assert parse_line("{" * 100_000) is None
    assert parse_line('{"a":' * 50_000) is None

"""Lines that are reports of the driver, and lines that are not."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navarch.health.xid.catalogue import Kind
from navarch.health.xid.line import LineReader, parse_line

SHARED = Path(__file__).parents[4] / "shared" / "data" / "xid"
LINE = "NVRM: Xid (PCI:0000:3b:00): 79, pid=12, name=python3, GPU has fallen off the bus."


def corpus(name: str) -> list[str]:
    file = SHARED / name
    if not file.exists():
        pytest.skip(f"no {file}")
    return file.read_text(encoding="utf-8").splitlines()


def test_every_sample_line_gives_its_code() -> None:
    reader = LineReader()
    for sample in corpus("xid_dmesg_samples.txt"):
        code, _, line = sample.partition("\t")
        found = reader.read(line)
        assert found is not None, line
        assert found.code == int(code), line
        assert found.kind is (Kind.SXID if "SXid" in line else Kind.XID)
        assert found.pci is not None
        assert f"{found.pci}" in line
        assert " " not in found.pci


def test_no_negative_sample_is_parsed() -> None:
    assert [line for line in corpus("xid_dmesg_negatives.txt") if parse_line(line)] == []


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "[ 1300.172117] ",
        "[1300.172117][ T1946] ",
        "[  140.05] [ T1946] ",
        "[Fri Oct 14 14:56:49 2022] ",
        "[2026-07-15T04:18:55.513286+00:00] ",
        "2026-07-15T04:18:55,513286+00:00 ",
        "Sep 27 20:53:24 host kernel: [ 1300.172117] ",
        "Nov  3 01:02:03 host.example.com kernel: ",
        "2015-04-14T19:59:00.000083+00:00 lg2 kernel: [  719.850677] ",
        "Mon 2026-11-15 07:05:33 UTC host kernel: ",
        "<3>",
        "<3>[ 1300.172117] ",
        "kernel: ",
        "kern  :err   : [ 1300.172117] ",
        "4,358,54165407,c;",
        "3,1,2,-,caller=T1946;",
        "Nov 15 07:05:33.123456 host kernel: ",
        "1700000000.123456 host kernel: ",
        "[ 1234.567890] host kernel: ",
        "[Nov15 07:05] ",
        "[  +0.000012] ",
        "[ 1300.172117 <    0.000012>] ",
        "<3>1 2026-07-15T04:18:55.513286+00:00 host kernel - - - ",
        "2026/07/15 04:18:55 ",
        "\x1b[32m[ 1300.172117] \x1b[0m\x1b[33m",
    ],
)
def test_prefixes_of_log_readers_are_accepted(prefix: str) -> None:
    found = parse_line(prefix + LINE)

    assert found is not None
    assert found[:6] == (
        Kind.XID,
        79,
        "0000:3b:00",
        12,
        "python3",
        "GPU has fallen off the bus.",
    )


@pytest.mark.parametrize(
    "prefix",
    [
        "12,358,54165407,-;",
        "<14>",
        "user  :err   : [ 1300.172117] ",
        "Sep 27 20:53:24 host python[77]: ",
        "Sep 27 20:53:24 host sudo: root : COMMAND=grep kernel: ",
        "audit: type=1400 msg=",
        "python3: ",
        'echo "',
        "[ 12.5] myprogram: ",
        "Sep 27 20:53:24 host kernel: [ 12.5] init: ",
    ],
)
def test_lines_written_by_programs_are_ignored(prefix: str) -> None:
    assert parse_line(prefix + LINE) is None
    assert parse_line(prefix + "NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.") is None
    switch = "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 12020, Fatal, Link 12 egress"
    assert parse_line(prefix + switch) is None


@pytest.mark.parametrize(
    ("rest", "pid", "name", "text"),
    [
        ("79", None, None, ""),
        ("79,", None, None, ""),
        ("79, pid=", None, None, ""),
        ("79, pid=16", 16, None, ""),
        ("79, pid=16, nam", 16, None, "nam"),
        ("79, pid=16, name=nv-hos", 16, "nv-hos", ""),
        ("79, pid='<unknown>', name=<unknown>, gone", None, None, "gone"),
        ("79, pid=<unknown>, name=<unknown>, gone", None, None, "gone"),
        ("79, name=IL2Series.exe, gone", None, "IL2Series.exe", "gone"),
        ("79, pid='3', name='python3', gone", 3, "python3", "gone"),
        ("79, pid=3, name='<unknown>', gone", 3, None, "gone"),
        ("79, pid=3, name=nvc:[driver], gone", 3, "nvc:[driver]", "gone"),
        ("79, pid=3, name=tokio rt 0, gone, all", 3, "tokio rt 0", "gone, all"),
    ],
)
def test_a_truncated_line_is_read_as_far_as_it_goes(
    rest: str, pid: int | None, name: str | None, text: str
) -> None:
    found = parse_line(f"NVRM: Xid (PCI:0000:3b:00): {rest}")

    assert found is not None
    assert (found.code, found.pid, found.name, found.text) == (79, pid, name, text)


@pytest.mark.parametrize("rest", ["", "abc, pid=1", "79x, gone", ", gone", "-79, gone"])
def test_a_line_without_a_code_is_ignored(rest: str) -> None:
    assert parse_line(f"NVRM: Xid (PCI:0000:3b:00): {rest}") is None


def test_a_mig_instance_is_reported_with_its_ids() -> None:
    found = parse_line("NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:02): 31, pid=1, Ch 0000000a")

    assert found is not None
    assert (found.pci, found.gpu_instance, found.compute_instance) == ("0000:3b:00", 1, 2)


def test_tracepoint_lines_need_no_driver_name() -> None:
    bare = "Xid (PCI:0000:3b:00.0): 79, GPU has fallen off the bus."
    traced = f"  python3-4242  [003] d.h.. 12345.678901: nvidia_dev_xid: {bare}"

    for line in (bare, traced):
        found = parse_line(line)
        assert found is not None
        assert (found.code, found.pci) == (79, "0000:3b:00.0")
    assert parse_line(f"somebody said {bare}") is None


def test_addresses_without_the_pci_prefix_are_read() -> None:
    found = parse_line("NVRM: Xid (0000:01:00): 31, Ch 00000007, engmask 00000120")

    assert found is not None
    assert (found.code, found.pci, found.text) == (
        31,
        "0000:01:00",
        "Ch 00000007, engmask 00000120",
    )


def test_a_lost_gpu_is_found_in_a_message_of_three_lines() -> None:
    reader = LineReader()
    lines = [
        "[ 12.1] NVRM: The NVIDIA GPU 0000:3b:00.0",
        "[ 12.1] NVRM: (PCI ID: 10de:2330) installed in this system has",
        "[ 12.1] NVRM: fallen off the bus and is not responding to commands.",
    ]

    found = [reader.read(line) for line in lines]

    assert found[:2] == [None, None]
    assert found[2] is not None
    assert (found[2].code, found[2].pci) == (79, "0000:3b:00.0")


def test_a_switch_may_leave_out_severity_and_colon() -> None:
    found = parse_line("nvidia-nvswitch1 SXid (PCI:0000:06:00.0): 26007, SOE EXTERR")

    assert found is not None
    assert (found.kind, found.code, found.pci) == (Kind.SXID, 26007, "0000:06:00.0")


@given(cut=st.integers(min_value=0, max_value=len(LINE)), junk=st.text(max_size=20))
def test_any_damaged_line_can_be_read(cut: int, junk: str) -> None:
    found = parse_line(LINE[:cut])
    assert found is None or found.pci == "0000:3b:00"
    parse_line(LINE[:cut] + junk)
    parse_line(junk + LINE[cut:])

"""`navarch xid`."""

import json
import subprocess
import sys

from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from navarch.cli.main import navarch
from navarch.cli.xid import XidLogParser
from navarch.health.xid.line import LineReader

LOG = b"""hello
NVRM: Xid (PCI:0000:3b:00): 79, pid=12, name=python3, GPU has fallen off the bus.
\xff\xfe not text
nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 12020, Fatal, Link 12 egress sequence ID error\r
NVRM: loading NVIDIA UNIX Open Kernel Module
"""


def run(*words: str, given: bytes = b"") -> str:
    result = CliRunner().invoke(navarch, list(words), input=given)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_xid_explains_a_code_and_the_action() -> None:
    output = run("xid", "79")

    assert "fallen off the bus" in output
    assert "reboot the node" in output
    assert "replace the node" in run("xid", "64", "table is full")
    assert json.loads(run("xid", "31", "-o", "json"))["action"] == "restart_app"
    assert "SXid 20034" in run("xid", "20034")
    assert "not in the catalogue" in run("xid", "174", "--driver", "615.10")


def test_xid_parse_prints_one_json_line_per_error() -> None:
    first, second = map(json.loads, run("xid", "parse", "-", given=LOG).splitlines())

    assert first == {
        "line": 2,
        "code": 79,
        "kind": "xid",
        "pci": "0000:3b:00",
        "pid": 12,
        "name": "python3",
        "text": "GPU has fallen off the bus.",
        "action": "reboot_node",
        "fatal": True,
    }
    assert (second["line"], second["kind"], second["code"]) == (4, "sxid", 12020)
    assert (second["pid"], second["name"], second["fatal"]) == (None, None, True)
    assert second["text"] == "Fatal, Link 12 egress sequence ID error"


def test_xid_parse_prints_errors_of_a_growing_log_at_once() -> None:
    command = [sys.executable, "-m", "navarch.cli", "xid", "parse", "-"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
        for line, part in ((1, b"NVRM: Xid (PCI:0000:3b:00): 79, gone\nNVRM: Xid (PCI:"), (2, b"")):
            process.stdin.write(part or b"0000:3b:00): 31, Ch 7\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["line"] == line
        process.stdin.close()
        assert process.stdout.read() == b""


prefixes = st.sampled_from(
    [
        "",
        "[ 1300.172117] ",
        "[1300.172117][ T1946] ",
        "Sep  7 20:53:24 host-1 kernel: [ 1300.172117] ",
        "Sep 27 20:53:24 host kernel: ",
        "3,1,2,-;",
        "12,1,2,-;",
        "<3>",
        "python: ",
        "x",
    ]
)
drivers = st.sampled_from(
    [
        "NVRM: Xid (PCI:",
        "NVRM: Xid (",
        "nvidia-nvswitch3: SXid (PCI:",
        "nvidia-nvswitch0 SXid (PCI:",
    ]
)
addresses = st.sampled_from(
    ["0000:3b:00", "0000:3B:00.0", "00000000:3b:00 GPU-I:01", "0000:3b:00 GPU-I:01 GPU-CI:00", "3b"]
)
numbers = st.one_of(st.integers(0, 200).map(str), st.sampled_from(["20034", "079", "abc", "154"]))
parts = st.lists(
    st.sampled_from(
        [
            "pid=12",
            "pid=007",
            "pid='<unknown>'",
            "pid='12'",
            "pid=",
            "name=python3",
            "name='python3'",
            "name=<unknown>",
            "name=nvc:[driver]",
            "name=a b",
            "name=",
            " ",
            "Fatal",
            "Non-fatal",
            "already pending remapping",
            'a "quoted" \\ word',
            "caf\u00e9 \x01",
            "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
            "NETIR_LINK_EVT  Fatal   XC0 i0 Link 00 (0x021405c6 0x00000000 0x00000000)",
        ]
    ),
    max_size=5,
)


@st.composite
def log_lines(draw: st.DrawFn) -> str:
    commas = st.sampled_from([", ", ", ", ",", ",  "])
    words = draw(numbers) + "".join(draw(commas) + part for part in draw(parts))
    line = f"{draw(prefixes)}{draw(drivers)}{draw(addresses)}): {words}"
    return line[: draw(st.one_of(st.just(len(line)), st.integers(0, len(line))))]


@settings(max_examples=500)
@given(lines=st.lists(log_lines(), max_size=4))
def test_the_fast_path_finds_what_the_line_reader_finds(lines: list[str]) -> None:
    careful = LineReader()
    expected: list[tuple[int, list[object]]] = []
    for number, line in enumerate(lines, start=1):
        found = careful.read(line.rstrip())
        if found is not None:
            words: list[object] = [found.code, found.pci, found.pid, found.name, found.text]
            expected.append((number, words))

    log = XidLogParser()
    for again in range(2):  # The second pass uses the caches.
        output = [json.loads(line) for line in log.read("\n".join(lines))]
        keys = ("line", "code", "pci", "pid", "name", "text")
        shift = again * len("\n".join(lines).split("\n"))
        assert [[one[key] for key in keys] for one in output] == [
            [number + shift, *words] for number, words in expected
        ]


def test_an_endless_line_is_one_line() -> None:
    assert run(
        "xid", "parse", "-", given=b"x" * 3_000_000 + b"\n" + LOG.split(b"\n")[1]
    ).startswith('{"line":2,')
    assert XidLogParser().read("") == []


def test_an_argument_that_is_not_a_number_is_refused_with_a_hint() -> None:
    result = CliRunner().invoke(navarch, ["xid", "abc"])
    assert result.exit_code == 2
    assert "'abc' is not an error code" in result.output
    assert "navarch xid 79" in result.output

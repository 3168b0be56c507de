"""The tracepoint reader against a real kernel: tracefs, an instance, a pipe, an event.

Without NVIDIA's driver there is no `nvidia:nvidia_dev_xid`. A uprobe in a small program defines an
event of that name, which the kernel enables, writes and delivers as it does any other.
"""

import os
import re
import select
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from navarch.clock import SystemClock
from navarch.health.xid.line import parse_line
from navarch.hosts.kmsg import open_tracepoint

PROGRAM = """
#include <unistd.h>
__attribute__((noinline)) void report(const char *words) { __asm__ volatile("" :: "r"(words)); }
int main(int count, char **words) { report(words[1]); return count != 2; }
"""
LINE = "Xid (PCI:0000:3b:00.0): 79, GPU has fallen off the bus."
NAME = "nvidia/nvidia_dev_xid"


@pytest.fixture
def tracefs(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "tracefs"
    folder.mkdir()
    mount = ["mount", "-t", "tracefs", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("tracefs cannot be mounted here")
    try:
        if (folder / "events" / NAME).exists():
            pytest.skip("a real driver is loaded here")
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def probe(tracefs: Path, command: str) -> None:
    # Append, to keep other probes; the file cannot seek, which Python's append mode requires.
    file = os.open(tracefs / "uprobe_events", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, command.encode())
    finally:
        os.close(file)


@pytest.fixture
def program(tracefs: Path, tmp_path: Path) -> Iterator[Path]:
    compiler = shutil.which("cc")
    if compiler is None or shutil.which("nm") is None:
        pytest.skip("there is no C compiler")
    source, built = tmp_path / "report.c", tmp_path / "report"
    source.write_text(PROGRAM)
    # Not relocatable, so that an address minus the load address is a file offset.
    subprocess.run([compiler, "-O1", "-no-pie", "-o", built, source], check=True)
    symbols = subprocess.run(["nm", built], capture_output=True, text=True, check=True).stdout
    [address] = re.findall(r"^(\w+) T report$", symbols, re.MULTILINE)
    offset = int(address, 16) - 0x400000
    try:
        probe(tracefs, f"p:{NAME} {built}:{offset:#x} words=+0(%di):string\n")
    except OSError as error:
        pytest.skip(f"this kernel takes no probes: {error}")
    yield built
    probe(tracefs, f"-:{NAME}\n")


def test_an_event_of_the_real_kernel_passes_through_the_reader(
    tracefs: Path, program: Path
) -> None:
    trace = open_tracepoint(SystemClock(), tracefs)
    assert trace is not None
    instance = tracefs / "instances" / "navarch"
    assert instance.exists()
    assert trace.read() == [], "a pipe without news does not block"

    subprocess.run([program, LINE], check=True)
    select.select([trace.fileno()], [], [], 10)
    [record] = trace.read()

    # A probe's line has an address and a name besides the fields of the driver's event.
    text = re.sub(r'\(0x[0-9a-f]+\) words="(.*)"', r"\1", record.text)
    found = parse_line(text)
    assert found is not None, record.text
    assert (found.code, found.pci) == (79, "0000:3b:00.0")
    assert found.text == "GPU has fallen off the bus."
    assert trace.read() == []
    trace.close()
    assert not instance.exists(), "nothing is left behind"

    # A killed agent leaves its instance; the next agent reuses it.
    instance.mkdir()
    successor = open_tracepoint(SystemClock(), tracefs)
    assert successor is not None
    subprocess.run([program, LINE], check=True)
    select.select([successor.fileno()], [], [], 10)
    assert len(successor.read()) == 1
    successor.close()

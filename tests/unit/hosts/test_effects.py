"""Tools that act on the machine, replaced by scripts."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from navarch.clock import SystemClock
from navarch.hosts.effects import LinuxEffects
from navarch.ports.host import HostError


def a_tool(folder: Path, name: str, body: str) -> str:
    tool = folder / name
    tool.write_text(f"#!/bin/sh\n{body}\n")
    tool.chmod(0o755)
    return str(tool)


def test_a_reset_passes_the_gpus_and_returns_the_tools_output(tmp_path: Path) -> None:
    smi = a_tool(tmp_path, "nvidia-smi", 'echo "asked: $*"')
    effects = LinuxEffects(SystemClock(), nvidia_smi=smi)
    assert effects.reset_gpus(["GPU-a", "GPU-b"], within_s=5) == "asked: --gpu-reset -i GPU-a,GPU-b"
    assert effects.reset_gpus([], within_s=5) == "asked: --gpu-reset"


def test_the_output_of_a_failing_tool_is_in_the_error(tmp_path: Path) -> None:
    smi = a_tool(tmp_path, "nvidia-smi", "echo 'GPU is in use'; exit 3")
    with pytest.raises(HostError, match="GPU is in use"):
        LinuxEffects(SystemClock(), nvidia_smi=smi).reset_gpus(["x"], within_s=5)


def test_a_tool_that_does_not_end_is_not_waited_for(tmp_path: Path) -> None:
    smi = a_tool(tmp_path, "nvidia-smi", "exec sleep 60")
    with pytest.raises(HostError, match=r"still running after 0\.2 s"):
        LinuxEffects(SystemClock(), nvidia_smi=smi).reset_gpus(["x"], within_s=0.2)


def test_a_missing_tool_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "nvidia-smi")
    with pytest.raises(HostError, match="nvidia-smi"):
        LinuxEffects(SystemClock(), nvidia_smi=missing).reset_gpus(["x"], within_s=1)


def test_a_reboot_uses_systemd_if_it_runs(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    systemctl = a_tool(tmp_path, "systemctl", f'echo "systemctl $*" >> {calls}')
    plain = a_tool(tmp_path, "reboot", f"echo plain >> {calls}")
    for systemd in (tmp_path, tmp_path / "nothing"):
        effects = LinuxEffects(SystemClock(), systemd=systemd, systemctl=systemctl, reboot=plain)
        effects.reboot(within_s=5)
    assert calls.read_text().splitlines() == ["systemctl reboot", "plain"]


def test_holders_of_a_gpu_are_listed_except_the_agent(tmp_path: Path) -> None:
    for pid, parent, name in (
        (os.getpid(), 1, "agent"),
        (4001, os.getpid(), "nvml"),
        (4002, 1, "cuda job"),
    ):
        process = tmp_path / str(pid)
        (process / "fd").mkdir(parents=True)
        (process / "fd" / "3").symlink_to("/dev/nvidia0")
        (process / "comm").write_text(f"{name}\n")
        (process / "stat").write_text(f"{pid} ({name}) S {parent} 0 0\n")
    idle = tmp_path / "4003" / "fd"
    idle.mkdir(parents=True)
    (idle / "3").symlink_to("/dev/null")
    found = LinuxEffects(SystemClock(), proc=tmp_path).holders()
    assert [str(holder) for holder in found] == ["cuda job (pid 4002)"]


@pytest.mark.parametrize(
    ("polite", "ended_by"),
    [(True, signal.SIGTERM), (False, signal.SIGKILL)],
    ids=["ends when asked", "must be made to"],
)
def test_a_process_gets_sigterm_and_then_sigkill(polite: bool, ended_by: signal.Signals) -> None:
    deaf = "" if polite else "signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    code = f"import signal, sys; {deaf}print('up', flush=True); sys.stdin.read()"
    # Started by another process, which reaps it when it has ended.
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        LinuxEffects(SystemClock()).stop([child.pid], within_s=0.5)
        assert child.wait(timeout=10) == -ended_by

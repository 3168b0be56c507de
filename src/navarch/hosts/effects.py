"""Resets, reboots and restarts on Linux."""

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from navarch.hosts.facts import gpu_holders
from navarch.ports.clock import Clock
from navarch.ports.effects import Holder
from navarch.ports.host import HostError

POLL_S = 0.2
WORDS_MAX = 400
"""What a tool says is passed on up to here."""


class LinuxEffects:
    """Acts through the tools that an operator would use, each in a process with a deadline."""

    def __init__(
        self,
        clock: Clock,
        *,
        proc: Path = Path("/proc"),
        systemd: Path = Path("/run/systemd/system"),
        nvidia_smi: str = "nvidia-smi",
        systemctl: str = "systemctl",
        reboot: str = "reboot",
    ) -> None:
        self._clock = clock
        self._proc = proc
        self._systemd = systemd
        self._nvidia_smi = nvidia_smi
        self._systemctl = systemctl
        self._reboot = reboot

    def holders(self) -> Sequence[Holder]:
        """Return who has an NVIDIA device open; others' processes only if we are root."""
        mine = os.getpid()
        return [
            Holder(pid=pid, name=name)
            for pid, parent, name in gpu_holders(self._proc)
            if mine not in (pid, parent)
        ]

    def reset_gpus(self, gpus: Sequence[str], *, within_s: float) -> str:
        """Have the driver's own tool reset them."""
        which = ["-i", ",".join(gpus)] if gpus else []
        return self._run([self._nvidia_smi, "--gpu-reset", *which], within_s)

    def reboot(self, *, within_s: float) -> None:
        """Ask systemd, or whoever else is the first process."""
        command = [self._systemctl, "reboot"] if self._systemd.is_dir() else [self._reboot]
        self._run(command, within_s)

    def restart_unit(self, unit: str, *, within_s: float) -> None:
        """Have systemd restart it."""
        self._run([self._systemctl, "restart", "--", unit], within_s)

    def stop(self, pids: Sequence[int], *, within_s: float) -> None:
        """Send SIGTERM, wait, and send SIGKILL to those that are left."""
        left = self._signal(pids, signal.SIGTERM)
        deadline = self._clock.monotonic() + within_s
        while left and self._clock.monotonic() < deadline:
            _pause(POLL_S)
            left = [pid for pid in left if (self._proc / str(pid)).exists()]
        self._signal(left, signal.SIGKILL)

    def _signal(self, pids: Sequence[int], number: signal.Signals) -> list[int]:
        reached = []
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
            except PermissionError as error:
                raise HostError(f"process {pid} cannot be signalled: {error}") from error
            reached.append(pid)
        return reached

    def _run(self, command: Sequence[str], within_s: float) -> str:
        """Return what a tool output; HostError if it fails, or does not end in time."""
        name = " ".join(command)
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise HostError(f"{name}: {error.strerror}") from error
        try:
            output, _ = child.communicate(timeout=within_s)
        except subprocess.TimeoutExpired as error:
            child.kill()
            if child.stdout is not None:
                child.stdout.close()
            # One that sleeps inside the driver does not die; nobody may wait for it.
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=1.0)
            raise HostError(f"{name}: no end within {within_s:g} s (pid {child.pid})") from error
        output = " ".join(output.split())[:WORDS_MAX]
        if child.returncode != 0:
            raise HostError(f"{name}: {output or f'exit status {child.returncode}'}")
        return output


def _pause(seconds: float) -> None:
    """Wait on nothing: these calls have a thread of their own, and block by contract."""
    select.select([], [], [], seconds)

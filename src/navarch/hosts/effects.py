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
from navarch.ports.host import Holder, HostError

POLL_S = 0.2
WORDS_MAX = 400
"""The length to which a tool's output is kept."""


class LinuxEffects:
    """Acts through the tools that an operator would use, each with a deadline."""

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
        """Return the processes with an NVIDIA device open; only root sees those of other users."""
        mine = os.getpid()
        return [
            Holder(pid=pid, name=name)
            for pid, parent, name in gpu_holders(self._proc)
            if mine not in (pid, parent)
        ]

    def reset_gpus(self, gpus: Sequence[str], *, within_s: float) -> str:
        """Reset GPUs with nvidia-smi."""
        which = ["-i", ",".join(gpus)] if gpus else []
        return self._run([self._nvidia_smi, "--gpu-reset", *which], within_s)

    def reboot(self, *, within_s: float) -> None:
        """Reboot through systemd, or with `reboot` where systemd does not run."""
        command = [self._systemctl, "reboot"] if self._systemd.is_dir() else [self._reboot]
        self._run(command, within_s)

    def restart_unit(self, unit: str, *, within_s: float) -> None:
        """Restart a systemd unit."""
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
        """Return a tool's output; raise HostError if it fails or does not end in time."""
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
            # A process stuck in the driver does not die, so do not wait for it.
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=1.0)
            raise HostError(
                f"{name}: still running after {within_s:g} s (pid {child.pid})"
            ) from error
        output = " ".join(output.split())[:WORDS_MAX]
        if child.returncode != 0:
            raise HostError(f"{name}: {output or f'exit status {child.returncode}'}")
        return output


def _pause(seconds: float) -> None:
    """Block for `seconds`: these calls run in their own thread."""
    select.select([], [], [], seconds)

"""Diagnostic facts of a Linux machine, readable even if a GPU is lost."""

import contextlib
import os
import platform
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from navarch.hosts.kmsg import DEVICE, Kmsg
from navarch.ports.clock import Clock
from navarch.ports.host import HostError

LOG_RECORDS_MAX = 2000
PROCESSES_MAX = 500
_NVIDIA = "0x10de"
_BUS_FILES = (
    *("device", "class", "current_link_speed", "current_link_width", "max_link_speed"),
    *("max_link_width", "power_state", "numa_node"),
    *("aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal"),
)


class LinuxFacts:
    """Reads `/proc`, `/sys` and the kernel log. Unreadable facts are omitted."""

    def __init__(
        self,
        clock: Clock,
        *,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        device: Path = DEVICE,
    ) -> None:
        self._clock = clock
        self._proc = proc
        self._sys = sys
        self._device = device

    def kernel_log(self) -> Sequence[str]:
        """Return the latest records, through a separate file descriptor."""
        try:
            log = Kmsg(self._clock, self._device)
        except HostError:
            return ()
        kept: deque[str] = deque(maxlen=LOG_RECORDS_MAX)
        with contextlib.suppress(HostError):
            while records := log.read():
                kept.extend(record.raw for record in records)
        log.close()
        return tuple(kept)

    def pcie(self) -> Mapping[str, Mapping[str, str]]:
        """Return link state, power state and error counters of each NVIDIA device."""
        devices = self._sys / "bus" / "pci" / "devices"
        found = {}
        for device in sorted(_entries(devices)):
            if _read(device / "vendor") == _NVIDIA:
                facts = {name: _read(device / name) for name in _BUS_FILES}
                driver = device / "driver"
                bound = driver.resolve().name if driver.exists() else "none"
                found[device.name] = {"driver": bound} | {k: v for k, v in facts.items() if v}
        return found

    def processes(self) -> Sequence[Mapping[str, str]]:
        """Return the processes with an NVIDIA device open; only root sees those of other users."""
        return [
            {"pid": process.name, "name": _read(process / "comm"), "state": (stat or [""])[0][:1]}
            for process, stat in islice(_gpu_processes(self._proc), PROCESSES_MAX)
        ]

    def versions(self) -> Mapping[str, str]:
        """Return the versions of kernel and driver."""
        facts = {
            "kernel": platform.release(),
            "cmdline": _read(self._proc / "cmdline"),
            "driver": _read(self._proc / "driver" / "nvidia" / "version"),
            "uptime_s": _read(self._proc / "uptime").partition(" ")[0],
        }
        for gpu in sorted(_entries(self._proc / "driver" / "nvidia" / "gpus")):
            facts[f"gpu {gpu.name}"] = _read(gpu / "information")
        return {name: value for name, value in facts.items() if value}


def gpu_holders(proc: Path) -> Iterator[tuple[int, int, str]]:
    """Yield pid, parent pid and name of the processes with an NVIDIA device open."""
    for process, stat in _gpu_processes(proc):
        parent = int(stat[1]) if len(stat) > 1 and stat[1].isdecimal() else 0
        yield int(process.name), parent, _read(process / "comm") or "unnamed"


def _gpu_processes(proc: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield the folder of each process with an NVIDIA device open, and its state in words."""
    for process in sorted(_entries(proc), key=lambda path: path.name.zfill(10)):
        if process.name.isdecimal() and _holds_gpu(process):
            yield process, _read(process / "stat").rpartition(")")[2].split()


def _entries(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from folder.iterdir()


def _read(file: Path) -> str:
    try:
        return file.read_bytes()[:16384].decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _holds_gpu(process: Path) -> bool:
    for file in _entries(process / "fd"):
        with contextlib.suppress(OSError):
            if os.readlink(file).startswith("/dev/nvidia"):
                return True
    return False

"""A Linux machine."""

import os
import platform
import socket
from pathlib import Path

from navarch.ports.host import CpuTimes, HostError, Memory


class LinuxHost:
    """Reads `/proc`."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def boot_id(self) -> str:
        """Return the kernel's own name for this boot."""
        return self._read("sys/kernel/random/boot_id").strip()

    def hostname(self) -> str:
        """Return the machine's name."""
        return socket.gethostname()

    def kernel_version(self) -> str:
        """Return the kernel's release."""
        return platform.release()

    def internal_ip(self) -> str:
        """Return the address from which the default route would be used.

        Connecting a datagram socket sends nothing; it only makes the kernel choose. The
        address is one that is reserved for examples and belongs to nobody.
        """
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))
                return str(probe.getsockname()[0])
            except OSError:
                return ""

    def cpu_times(self) -> CpuTimes:
        """Return processor time since boot."""
        return parse_cpu_times(self._read("stat"))

    def memory(self) -> Memory:
        """Return main memory."""
        return parse_memory(self._read("meminfo"))

    def _read(self, name: str) -> str:
        path = self._proc / name
        try:
            return path.read_text(errors="replace")
        except OSError as error:
            raise HostError(f"{path}: {os.strerror(error.errno or 0)}") from error


def parse_cpu_times(stat: str) -> CpuTimes:
    """Return what the first line of `/proc/stat` says. Waiting for a disk counts as idle."""
    label, *ticks = stat.partition("\n")[0].split() or [""]
    if label != "cpu" or len(ticks) < 5 or not all(tick.isdecimal() for tick in ticks):
        raise HostError("/proc/stat makes no sense")
    # The guests' time is already contained in the first two columns.
    counted = [int(tick) for tick in ticks[:8]]
    return CpuTimes(idle=counted[3] + counted[4], total=sum(counted))


def parse_memory(meminfo: str) -> Memory:
    """Return what `/proc/meminfo` says."""
    kib = {}
    for line in meminfo.splitlines():
        name, _, value = line.partition(":")
        amount = value.split()
        if amount and amount[0].isdecimal():
            kib[name] = int(amount[0])
    if "MemTotal" not in kib or "MemAvailable" not in kib:
        raise HostError("/proc/meminfo does not say how much memory there is")
    return Memory(total_bytes=kib["MemTotal"] * 1024, available_bytes=kib["MemAvailable"] * 1024)

"""A Linux machine."""

import ctypes
import platform
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from navarch.hosts.filesystems import read_filesystems
from navarch.hosts.sysfs import names, number, read_text, word
from navarch.ports.host import (
    CpuTimes,
    Filesystem,
    HostError,
    Memory,
    MemoryErrors,
    NetworkPort,
)

PCI_VENDOR_NVIDIA = "0x10de"
PCI_CLASSES_GPU = ("0x0300", "0x0302")
"""A display controller with and without a display."""
INITIAL_PID_NAMESPACE = 0xEFFFFFFC
"""The kernel's fixed number for it: whoever lives there sees every process."""


class LinuxHost:
    """Reads `/proc` and `/sys`."""

    def __init__(
        self,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        fstab: Path = Path("/etc/fstab"),
    ) -> None:
        self._proc = proc
        self._sys = sys
        self._fstab = fstab

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

    # What the checks of the machine itself need

    def filesystems(self) -> Sequence[Filesystem]:
        """Return the filesystems that hold data."""
        return tuple(read_filesystems(self._proc, self._fstab))

    def memory_errors(self) -> MemoryErrors | None:
        """Return what EDAC's memory controllers have counted."""
        folder = self._sys / "devices" / "system" / "edac" / "mc"
        controllers = [name for name in names(folder) if name.removeprefix("mc").isdecimal()]
        if not controllers:
            return None
        return MemoryErrors(
            corrected=sum(number(folder / name / "ce_count") for name in controllers),
            uncorrected=sum(number(folder / name / "ue_count") for name in controllers),
        )

    def network_ports(self) -> Sequence[NetworkPort]:
        """Return the ports of InfiniBand and RoCE adapters."""
        return tuple(read_ports(self._sys))

    def oom_kills(self) -> int | None:
        """Return the kernel's count."""
        lines = (line.split() for line in self._read("vmstat").splitlines())
        return next((int(value) for name, value in lines if name == "oom_kill"), None)

    def clock_error_s(self) -> float | None:
        """Return by how much the clock may be wrong."""
        return clock_error_s()

    def gpu_functions(self) -> int | None:
        """Return how many NVIDIA GPUs are on the PCI bus."""
        folder = self._sys / "bus" / "pci" / "devices"
        devices = names(folder)
        if not devices:
            return None
        return sum(
            word(folder / device / "vendor") == PCI_VENDOR_NVIDIA
            and word(folder / device / "class").startswith(PCI_CLASSES_GPU)
            for device in devices
        )

    def gpu_module_version(self) -> str:
        """Return the version of the loaded NVIDIA kernel module."""
        return parse_module_version(word(self._proc / "driver" / "nvidia" / "version"))

    def process_states(self, pids: Sequence[int]) -> Mapping[int, str] | None:
        """Return the letter that `/proc/PID/stat` gives each process."""
        if not self._sees_all():
            return None
        states = {pid: word(self._proc / str(pid) / "stat") for pid in pids}
        # The name is in brackets and may hold anything, a closing bracket included.
        return {pid: text.rpartition(")")[2].split()[0] for pid, text in states.items() if text}

    def job_of(self, pid: int) -> str:
        """Return what a workload system has left in a process' environment; nothing else is read.

        The driver counts processes as the whole machine does; from inside a container another
        process would be asked.
        """
        if not self._sees_all():
            return ""
        try:
            environment = (self._proc / str(pid) / "environ").read_bytes()
        except OSError:
            return ""  # It has ended, or is not ours to look at.
        return parse_job(environment)

    def _sees_all(self) -> bool:
        """Return whether process numbers here are those of the whole machine."""
        try:
            namespace = (self._proc / "self" / "ns" / "pid").stat().st_ino
        except OSError:
            return False
        return namespace == INITIAL_PID_NAMESPACE

    def _read(self, name: str) -> str:
        return read_text(self._proc / name)


JOB_VARIABLES = (
    "NAVARCH_JOB_ID",
    "SLURM_JOB_ID",
    "PBS_JOBID",
    "LSB_JOBID",
    "FLUX_JOB_ID",
    "TORCHELASTIC_RUN_ID",
)
"""Where workload systems name the job of a process: ours first, then Slurm, PBS, LSF, Flux, and
the launcher of PyTorch."""


def parse_job(environment: bytes) -> str:
    """Return the job that an environment, as in `/proc/PID/environ`, names; empty if none."""
    found: dict[str, str] = {}
    for line in environment.split(b"\0"):
        name, _, value = line.partition(b"=")
        if name.decode("ascii", "replace") in JOB_VARIABLES:
            found[name.decode("ascii")] = value.decode("utf-8", "replace").strip()
    # `none` is what PyTorch's launcher calls a run that nobody has named.
    named = (found.get(name, "") for name in JOB_VARIABLES)
    return next((job for job in named if job and job != "none"), "")


def parse_module_version(text: str) -> str:
    """Return `580.159.04` of the first line of `/proc/driver/nvidia/version`."""
    words = text.partition("\n")[0].split()
    return next((word for word in words if word[0].isdecimal() and "." in word), "")


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


def read_ports(sys: Path) -> Iterator[NetworkPort]:
    """Yield every port of every adapter."""
    adapters = sys / "class" / "infiniband"
    for adapter in names(adapters):
        for port in names(adapters / adapter / "ports"):
            yield _port(f"{adapter}/{port}", adapters / adapter / "ports" / port)


def _port(name: str, folder: Path) -> NetworkPort:
    return NetworkPort(
        name=name,
        state=_after_number(word(folder / "state")),
        physical=_after_number(word(folder / "phys_state")),
        rate=word(folder / "rate"),
        ethernet=word(folder / "link_layer") == "Ethernet",
        link_downed=number(folder / "counters" / "link_downed"),
        symbol_errors=number(folder / "counters" / "symbol_error"),
    )


def _after_number(text: str) -> str:
    """Return `ACTIVE` of `4: ACTIVE`."""
    return text.partition(":")[2].strip() or text


_UNSYNCHRONISED = 0x0040
_ERROR = 5


class _Timex(ctypes.Structure):
    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def clock_error_s() -> float | None:
    """Return the estimated error in seconds; infinity where nobody keeps the clock right."""
    timex = _Timex(modes=0)
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.byref(timex))
    except (AttributeError, OSError):
        return None
    if state < 0:
        return None
    if timex.status & _UNSYNCHRONISED or state == _ERROR:
        return float("inf")
    return float(timex.esterror) / 1e6

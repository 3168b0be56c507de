"""A Linux host."""

import ctypes
import platform
import socket
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path

from navarch.hosts.fabric_manager import read_fabric_manager
from navarch.hosts.filesystems import names, number, read_filesystems, read_text, word
from navarch.ports.host import (
    CpuTimes,
    FabricManager,
    Filesystem,
    HostError,
    Memory,
    MemoryErrors,
    NetworkPort,
)

PCI_VENDOR_NVIDIA = "0x10de"
PCI_CLASSES_GPU = ("0x0300", "0x0302")
"""A display controller, and a 3D controller without a display."""
PCI_CLASSES_NVSWITCH = ("0x0680",)
"""A bridge of no other kind."""
INITIAL_PID_NAMESPACE = 0xEFFFFFFC
"""The inode of the initial PID namespace, in which every process is visible."""


ANYWHERE = "192.0.2.1"
"""An address that is reserved for documentation: only the default route leads there."""


class LinuxHost:
    """Reads `/proc`, `/sys` and the state of one systemd unit."""

    def __init__(
        self,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        fstab: Path = Path("/etc/fstab"),
        systemd: Path = Path("/run/systemd/system"),
        *,
        systemctl: str = "systemctl",
        journalctl: str = "journalctl",
        server: str = "",
    ) -> None:
        """`server` is the host name or address of the control plane."""
        self._proc = proc
        self._sys = sys
        self._fstab = fstab
        self._systemd = systemd
        self._systemctl = systemctl
        self._journalctl = journalctl
        self._server = server

    def boot_id(self) -> str:
        """Return the kernel's boot id."""
        return read_text(self._proc / "sys/kernel/random/boot_id").strip()

    def hostname(self) -> str:
        """Return the hostname."""
        return socket.gethostname()

    def kernel_version(self) -> str:
        """Return the kernel's release."""
        return platform.release()

    def internal_ip(self) -> str:
        """Return the source address of the default route.

        A machine on a network of its own may have no such route: then it is the one of the route to
        the control plane, if that is known by its address. A name may take long to resolve.
        """
        addresses = [ANYWHERE, self._server] if _is_elsewhere(self._server) else [ANYWHERE]
        return next(filter(None, map(_source_address, addresses)), "")

    def cpu_times(self) -> CpuTimes:
        """Return CPU time since boot."""
        return parse_cpu_times(read_text(self._proc / "stat"))

    def memory(self) -> Memory:
        """Return main memory."""
        return parse_memory(read_text(self._proc / "meminfo"))

    # For the host checks

    def filesystems(self) -> Sequence[Filesystem]:
        """Return the filesystems that hold data."""
        return tuple(read_filesystems(self._proc, self._fstab))

    def memory_errors(self) -> MemoryErrors | None:
        """Return the error counts of EDAC's memory controllers."""
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
        adapters = self._sys / "class" / "infiniband"
        found: list[NetworkPort] = []
        for adapter in names(adapters):
            for port in names(adapters / adapter / "ports"):
                folder = adapters / adapter / "ports" / port
                found.append(
                    NetworkPort(
                        name=f"{adapter}/{port}",
                        state=_after_number(word(folder / "state")),
                        physical=_after_number(word(folder / "phys_state")),
                        rate=word(folder / "rate"),
                        ethernet=word(folder / "link_layer") == "Ethernet",
                        link_downed=number(folder / "counters" / "link_downed"),
                        symbol_errors=number(folder / "counters" / "symbol_error"),
                    )
                )
        return tuple(found)

    def oom_kills(self) -> int | None:
        """Return the number of OOM kills since boot."""
        lines = (line.split() for line in read_text(self._proc / "vmstat").splitlines())
        return next((int(value) for name, value in lines if name == "oom_kill"), None)

    def clock_error_s(self) -> float | None:
        """Return the estimated error of the clock; infinity if it is not synchronised."""
        timex = _Timex(modes=0)
        try:
            state = ctypes.CDLL(None).adjtimex(ctypes.byref(timex))
        except (AttributeError, OSError):
            return None
        if state < 0:
            return None
        if timex.status & _UNSYNCHRONISED or state == _CLOCK_ERROR:
            return float("inf")
        return float(timex.esterror) / 1e6

    def gpu_functions(self) -> int | None:
        """Return how many NVIDIA GPUs are on the PCI bus."""
        return self._nvidia_functions(PCI_CLASSES_GPU)

    def nvswitches(self) -> int | None:
        """Return how many NVSwitches are on the PCI bus."""
        return self._nvidia_functions(PCI_CLASSES_NVSWITCH)

    def fabric_manager(self) -> FabricManager | None:
        """Return the service that configures NVSwitches; None if systemd does not run here."""
        if not self._systemd.is_dir():
            return None
        return read_fabric_manager(self._systemctl, self._journalctl)

    def _nvidia_functions(self, classes: tuple[str, ...]) -> int | None:
        folder = self._sys / "bus" / "pci" / "devices"
        devices = names(folder)
        if not devices:
            return None
        return sum(
            word(folder / device / "vendor") == PCI_VENDOR_NVIDIA
            and word(folder / device / "class").startswith(classes)
            for device in devices
        )

    def gpu_module_version(self) -> str:
        """Return the version of the loaded NVIDIA kernel module."""
        return parse_module_version(word(self._proc / "driver" / "nvidia" / "version"))

    def process_states(self, pids: Sequence[int]) -> Mapping[int, str] | None:
        """Return the state letter in `/proc/PID/stat` of each process."""
        if not self._sees_all():
            return None
        states = {pid: word(self._proc / str(pid) / "stat") for pid in pids}
        # The name is in brackets and may itself contain brackets.
        return {pid: text.rpartition(")")[2].split()[0] for pid, text in states.items() if text}

    def job_of(self, pid: int) -> str:
        """Return the job id in a process's environment; no other variable is used.

        The driver reports pids of the initial namespace; inside a container they would belong to
        other processes.
        """
        if not self._sees_all():
            return ""
        try:
            environment = (self._proc / str(pid) / "environ").read_bytes()
        except OSError:
            return ""  # It has ended, or is not readable.
        return parse_job(environment)

    def _sees_all(self) -> bool:
        """Return whether this is the initial PID namespace."""
        try:
            namespace = (self._proc / "self" / "ns" / "pid").stat().st_ino
        except OSError:
            return False
        return namespace == INITIAL_PID_NAMESPACE


JOB_VARIABLES = (
    *("NAVARCH_JOB_ID", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"),
    "TORCHELASTIC_RUN_ID",
)
"""The variables with a process's job id: ours first, then Slurm, PBS, LSF, Flux, and PyTorch's
launcher."""


def parse_job(environment: bytes) -> str:
    """Return the job named in the content of `/proc/PID/environ`; empty if none."""
    found: dict[str, str] = {}
    for line in environment.split(b"\0"):
        name, _, value = line.partition(b"=")
        if name.decode("ascii", "replace") in JOB_VARIABLES:
            found[name.decode("ascii")] = value.decode("utf-8", "replace").strip()
    # PyTorch's launcher uses `none` for a run without an id.
    named = (found.get(name, "") for name in JOB_VARIABLES)
    return next((job for job in named if job and job != "none"), "")


def parse_module_version(text: str) -> str:
    """Return the version, such as `580.159.04`, from `/proc/driver/nvidia/version`."""
    words = text.partition("\n")[0].split()
    return next((word for word in words if word[0].isdecimal() and "." in word), "")


def parse_cpu_times(stat: str) -> CpuTimes:
    """Return the times in the first line of `/proc/stat`. I/O wait counts as idle."""
    label, *ticks = stat.partition("\n")[0].split() or [""]
    if label != "cpu" or len(ticks) < 5 or not all(tick.isdecimal() for tick in ticks):
        raise HostError("/proc/stat cannot be parsed")
    # Guest time is already included in the first two columns.
    counted = [int(tick) for tick in ticks[:8]]
    return CpuTimes(idle=counted[3] + counted[4], total=sum(counted))


def parse_memory(meminfo: str) -> Memory:
    """Return total and available memory from `/proc/meminfo`."""
    kib = {}
    for line in meminfo.splitlines():
        name, _, value = line.partition(":")
        amount = value.split()
        if amount and amount[0].isdecimal():
            kib[name] = int(amount[0])
    if "MemTotal" not in kib or "MemAvailable" not in kib:
        raise HostError("/proc/meminfo lacks MemTotal or MemAvailable")
    return Memory(total_bytes=kib["MemTotal"] * 1024, available_bytes=kib["MemAvailable"] * 1024)


def _after_number(text: str) -> str:
    """Return `ACTIVE` for `4: ACTIVE`."""
    return text.partition(":")[2].strip() or text


_UNSYNCHRONISED = 0x0040
_CLOCK_ERROR = 5


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


def _is_elsewhere(host: str) -> bool:
    """Return whether `host` is an address that is not this machine's own."""
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return False


def _source_address(target: str) -> str:
    """Return the address from which this machine would send to `target`; empty without a route.

    Connecting a datagram socket sends nothing; it only makes the kernel choose.
    """
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((target, 9))
            return str(probe.getsockname()[0])
        except OSError:
            return ""

"""The ports to the machine: its state, changes to it, and its provider's metadata."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from navarch.core.errors import NavarchError
from navarch.core.instance import Notice
from navarch.core.witness import Reach


class HostError(NavarchError):
    """The operating system did not provide the information."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTimes:
    """Processor time since boot, over all cores, in ticks."""

    idle: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Main memory."""

    total_bytes: int
    available_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Filesystem:
    """A mounted filesystem, and whether it responds."""

    path: str
    kind: str
    read_only: bool = False
    total_bytes: int = 0
    free_bytes: int = 0
    files_total: int = 0
    files_free: int = 0
    answers: bool = True
    """False if an access would block, as on a network filesystem with a server that is down."""
    wanted_writable: bool = False
    """Whether the machine's own configuration mounts it for writing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryErrors:
    """Errors that the memory controllers have counted since boot."""

    corrected: int = 0
    uncorrected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPort:
    """A port of an InfiniBand or RoCE adapter."""

    name: str
    """Device and number, as `mlx5_0/1`."""
    state: str
    """As the kernel names it: ACTIVE, INIT, DOWN."""
    physical: str = ""
    rate: str = ""
    ethernet: bool = False
    link_downed: int = 0
    """The number of times the link has gone down since the adapter was reset."""
    symbol_errors: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricManager:
    """The service that configures the NVSwitches of a machine."""

    state: str
    """As systemd names it: active, activating, inactive, failed."""
    errors: tuple[str, ...] = ()
    """The errors that it has logged since its start, within the last hour, oldest first."""


class Host(Protocol):
    """Information from the operating system. Calls may block, and raise only HostError."""

    def boot_id(self) -> str:
        """Return a name for this boot of the machine; the next boot has another."""

    def hostname(self) -> str:
        """Return the machine's name."""

    def kernel_version(self) -> str:
        """Return the kernel version, or an empty string."""

    def internal_ip(self) -> str:
        """Return the address of the machine in its network, or an empty string."""

    def cpu_times(self) -> CpuTimes:
        """Return processor time since boot."""

    def memory(self) -> Memory:
        """Return total and available memory."""

    # For the checks of the machine itself. None or empty if unknown.

    def filesystems(self) -> Sequence[Filesystem]:
        """Return the filesystems that hold data, on disks and over the network."""

    def memory_errors(self) -> MemoryErrors | None:
        """Return the error counts of the memory controllers."""

    def network_ports(self) -> Sequence[NetworkPort]:
        """Return the ports of InfiniBand and RoCE adapters."""

    def oom_kills(self) -> int | None:
        """Return how many processes the kernel has killed for lack of memory since boot."""

    def clock_error_s(self) -> float | None:
        """Return the maximum error of the clock; infinity if it is not synchronised."""

    def gpu_functions(self) -> int | None:
        """Return how many NVIDIA GPUs are on the PCI bus, with or without a driver."""

    def nvswitches(self) -> int | None:
        """Return how many NVSwitches are on the PCI bus."""

    def fabric_manager(self) -> FabricManager | None:
        """Return the service that configures NVSwitches, if this machine has it."""

    def gpu_module_version(self) -> str:
        """Return the version of the loaded NVIDIA kernel module, or an empty string."""

    def process_states(self, pids: Sequence[int]) -> Mapping[int, str] | None:
        """Return the state letter of each existing process; None if some are not visible."""

    def job_of(self, pid: int) -> str:
        """Return the job of a workload system to which a process belongs; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRecord:
    """One message of the kernel's log."""

    sequence: int
    """Counts up within one boot, without gaps; zero if the source has no numbers."""
    at: datetime
    text: str
    from_kernel: bool = True
    """False for messages that user space has written into the log: they prove nothing."""
    raw: str = ""
    """The record as its source gave it, for evidence and recordings."""


class KernelLog(Protocol):
    """Follows the kernel log. Calls never block, and raise only HostError.

    ```python
    log = Kmsg(clock)
    for record in log.read():
        print(record.sequence, record.text)
    ```
    """

    @property
    def name(self) -> str:
        """The source's name, in counters and findings."""

    @property
    def lost(self) -> int:
        """How many times records were overwritten before they were read."""

    def read(self) -> Sequence[KernelRecord]:
        """Return the records since the last call, oldest first; at first, all that are kept."""

    def fileno(self) -> int:
        """Return the file descriptor to wait on for more records; -1 if there is none."""

    def close(self) -> None:
        """Stop following."""


class Bookmark(Protocol):
    """Stores a sequence number across restarts of the agent, not across boots."""

    def load(self, boot_id: str) -> int:
        """Return the last record that was processed in this boot; -1 for none."""

    def save(self, boot_id: str, sequence: int) -> None:
        """Store that everything up to `sequence` was processed; or raise HostError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that has a GPU open."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


class Effects(Protocol):
    """Changes to the machine. Calls block, end by their deadline, and raise only HostError."""

    def holders(self) -> Sequence[Holder]:
        """Return the processes, other than the agent's own, that have an NVIDIA device open."""

    def reset_gpus(self, gpus: Sequence[str], *, within_s: float) -> str:
        """Reset GPUs by UUID, all of them if none is given; return the output of the tool."""

    def reboot(self, *, within_s: float) -> None:
        """Request a restart of the operating system, which begins some time after this returns."""

    def restart_unit(self, unit: str, *, within_s: float) -> None:
        """Restart a service."""

    def stop(self, pids: Sequence[int], *, within_s: float) -> None:
        """Terminate processes, and kill them after the deadline."""


class Prober(Protocol):
    """Connects to other machines of the fleet."""

    async def connect(self, address: str, port: int, *, within_s: float) -> Reach:
        """Open a TCP connection to an IP address, wait for a greeting, and close it."""


class MetadataError(NavarchError):
    """The metadata service did not respond, or its response was invalid."""


class NoticeSource(Protocol):
    """Reads one metadata service. Calls block for a minute at most."""

    @property
    def name(self) -> str:
        """The source's name, in logs."""

    @property
    def pause_s(self) -> float:
        """The pause between two calls; zero if `look` itself waits for changes."""

    def look(self) -> Sequence[Notice]:
        """Return every notice in force, possibly none. Raises MetadataError."""


class NoticeWatch(Protocol):
    """Watches for notices in the background, so that reading them never blocks."""

    def start(self, on_change: Callable[[], None]) -> None:
        """Start watching; call `on_change`, on any thread, when notices have changed."""

    def notices(self) -> Sequence[Notice] | None:
        """Return the notices in force without blocking; None until the first response."""

    def stop(self) -> None:
        """Stop, without waiting for pending responses."""

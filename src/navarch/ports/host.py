"""The port for reading the machine of an agent, apart from its GPUs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from navarch.core.errors import NavarchError


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

"""The machine an agent runs on, GPUs apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from navarch.core.errors import NavarchError


class HostError(NavarchError):
    """The operating system would not say."""


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
    """A mounted filesystem, and whether it still answers."""

    path: str
    kind: str
    read_only: bool = False
    total_bytes: int = 0
    free_bytes: int = 0
    files_total: int = 0
    files_free: int = 0
    answers: bool = True
    """A server that is gone takes everybody with it who so much as looks at its files."""
    wanted_writable: bool = False
    """Whether the machine's own configuration mounts it for writing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryErrors:
    """What the memory controllers have counted since boot."""

    corrected: int = 0
    uncorrected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPort:
    """A port of an InfiniBand or RoCE adapter."""

    name: str
    """Device and number, as `mlx5_0/1`."""
    state: str
    """As the kernel says it: ACTIVE, INIT, DOWN."""
    physical: str = ""
    rate: str = ""
    ethernet: bool = False
    link_downed: int = 0
    """How often the link has gone down since the adapter was reset."""
    symbol_errors: int = 0


class Host(Protocol):
    """What the operating system knows. Calls may block, and raise only HostError."""

    def boot_id(self) -> str:
        """Return a name for this boot of the machine; the next boot has another."""
        ...

    def hostname(self) -> str:
        """Return the machine's name."""
        ...

    def kernel_version(self) -> str:
        """Return the kernel's version, or nothing where that makes no sense."""
        ...

    def internal_ip(self) -> str:
        """Return the address the machine has towards its network, or nothing."""
        ...

    def cpu_times(self) -> CpuTimes:
        """Return processor time since boot."""
        ...

    def memory(self) -> Memory:
        """Return how much memory there is, and how much of it can be had."""
        ...

    # What the checks of the machine itself need. None or nothing is what cannot be told.

    def filesystems(self) -> Sequence[Filesystem]:
        """Return the filesystems that hold data, on disks and over the network."""
        ...

    def memory_errors(self) -> MemoryErrors | None:
        """Return what the memory controllers have counted."""
        ...

    def network_ports(self) -> Sequence[NetworkPort]:
        """Return the ports of InfiniBand and RoCE adapters."""
        ...

    def oom_kills(self) -> int | None:
        """Return how many processes the kernel has killed for memory since boot."""
        ...

    def clock_error_s(self) -> float | None:
        """Return by how much the clock may be wrong; infinity where nobody corrects it."""
        ...

    def gpu_functions(self) -> int | None:
        """Return how many NVIDIA GPUs are on the PCI bus, whether or not a driver drives them."""
        ...

    def gpu_module_version(self) -> str:
        """Return the version of the loaded NVIDIA kernel module, or nothing."""
        ...

    def process_states(self, pids: Sequence[int]) -> Mapping[int, str] | None:
        """Return the kernel's letter for each process that exists; None if not all can be seen."""
        ...

    def job_of(self, pid: int) -> str:
        """Return the job of a workload system that a process is part of; empty if it is of none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRecord:
    """One message of the kernel's log."""

    sequence: int
    """Counts up within one boot, without gaps; zero where the source does not count."""
    at: datetime
    text: str
    from_kernel: bool = True
    """False for what user space has written into the log: it proves nothing."""
    raw: str = ""
    """The record as its source gave it, for evidence and recordings."""


class KernelLog(Protocol):
    """Follows what the kernel says. Calls never block, and raise only HostError.

    ```python
    log = Kmsg(clock)
    for record in log.read():
        print(record.sequence, record.text)
    ```
    """

    @property
    def name(self) -> str:
        """The source's name, in counters and findings."""
        ...

    @property
    def lost(self) -> int:
        """How many times records were overwritten before we read them."""
        ...

    def read(self) -> Sequence[KernelRecord]:
        """Return what is new since the last call, oldest first; the first time, what is kept."""
        ...

    def fileno(self) -> int:
        """Return what to wait on for more; -1 where there is nothing to wait on."""
        ...

    def close(self) -> None:
        """Stop following."""
        ...


class Bookmark(Protocol):
    """Remembers a sequence number across restarts of the agent, not across boots."""

    def load(self, boot_id: str) -> int:
        """Return the last record that was dealt with in this boot; -1 for none."""
        ...

    def save(self, boot_id: str, sequence: int) -> None:
        """Remember that everything up to `sequence` has been dealt with; or raise HostError."""
        ...

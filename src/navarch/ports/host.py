"""The machine an agent runs on, GPUs apart."""

from dataclasses import dataclass
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

"""A machine that does not exist."""

from dataclasses import dataclass

from navarch.ports.clock import Clock, Entropy
from navarch.ports.host import CpuTimes, Memory

MEMORY_BYTES = 2 * 1024**4


@dataclass(slots=True)
class SimulatedHost:
    """Answers plausibly, without touching the machine it runs on."""

    clock: Clock
    entropy: Entropy
    name: str
    boot: str = "boot-1"
    address: str = ""

    def boot_id(self) -> str:
        """Return the boot it was given."""
        return self.boot

    def hostname(self) -> str:
        """Return its name."""
        return self.name

    def kernel_version(self) -> str:
        """Return what a simulated kernel says."""
        return "simulated"

    def internal_ip(self) -> str:
        """Return the address it was given."""
        return self.address

    def cpu_times(self) -> CpuTimes:
        """Return the times of a machine that is a quarter busy."""
        total = int(self.clock.monotonic() * 100.0)
        return CpuTimes(idle=total * 3 // 4, total=total)

    def memory(self) -> Memory:
        """Return memory that is a tenth to a half used."""
        used = int(MEMORY_BYTES * self.entropy.uniform(0.1, 0.5))
        return Memory(total_bytes=MEMORY_BYTES, available_bytes=MEMORY_BYTES - used)

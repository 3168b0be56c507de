"""A machine that does not exist."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from navarch.ports.clock import Clock, Entropy
from navarch.ports.host import CpuTimes, Filesystem, Memory, MemoryErrors, NetworkPort

MEMORY_BYTES = 2 * 1024**4


@dataclass(slots=True)
class SimulatedHost:
    """Answers plausibly, without touching the machine it runs on."""

    clock: Clock
    entropy: Entropy
    name: str
    boot: str = "boot-1"
    address: str = ""
    disks: tuple[Filesystem, ...] = ()
    errors: MemoryErrors | None = None
    ports: tuple[NetworkPort, ...] = ()
    killed: int = 0
    clock_wrong_s: float | None = None
    gpus_on_bus: int | None = None
    module: str = ""
    processes: dict[int, str] | None = None
    jobs: dict[int, str] | None = None

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

    def filesystems(self) -> Sequence[Filesystem]:
        """Return the disks it was given."""
        return self.disks

    def memory_errors(self) -> MemoryErrors | None:
        """Return the errors it was given."""
        return self.errors

    def network_ports(self) -> Sequence[NetworkPort]:
        """Return the ports it was given."""
        return self.ports

    def oom_kills(self) -> int | None:
        """Return what it was given."""
        return self.killed

    def clock_error_s(self) -> float | None:
        """Return what it was given."""
        return self.clock_wrong_s

    def gpu_functions(self) -> int | None:
        """Return what it was given."""
        return self.gpus_on_bus

    def gpu_module_version(self) -> str:
        """Return what it was given."""
        return self.module

    def process_states(self, pids: Sequence[int]) -> Mapping[int, str] | None:
        """Return those of the processes it was given."""
        if self.processes is None:
            return None
        return {pid: state for pid, state in self.processes.items() if pid in pids}

    def job_of(self, pid: int) -> str:
        """Return that of the processes it was given."""
        return (self.jobs or {}).get(pid, "")

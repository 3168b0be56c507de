"""A simulated host: its readings, the effects on it, and its diagnostic facts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from navarch.ports.clock import Clock, Entropy
from navarch.ports.host import (
    CpuTimes,
    FabricManager,
    Filesystem,
    Holder,
    Host,
    HostError,
    Memory,
    MemoryErrors,
    NetworkPort,
)

MEMORY_BYTES = 2 * 1024**4


@dataclass(slots=True)
class SimulatedHost:
    """Returns plausible readings without touching the machine it runs on."""

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
    switches: int | None = None
    manager: FabricManager | None = None
    module: str = ""
    processes: dict[int, str] | None = None
    jobs: dict[int, str] | None = None

    def boot_id(self) -> str:
        """Return the configured boot id."""
        return self.boot

    def hostname(self) -> str:
        """Return the configured name."""
        return self.name

    def kernel_version(self) -> str:
        """Return a fixed version."""
        return "simulated"

    def internal_ip(self) -> str:
        """Return the configured address."""
        return self.address

    def cpu_times(self) -> CpuTimes:
        """Return the CPU times of a host that is 25 % busy."""
        total = int(self.clock.monotonic() * 100.0)
        return CpuTimes(idle=total * 3 // 4, total=total)

    def memory(self) -> Memory:
        """Return memory that is 10 % to 50 % used."""
        used = int(MEMORY_BYTES * self.entropy.uniform(0.1, 0.5))
        return Memory(total_bytes=MEMORY_BYTES, available_bytes=MEMORY_BYTES - used)

    def filesystems(self) -> Sequence[Filesystem]:
        """Return the configured filesystems."""
        return self.disks

    def memory_errors(self) -> MemoryErrors | None:
        """Return the configured errors."""
        return self.errors

    def network_ports(self) -> Sequence[NetworkPort]:
        """Return the configured ports."""
        return self.ports

    def oom_kills(self) -> int | None:
        """Return the configured count."""
        return self.killed

    def clock_error_s(self) -> float | None:
        """Return the configured error."""
        return self.clock_wrong_s

    def gpu_functions(self) -> int | None:
        """Return the configured count."""
        return self.gpus_on_bus

    def nvswitches(self) -> int | None:
        """Return the configured count."""
        return self.switches

    def fabric_manager(self) -> FabricManager | None:
        """Return the configured service."""
        return self.manager

    def gpu_module_version(self) -> str:
        """Return the configured version."""
        return self.module

    def process_states(self, pids: Sequence[int]) -> Mapping[int, str] | None:
        """Return the configured states of `pids`."""
        if self.processes is None:
            return None
        return {pid: state for pid, state in self.processes.items() if pid in pids}

    def job_of(self, pid: int) -> str:
        """Return the configured job of a process."""
        return (self.jobs or {}).get(pid, "")


@dataclass(slots=True)
class SimulatedEffects:
    """Records the effects on a simulated machine and applies them."""

    on_reset: Callable[[Sequence[str]], None] = lambda _: None
    on_reboot: Callable[[], None] = lambda: None
    in_use_by: list[Holder] = field(default_factory=list)
    fails: str = ""
    """The error of every tool; empty if they succeed."""
    done: list[str] = field(default_factory=list)

    def holders(self) -> Sequence[Holder]:
        """Return the configured holders."""
        return list(self.in_use_by)

    def reset_gpus(self, gpus: Sequence[str], *, within_s: float) -> str:
        """Reset GPUs."""
        del within_s
        self._did(f"reset {','.join(gpus)}")
        self.on_reset(gpus)
        return "All done."

    def reboot(self, *, within_s: float) -> None:
        """Reboot the machine."""
        del within_s
        self._did("reboot")
        self.on_reboot()

    def restart_unit(self, unit: str, *, within_s: float) -> None:
        """Restart a unit."""
        del within_s
        self._did(f"restart {unit}")

    def stop(self, pids: Sequence[int], *, within_s: float) -> None:
        """Stop processes."""
        del within_s
        self._did(f"stop {','.join(map(str, pids))}")
        self.in_use_by = [holder for holder in self.in_use_by if holder.pid not in pids]

    def _did(self, what: str) -> None:
        if self.fails:
            raise HostError(self.fails)
        self.done.append(what)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedFacts:
    """Facts of a simulated machine; log and bus are read on demand."""

    host: Host
    log: Callable[[], Sequence[str]]
    bus: Callable[[], Mapping[str, Mapping[str, str]]]
    driver: str = "simulated"

    def kernel_log(self) -> Sequence[str]:
        """Return the kernel log records of the GPUs."""
        return self.log()

    def pcie(self) -> Mapping[str, Mapping[str, str]]:
        """Return the PCIe state of the GPUs."""
        return self.bus()

    def processes(self) -> Sequence[Mapping[str, str]]:
        """Return nothing: a simulated machine has no processes."""
        return ()

    def versions(self) -> Mapping[str, str]:
        """Return the versions of kernel and driver."""
        return {"kernel": self.host.kernel_version(), "driver": self.driver}

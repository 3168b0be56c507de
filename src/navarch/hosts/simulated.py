"""A machine that does not exist."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from navarch.ports.clock import Clock, Entropy
from navarch.ports.effects import Holder
from navarch.ports.host import (
    CpuTimes,
    Filesystem,
    Host,
    HostError,
    Memory,
    MemoryErrors,
    NetworkPort,
)

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


@dataclass(slots=True)
class SimulatedEffects:
    """Does to a simulated machine what would be done to a real one, and writes it down."""

    on_reset: Callable[[Sequence[str]], None] = lambda _: None
    on_reboot: Callable[[], None] = lambda: None
    in_use_by: list[Holder] = field(default_factory=list)
    fails: str = ""
    """What every tool says, if it fails."""
    done: list[str] = field(default_factory=list)

    def holders(self) -> Sequence[Holder]:
        """Return who was put there."""
        return list(self.in_use_by)

    def reset_gpus(self, gpus: Sequence[str], *, within_s: float) -> str:
        """Reset them."""
        del within_s
        self._did(f"reset {','.join(gpus)}")
        self.on_reset(gpus)
        return "All done."

    def reboot(self, *, within_s: float) -> None:
        """Go down and come up again."""
        del within_s
        self._did("reboot")
        self.on_reboot()

    def restart_unit(self, unit: str, *, within_s: float) -> None:
        """Restart it."""
        del within_s
        self._did(f"restart {unit}")

    def stop(self, pids: Sequence[int], *, within_s: float) -> None:
        """End them."""
        del within_s
        self._did(f"stop {','.join(map(str, pids))}")
        self.in_use_by = [holder for holder in self.in_use_by if holder.pid not in pids]

    def _did(self, what: str) -> None:
        if self.fails:
            raise HostError(self.fails)
        self.done.append(what)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedFacts:
    """Tells what its host and its GPUs say: their log and their bus are asked for, not kept."""

    host: Host
    log: Callable[[], Sequence[str]]
    bus: Callable[[], Mapping[str, Mapping[str, str]]]
    driver: str = "simulated"

    def kernel_log(self) -> Sequence[str]:
        """Return the records that the GPUs' driver has left."""
        return self.log()

    def pcie(self) -> Mapping[str, Mapping[str, str]]:
        """Return what the bus says of the GPUs."""
        return self.bus()

    def processes(self) -> Sequence[Mapping[str, str]]:
        """Return none: nothing runs on a machine that does not exist."""
        return ()

    def versions(self) -> Mapping[str, str]:
        """Return those of its kernel and its driver."""
        return {"kernel": self.host.kernel_version(), "driver": self.driver}

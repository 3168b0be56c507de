"""What a machine that does not exist would tell of itself when something is wrong with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from navarch.ports.host import Host


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

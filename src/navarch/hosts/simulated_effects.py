"""Power over a machine that does not exist."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from navarch.ports.effects import Holder
from navarch.ports.host import HostError


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

"""A note on the machine itself, for when nobody else can be told."""

from collections.abc import Iterable

from navarch.agent.disk import Disk
from navarch.core.health import CheckResult, Health

FILE = "not-ready"


class Readiness:
    """Marks the machine as not ready while the control plane cannot.

    The mark is a file that says why. A job's prologue can look for it. It is made when the
    agent is cut off with a fatal finding, and goes when the finding does, or when the control
    plane, having heard of it, says that the node is fine.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._fatal: dict[str, str] = {}
        self._bad: set[str] = set()
        self._seen = False
        raw = disk.read(FILE)
        self.mark: str | None = None if raw is None else raw.decode(errors="replace").strip()

    def recall(self, findings: Iterable[CheckResult]) -> None:
        """Take over what an earlier life of this agent found."""
        self._fatal.update((r.check, r.reason) for r in findings if r.fatal)

    def weigh(self, results: Iterable[CheckResult], *, cut_off: bool) -> bool:
        """Take note of new results; return whether the mark changed."""
        for result in results:
            unhealthy = result.health is Health.UNHEALTHY
            if result.fatal and unhealthy:
                self._fatal[result.check] = result.reason
            elif result.health is Health.HEALTHY and not result.lasting:
                self._fatal.pop(result.check, None)
            self._seen = True
            (self._bad.add if unhealthy else self._bad.discard)(result.check)
        if not self._fatal:
            # A mark from before a reboot stays until the checks of this boot pass.
            return self._set(None) if self._seen and not self._bad else False
        if cut_off or self.mark is not None:
            return self._set("; ".join(f"{c}: {why}" for c, why in sorted(self._fatal.items())))
        return False

    def clear(self) -> bool:
        """Take the control plane's word that the machine is fine; return whether that is news."""
        self._fatal.clear()
        return self._set(None)

    def _set(self, mark: str | None) -> bool:
        if mark == self.mark:
            return False
        if mark is None:
            self._disk.remove(FILE)
        else:
            self._disk.replace(FILE, f"{mark}\n".encode(), sync=True)
        self.mark = mark
        return True

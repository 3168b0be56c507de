"""Things that happened during this boot and are not over: XIDs, above all.

They are reported once, when they happen. They are kept here as well, in case the reports are
lost with the control plane's memory, or with ours, and must be made again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from navarch.agent.spool.disk import Disk
from navarch.core.health import CheckResult, Health

FINDINGS_FILE = "findings.json"
NOT_READY_FILE = "not-ready"
KEPT_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredFindings:
    boot_id: str
    results: dict[str, CheckResult] = field(default_factory=dict)


class Findings:
    """The lasting results of one boot; a reboot starts afresh, a restart does not."""

    def __init__(self, disk: Disk, *, boot_id: str) -> None:
        self._disk = disk
        self._stored = _load(disk.read(FINDINGS_FILE))
        if self._stored.boot_id != boot_id:
            self._stored = _StoredFindings(boot_id=boot_id)

    @property
    def results(self) -> tuple[CheckResult, ...]:
        """Everything that has happened."""
        return tuple(self._stored.results.values())

    def add(self, results: Iterable[CheckResult]) -> None:
        """Keep those of `results` that last and are not good news."""
        new = {r.check: r for r in results if r.lasting and r.health is not Health.HEALTHY}
        if not new.items() <= self._stored.results.items():
            kept = {**self._stored.results, **new}
            self._save(dict(list(kept.items())[-KEPT_MAX:]))

    def clear(self) -> None:
        """Forget: somebody who may has decided that the machine is fine."""
        if self._stored.results:
            self._save({})

    def _save(self, results: dict[str, CheckResult]) -> None:
        self._stored = _StoredFindings(boot_id=self._stored.boot_id, results=results)
        self._disk.replace(FINDINGS_FILE, msgspec.json.encode(self._stored), sync=True)


def _load(raw: bytes | None) -> _StoredFindings:
    try:
        return msgspec.json.decode(raw or b"", type=_StoredFindings)
    except msgspec.DecodeError:
        return _StoredFindings(boot_id="")


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
        raw = disk.read(NOT_READY_FILE)
        self.mark: str | None = None if raw is None else raw.decode(errors="replace").strip()

    def recover(self, findings: Iterable[CheckResult]) -> None:
        """Take over what an earlier life of this agent found."""
        self._fatal.update((r.check, r.reason) for r in findings if r.fatal)

    def update(self, results: Iterable[CheckResult], *, cut_off: bool) -> bool:
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
            self._disk.remove(NOT_READY_FILE)
        else:
            self._disk.replace(NOT_READY_FILE, f"{mark}\n".encode(), sync=True)
        self.mark = mark
        return True

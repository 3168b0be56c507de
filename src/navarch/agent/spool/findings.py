"""Lasting findings of this boot, such as XIDs, and the machine's not-ready mark.

A lasting finding is reported once, when it occurs. It is also stored here, so that it can be
reported again if the control plane or the agent loses the report.
"""

import contextlib
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
    """The lasting results of one boot. They survive a restart of the agent, not a reboot."""

    def __init__(self, disk: Disk, *, boot_id: str) -> None:
        self._disk = disk
        self._boot_id = boot_id
        self.results: dict[str, CheckResult] = {}
        """The stored results by check."""
        with contextlib.suppress(msgspec.DecodeError):
            stored = msgspec.json.decode(disk.read(FINDINGS_FILE) or b"", type=_StoredFindings)
            if stored.boot_id == boot_id:
                self.results = stored.results

    def add(self, results: Iterable[CheckResult]) -> None:
        """Store those of `results` that are lasting and not healthy."""
        new = {r.check: r for r in results if r.lasting and r.health is not Health.HEALTHY}
        if not new.items() <= self.results.items():
            kept = {**self.results, **new}
            self._save(dict(list(kept.items())[-KEPT_MAX:]))

    def clear(self) -> None:
        """Delete all findings."""
        if self.results:
            self._save({})

    def _save(self, results: dict[str, CheckResult]) -> None:
        self.results = results
        stored = _StoredFindings(boot_id=self._boot_id, results=results)
        self._disk.replace(FINDINGS_FILE, msgspec.json.encode(stored), sync=True)


class Readiness:
    """Marks the machine as not ready while the control plane is unreachable.

    The mark is a file that contains the reason; a job's prologue can test for it. It is created
    when a disconnected agent has a fatal finding, and removed when the finding clears or when the
    control plane has received the finding and reports the node as active.
    """

    def __init__(self, disk: Disk, findings: Iterable[CheckResult]) -> None:
        self._disk = disk
        self._fatal = {found.check: found.reason for found in findings if found.fatal}
        self._bad: set[str] = set()
        self._seen = False
        raw = disk.read(NOT_READY_FILE)
        self.mark: str | None = None if raw is None else raw.decode(errors="replace").strip()

    def update(self, results: Iterable[CheckResult], *, cut_off: bool) -> None:
        """Apply new results to the mark."""
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
            if self._seen and not self._bad:
                self._set(None)
        elif cut_off or self.mark is not None:
            self._set("; ".join(f"{c}: {why}" for c, why in sorted(self._fatal.items())))

    def clear(self) -> None:
        """Remove the mark."""
        self._fatal.clear()
        self._set(None)

    def _set(self, mark: str | None) -> None:
        if mark == self.mark:
            return
        if mark is None:
            self._disk.remove(NOT_READY_FILE)
        else:
            self._disk.replace(NOT_READY_FILE, f"{mark}\n".encode(), sync=True)
        self.mark = mark

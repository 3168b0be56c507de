"""Things that happened during this boot and are not over: XIDs, above all.

They are reported once, when they happen. They are kept here as well, in case the reports are
lost with the control plane's memory, or with ours, and must be made again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from navarch.agent.disk import Disk
from navarch.core.health import CheckResult, Health

FILE = "findings.json"
KEPT_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    boot_id: str
    results: dict[str, CheckResult] = field(default_factory=dict)


class Findings:
    """The lasting results of one boot; a reboot starts afresh, a restart does not."""

    def __init__(self, disk: Disk, *, boot_id: str) -> None:
        self._disk = disk
        self._kept = _load(disk.read(FILE))
        if self._kept.boot_id != boot_id:
            self._kept = _Kept(boot_id=boot_id)

    @property
    def results(self) -> tuple[CheckResult, ...]:
        """Everything that has happened."""
        return tuple(self._kept.results.values())

    def add(self, results: Iterable[CheckResult]) -> None:
        """Keep those of `results` that last and are not good news."""
        new = {r.check: r for r in results if r.lasting and r.health is not Health.HEALTHY}
        if not new.items() <= self._kept.results.items():
            kept = {**self._kept.results, **new}
            self._keep(dict(list(kept.items())[-KEPT_MAX:]))

    def clear(self) -> None:
        """Forget: somebody who may has decided that the machine is fine."""
        if self._kept.results:
            self._keep({})

    def _keep(self, results: dict[str, CheckResult]) -> None:
        self._kept = _Kept(boot_id=self._kept.boot_id, results=results)
        self._disk.replace(FILE, msgspec.json.encode(self._kept), sync=True)


def _load(raw: bytes | None) -> _Kept:
    try:
        return msgspec.json.decode(raw or b"", type=_Kept)
    except msgspec.DecodeError:
        return _Kept(boot_id="")
